package player

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// pagerLimit is the limit of client-go's pager. A shared informer has no knob for it, so a scenario's page size is put
// in its place where the request is made.
const pagerLimit = 500

// PlayInformer plays a scenario through a SharedIndexInformer. It must be called in a synctest bubble, with the gate
// WatchListClient as the scenario wants it; folder takes the token file.
func PlayInformer(s *Scenario, folder string) (*Outcome, error) {
	clock := &clock{start: time.Now()}
	server := newServer(s, clock)
	token := filepath.Join(folder, "token")
	client, err := connect(s, server, token)
	if err != nil {
		return nil, err
	}
	p := &player{scenario: s, clock: clock, server: server, handlers: map[string]*handler{}, over: make(chan struct{})}
	p.informer = cache.NewSharedIndexInformerWithOptions(p.listWatch(client), &unstructured.Unstructured{}, cache.SharedIndexInformerOptions{
		ResyncPeriod: ms(s.Informer.ResyncMs),
		Indexers:     cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
	})
	if err := p.informer.SetWatchErrorHandlerWithContext(p.failed); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	finished := make(chan struct{})
	run := func() {
		p.informer.RunWithContext(ctx)
		p.stopped = clock.now()
		close(finished)
	}

	var script []timed
	for n := range s.Handlers {
		h := &handler{player: p, spec: &s.Handlers[n], seen: map[string]string{}, events: []Event{}}
		p.handlers[h.spec.Name] = h
		script = append(script, timed{h.spec.AddAtMs, h.add})
		if at := h.spec.RemoveAtMs; at != nil {
			script = append(script, timed{*at, h.remove})
		}
	}
	script = append(script, timed{0, func() { go run() }})
	commanded := false
	for _, command := range s.Commands {
		do := map[string]func(){
			"stop":     func() { commanded = true; stop() },
			"pause":    clock.pause,
			"resume":   clock.unpause,
			"setToken": func() { p.fault(os.WriteFile(token, []byte(command.Token), 0o600)) },
		}[command.Do]
		if do == nil {
			return nil, fmt.Errorf("commands: %q is unknown", command.Do)
		}
		script = append(script, timed{command.AtMs, do})
	}
	clock.play(script, s.RunForMs)
	outcome := p.outcome()
	select {
	case <-finished:
		if commanded {
			outcome.Phase = "stopped"
			outcome.StoppedAtMs = &p.stopped
		}
	default:
	}
	close(p.over)
	clock.unpause()
	stop()
	<-finished
	return outcome, errors.Join(p.faults...)
}

// connect makes the dynamic client that speaks to server. Credentials are a token file, as in a pod.
func connect(s *Scenario, server *server, token string) (dynamic.Interface, error) {
	// Without a limit of its own: the server's priority and fairness is what guards it today.
	config := dynamic.ConfigFor(&rest.Config{Host: "http://server", Transport: server, QPS: -1})
	if slices.ContainsFunc(s.Commands, func(command Command) bool { return command.Do == "setToken" }) {
		if err := os.WriteFile(token, []byte("A"), 0o600); err != nil {
			return nil, err
		}
		config.BearerTokenFile = token
	}
	// As dynamic.NewForConfig does, but with decoders that remember where an object came from.
	config.NegotiatedSerializer = sourced{NegotiatedSerializer: config.NegotiatedSerializer, server: server}
	config.GroupVersion = nil
	config.APIPath = "/unused"
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	client, err := rest.UnversionedRESTClientForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, err
	}
	return dynamic.New(client), nil
}

// player is one run.
type player struct {
	scenario *Scenario
	clock    *clock
	server   *server
	informer cache.SharedIndexInformer
	handlers map[string]*handler
	stopped  int64
	over     chan struct{}

	mu     sync.Mutex
	errors []ErrorEntry
	faults []error // of the player itself
}

func (p *player) fault(err error) {
	if err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.faults = append(p.faults, err)
	}
}

func (p *player) listWatch(client dynamic.Interface) *cache.ListWatch {
	r := p.scenario.Resource
	spec := p.scenario.Informer
	everywhere := client.Resource(schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Resource})
	var resource dynamic.ResourceInterface = everywhere
	if spec.Namespace != nil {
		resource = everywhere.Namespace(*spec.Namespace)
	}
	tweak := func(options *metav1.ListOptions) {
		options.LabelSelector = deref(spec.LabelSelector)
		options.FieldSelector = deref(spec.FieldSelector)
		if options.Limit == pagerLimit {
			options.Limit = spec.PageSize
		}
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			tweak(&options)
			return resource.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			tweak(&options)
			return resource.Watch(ctx, options)
		},
	}
}

