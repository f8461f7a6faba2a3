// Package player plays scenario files of this repository through client-go, in virtual time, and writes what was seen
// in the form that every runtime here writes it.
//
//	scenario.go  the file, read
//	server.go    the scripted API server, as an http.RoundTripper: no socket
//	informer.go  a SharedIndexInformer over the dynamic client, and what its handlers see
//	queue.go     a rate limiting work queue, for files of kind "queue"
//	outcome.go   what was seen, written and compared
//	play_test.go the entry: testing/synctest gives virtual time to tests only
package player

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Scenario is a file of either kind. Whether a file is well formed is for the Rust runner to say in full; here a field
// that is not known is refused, so that nothing is passed over in silence.
type Scenario struct {
	Kind     string
	Name     string
	About    string
	Resource Resource
	Seed     int64
	RunForMs int64
	Informer InformerSpec
	Handlers []HandlerSpec
	Commands []Command
	Server   []ServerEntry
	Queue    QueueSpec
	Ops      []Op
	Expect   json.RawMessage
}

// Resource is what the informer watches.
type Resource struct {
	Group, Version, Resource, Kind string
	Namespaced                     bool
}

// InformerSpec is how the informer is set up. What client-go's shared informer has no knob for (minWatchTimeoutMs,
// strictDecode) is read and changes nothing.
type InformerSpec struct {
	Namespace         *string
	LabelSelector     *string
	FieldSelector     *string
	ListStrategy      string
	PageSize          int64
	ResyncMs          int64
	Indexes           []string
	MinWatchTimeoutMs int64
	StrictDecode      bool
}

// HandlerSpec is one event handler. client-go's buffers have no bound, so overflow changes nothing.
type HandlerSpec struct {
	Name       string
	AddAtMs    int64
	RemoveAtMs *int64
	ResyncMs   *int64
	StallMs    int64
	Overflow   struct {
		Policy string
		Limit  int64
	}
}

// Command is something the user does.
type Command struct {
	AtMs  int64
	Do    string
	Token string
}

// ServerEntry answers the requests that match.
type ServerEntry struct {
	When struct {
		Verb    string
		Query   map[string]*string
		Headers map[string]*string
	}
	Times *int64
	Reply Reply
}

// Reply is one answer.
type Reply struct {
	AfterMs int64
	Status  int
	Headers map[string]string
	Body    []Part
	End     string
	Refuse  bool
	Hang    bool
}

// Part is what one write of the server carries.
type Part struct {
	AfterMs int64
	JSON    json.RawMessage
	Text    *string
	Base64  *string
	Newline *bool
	Repeat  int64

	bytes []byte
}

// QueueSpec is how a work queue is set up.
type QueueSpec struct {
	Limiter *struct {
		BaseMs, CapMs int64
	}
	QPS      *float64
	Burst    *int
	Priority bool
}

// Op is one thing done to a work queue.
type Op struct {
	AtMs     int64
	Do       string
	Key      string
	DelayMs  int64
	Priority *int
	Worker   json.RawMessage
}

// worker is the name of the worker; a number stands for its name in decimal, nothing for no name.
func (op Op) worker() *string {
	if len(op.Worker) == 0 || string(op.Worker) == "null" {
		return nil
	}
	name := strings.Trim(string(op.Worker), `"`)
	return &name
}

// ReadScenario reads a file and fills in the defaults.
func ReadScenario(file string) (*Scenario, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	s := Scenario{Informer: InformerSpec{ListStrategy: "auto", PageSize: 500, Indexes: []string{"namespace"}}}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&s); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if s.Name+".json" != filepath.Base(file) {
		return nil, fmt.Errorf("%s: name %q differs from the file's name", file, s.Name)
	}
	if s.RunForMs < 1 {
		return nil, fmt.Errorf("%s: runForMs must be at least 1", file)
	}
	if s.Handlers == nil {
		s.Handlers = []HandlerSpec{{Name: "h"}}
	}
	for n := range s.Server {
		if err := s.Server[n].Reply.complete(); err != nil {
			return nil, fmt.Errorf("%s: server[%d].reply: %w", file, n, err)
		}
	}
	return &s, nil
}

func (r *Reply) complete() error {
	if r.Status == 0 {
		r.Status = 200
	}
	if r.Headers == nil {
		r.Headers = map[string]string{"Content-Type": "application/json"}
	}
	switch r.End {
	case "":
		r.End = "close"
	case "close", "reset", "hang":
	default:
		return fmt.Errorf("end: %q is none of close, reset, hang", r.End)
	}
	for n := range r.Body {
		if err := r.Body[n].complete(); err != nil {
			return fmt.Errorf("body[%d]: %w", n, err)
		}
	}
	return nil
}

func (p *Part) complete() error {
	if p.Repeat == 0 {
		p.Repeat = 1
	}
	switch {
	case p.JSON != nil:
		var compact bytes.Buffer
		if err := json.Compact(&compact, p.JSON); err != nil {
			return err
		}
		p.bytes = compact.Bytes()
		if p.Newline == nil || *p.Newline {
			p.bytes = append(p.bytes, '\n')
		}
	case p.Text != nil:
		p.bytes = []byte(*p.Text)
	case p.Base64 != nil:
		decoded, err := base64.StdEncoding.DecodeString(*p.Base64)
		if err != nil {
			return err
		}
		p.bytes = decoded
	default:
		return errors.New("needs one of json, text, base64")
	}
	return nil
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
