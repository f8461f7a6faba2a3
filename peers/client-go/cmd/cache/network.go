package main

import (
	"fmt"
	"log"
	"net/http"
	"runtime"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"informer.test/peers/client-go/side"
)

func config(server string) *rest.Config {
	return &rest.Config{
		Host:          "http://" + server,
		QPS:           -1, // no limit of the client's own
		ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: "application/json"},
	}
}

// Informers of collections that are empty: the heap of each, and the time until all are synced.
func idle(found figures, server string, count int) {
	client, err := dynamic.NewForConfig(config(server))
	must(err)
	start := func(count int) (*dynamicinformer.DynamicSharedInformerFactory, time.Duration) {
		factory := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
		var all []cache.SharedIndexInformer
		for n := range count {
			resource := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: fmt.Sprintf("kind%02ds", n)}
			all = append(all, factory.ForResource(resource).Informer())
		}
		began := time.Now()
		factory.Start(make(chan struct{}))
		for _, informer := range all {
			// WaitForCacheSync looks every 100 ms.
			for !informer.HasSynced() {
				time.Sleep(100 * time.Microsecond)
			}
		}
		return &factory, time.Since(began)
	}
	// The client and what it makes once are no part of an informer.
	one, _ := start(1)
	time.Sleep(side.Rest)
	before := heap()
	all, took := start(count)
	time.Sleep(side.Rest)
	found["idle-heap"] = (heap() - before) / 1024 / float64(count)
	found["idle-sync"] = took.Seconds() * 1e3
	runtime.KeepAlive(one)
	runtime.KeepAlive(all)
}

// Notes when a list was asked for last.
type noting struct {
	next   http.RoundTripper
	listed *atomic.Int64
}

func (n noting) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Query().Get("watch") == "" {
		// Of a list in pages the first.
		if request.URL.Query().Get("continue") == "" {
			n.listed.Store(time.Now().UnixNano())
		}
	}
	return n.next.RoundTrip(request)
}

func relist(found figures, server string, objects int) {
	var listed atomic.Int64
	settings := config(server)
	settings.Wrap(func(next http.RoundTripper) http.RoundTripper { return noting{next, &listed} })
	client, err := kubernetes.NewForConfig(settings)
	must(err)
	pods := informers.NewSharedInformerFactory(client, 0).Core().V1().Pods().Informer()
	var told atomic.Int64
	handler, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, object any) {
			_ = object.(*corev1.Pod)
			told.Add(1)
		},
	})
	must(err)
	go pods.Run(make(chan struct{}))
	if !cache.WaitForCacheSync(make(chan struct{}), handler.HasSynced) {
		log.Fatal("no sync")
	}
	keys := pods.GetStore().ListKeys()
	if len(keys) != objects {
		log.Fatalf("%d objects in the store, not %d", len(keys), objects)
	}
	time.Sleep(side.Rest)
	settled := side.MemoryNow().SettledMiB
	side.ForgetPeak()

	stop, longest := make(chan struct{}), make(chan time.Duration)
	go func() {
		slowest := time.Duration(0)
		for turn := 0; ; turn++ {
			select {
			case <-stop:
				longest <- slowest
				return
			default:
			}
			before := time.Now()
			if _, exists, err := pods.GetStore().GetByKey(keys[turn%len(keys)]); !exists || err != nil {
				log.Fatal("it stays")
			}
			slowest = max(slowest, time.Since(before))
			time.Sleep(tick)
		}
	}()
	answer, err := http.Post("http://"+server+"/expire", "", nil)
	if err != nil || answer.StatusCode != http.StatusOK {
		log.Fatalf("no watch to expire: %v %v", answer, err)
	}
	// It tells every handler of every object, which is how its end is seen.
	for until := time.Now().Add(side.Patience); int(told.Load()) < objects; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			log.Fatalf("%d notifications of %d", told.Load(), objects)
		}
	}
	took := time.Since(time.Unix(0, listed.Load()))
	close(stop)
	found["relist"] = took.Seconds()
	found["relist-stall"] = float64((<-longest).Nanoseconds()) / 1e6
	found["relist-peak"] = side.MemoryNow().PeakMiB
	found["relist-settled"] = settled
	found["relist-told"] = float64(told.Load())
}