// failed is the WatchErrorHandler: the only way by which client-go tells its user of an error.
func (p *player) failed(_ context.Context, _ *cache.Reflector, err error) {
	entry := ErrorEntry{AtMs: p.clock.now(), Message: err.Error()}
	p.server.mu.Lock()
	entry.Phase = "watch"
	if current := p.server.current; current != nil && current.verb == "list" {
		entry.Phase = "list"
	} else if current != nil && current.streaming {
		entry.Phase = "streaming"
	}
	p.server.mu.Unlock()
	var status apierrors.APIStatus
	switch {
	case errors.As(err, &status):
		entry.Code = status.Status().Code
		entry.Reason = string(status.Status().Reason)
	case utilnet.IsConnectionRefused(err):
		entry.Reason = "ConnectionRefused"
	case utilnet.IsConnectionReset(err), errors.Is(err, io.ErrUnexpectedEOF):
		entry.Reason = "ConnectionReset"
	case errors.Is(err, context.Canceled):
		entry.Reason = "Canceled" // a stop, told as an error of the request that it ended
	default:
		entry.Reason = "Undecodable"
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.errors = append(p.errors, entry)
}

// outcome is what was seen so far.
func (p *player) outcome() *Outcome {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.server.mu.Lock()
	defer p.server.mu.Unlock()
	outcome := &Outcome{
		Name:     p.scenario.Name,
		Runtime:  Runtime,
		Phase:    p.server.phase(),
		Requests: slices.Clone(p.server.requests),
		Handlers: map[string][]Event{},
		Errors:   append([]ErrorEntry{}, p.errors...),
		Store: Store{
			ResourceVersion: p.informer.LastSyncResourceVersion(),
			Objects:         map[string]string{},
			Indexes:         map[string]map[string][]string{},
		},
	}
	if held := p.server.held; held != nil {
		outcome.Errors = append(outcome.Errors, *held)
	}
	for name, handler := range p.handlers {
		outcome.Handlers[name] = handler.snapshot()
	}
	indexer := p.informer.GetIndexer()
	for _, object := range indexer.List() {
		u := object.(*unstructured.Unstructured)
		outcome.Store.Objects[keyOfObject(u)] = u.GetResourceVersion()
	}
	for _, name := range p.scenario.Informer.Indexes {
		index := map[string][]string{}
		for _, value := range indexer.ListIndexFuncValues(name) {
			keys, err := indexer.IndexKeys(name, value)
			if err != nil {
				p.faults = append(p.faults, err)
			}
			slices.Sort(keys)
			index[value] = keys
		}
		outcome.Store.Indexes[name] = index
	}
	return outcome
}

func keyOfObject(object *unstructured.Unstructured) string {
	return cache.MetaObjectToName(object).String()
}

// handler is one event handler and what it got.
type handler struct {
	player *player
	spec   *HandlerSpec

	mu     sync.Mutex
	handle cache.ResourceEventHandlerRegistration
	synced bool
	late   bool              // its initial adds are a replay of the cache
	seen   map[string]string // the version of each key that it saw last
	events []Event
}

func (h *handler) add() {
	options := cache.HandlerOptions{}
	if h.spec.ResyncMs != nil {
		period := ms(*h.spec.ResyncMs)
		options.ResyncPeriod = &period
	}
	h.late = h.player.informer.HasSynced()
	handle, err := h.player.informer.AddEventHandlerWithOptions(h, options)
	if err != nil {
		return // after a stop there is nothing to be told
	}
	h.mu.Lock()
	h.handle = handle
	h.mu.Unlock()
	go func() {
		select {
		case <-handle.HasSyncedChecker().Done():
			h.mu.Lock()
			defer h.mu.Unlock()
			h.sync()
		case <-h.player.over: // it never is, for example if the first list never ends
		}
	}()
}

func (h *handler) remove() {
	h.mu.Lock()
	handle := h.handle
	h.mu.Unlock()
	if handle == nil {
		return
	}
	go func() {
		h.player.fault(cache.ShutDownEventHandler(h.player.informer, handle))
		h.mu.Lock()
		defer h.mu.Unlock()
		h.events = append(h.events, Event{AtMs: h.player.clock.now(), Type: "removed"})
	}()
}

// snapshot is what the handler got so far. Where client-go walks a map, Go leaves the order to chance, and nothing is
// promised; there, events stand in the order of their keys, so that an outcome is the same twice.
func (h *handler) snapshot() []Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	events := slices.Clone(h.events)
	for first := 0; first < len(events); {
		past := first + 1
		for keys := map[string]bool{}; events[first].chance != "" && past < len(events); past++ {
			keys[events[past-1].Key] = true
			at, before := events[past], events[past-1]
			if at.chance != before.chance || keys[at.Key] || at.AtMs != before.AtMs && h.spec.StallMs == 0 {
				break
			}
		}
		changes := slices.Clone(events[first:past])
		slices.SortStableFunc(changes, func(a, b Event) int { return strings.Compare(keyOfEvent(a), keyOfEvent(b)) })
		for n := range changes {
			changes[n].AtMs = events[first+n].AtMs
		}
		copy(events[first:past], changes)
		first = past
	}
	return events
}

func keyOfEvent(event Event) string {
	if event.Change == nil {
		return ""
	}
	return event.Key
}

// sync records once that the initial adds have returned. Called under mu.
func (h *handler) sync() {
	if !h.synced && h.handle != nil && h.handle.HasSynced() {
		h.synced = true
		h.events = append(h.events, Event{AtMs: h.player.clock.now(), Type: "synced"})
	}
}

// OnAdd implements cache.ResourceEventHandler.
func (h *handler) OnAdd(object any, initial bool) {
	u := object.(*unstructured.Unstructured)
	cause, chance := causeOf(u)
	if initial {
		cause = "list"
		if h.late {
			chance = "replay"
		}
	}
	h.called("add", chance, nil, u, Change{Initial: initial, Cause: cause, FinalStateKnown: true})
}

// OnUpdate implements cache.ResourceEventHandler.
func (h *handler) OnUpdate(old, object any) {
	before, u := old.(*unstructured.Unstructured), object.(*unstructured.Unstructured)
	cause, chance := causeOf(u)
	if before == u {
		cause, chance = "resync", "resync" // it sends what the store has twice; everything else brings another object
	}
	version := before.GetResourceVersion()
	h.called("update", chance, &version, u, Change{Cause: cause, FinalStateKnown: true})
}

// OnDelete implements cache.ResourceEventHandler.
func (h *handler) OnDelete(object any) {
	change, chance := Change{Cause: "watch", FinalStateKnown: true}, ""
	if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
		change, chance = Change{Cause: "relist"}, "gone"
		object = unknown.Obj
	}
	u := object.(*unstructured.Unstructured)
	var last *string
	h.mu.Lock()
	if version, ok := h.seen[keyOfObject(u)]; ok {
		last = &version
	}
	h.mu.Unlock()
	h.called("delete", chance, last, u, change)
}

// called records a call when it starts, and takes its time.
func (h *handler) called(kind, chance string, old *string, u *unstructured.Unstructured, change Change) {
	// Only a stop would end this wait early, and it waits for handlers.
	_ = h.player.clock.running(nil)
	change.Key = keyOfObject(u)
	change.UID = string(u.GetUID())
	change.ResourceVersion = u.GetResourceVersion()
	change.OldResourceVersion = old
	h.mu.Lock()
	h.sync()
	if kind == "delete" {
		delete(h.seen, change.Key)
	} else {
		h.seen[change.Key] = change.ResourceVersion
	}
	h.events = append(h.events, Event{AtMs: h.player.clock.now(), Type: kind, Change: &change, chance: chance})
	h.mu.Unlock()
	time.Sleep(ms(h.spec.StallMs))
}

// source is the member of an object that says where it came from. client-go keeps unknown members as they are.
const source = "client-go player: source"

// causeOf is what brought an object that is not initial, and what of chance is in its place among others: a streaming
// list is collected in a map.
func causeOf(u *unstructured.Unstructured) (cause, chance string) {
	switch u.Object[source] {
	case "list":
		return "relist", ""
	case "stream":
		return "relist", "stream"
	default:
		return "watch", ""
	}
}

// sourced makes decoders that note in each object whether a list or a watch brought it.
type sourced struct {
	runtime.NegotiatedSerializer
	server *server
}

func (s sourced) DecoderToVersion(decoder runtime.Decoder, version runtime.GroupVersioner) runtime.Decoder {
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	return &sourcedDecoder{
		Decoder:   s.NegotiatedSerializer.DecoderToVersion(decoder, version),
		server:    s.server,
		streaming: s.server.current != nil && s.server.current.streaming,
	}
}

// sourcedDecoder decodes one answer: a list, or the objects of one stream.
type sourcedDecoder struct {
	runtime.Decoder
	server    *server
	streaming bool // before the end marker of a streaming list
}

func (d *sourcedDecoder) Decode(data []byte, kind *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	object, decoded, err := d.Decoder.Decode(data, kind, into)
	if err != nil {
		return object, decoded, err
	}
	switch object := object.(type) {
	case *unstructured.UnstructuredList:
		for _, item := range object.Items {
			item.Object[source] = "list"
		}
	case *unstructured.Unstructured:
		if object.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true" && d.streaming {
			d.streaming = false
			d.server.marked()
		}
		if d.streaming && object.Object != nil {
			object.Object[source] = "stream"
		}
	}
	return object, decoded, err
}
