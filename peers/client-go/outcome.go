package player

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Runtime is the name that outcomes carry.
const Runtime = "client-go"

// Outcome is what was seen of an informer.
type Outcome struct {
	Name        string             `json:"name"`
	Runtime     string             `json:"runtime"`
	Phase       string             `json:"phase"`
	StoppedAtMs *int64             `json:"stoppedAtMs,omitempty"`
	Requests    []*Request         `json:"requests"`
	Handlers    map[string][]Event `json:"handlers"`
	Errors      []ErrorEntry       `json:"errors"`
	Store       Store              `json:"store"`
}

// Request is one request as it was sent.
type Request struct {
	AtMs       int64             `json:"atMs"`
	Verb       string            `json:"verb"`
	Path       string            `json:"path"`
	Query      map[string]string `json:"query"`
	Headers    map[string]string `json:"headers"`
	Connection int               `json:"connection"`
	Unexpected bool              `json:"unexpected,omitempty"`
}

// Event is one thing that a handler got.
type Event struct {
	AtMs int64  `json:"atMs"`
	Type string `json:"type"`
	*Change

	chance string // what left its place among its neighbours to chance, if anything did
}

// Change is the part of an event that tells of an object.
type Change struct {
	Key                string  `json:"key"`
	UID                string  `json:"uid"`
	ResourceVersion    string  `json:"resourceVersion"`
	OldResourceVersion *string `json:"oldResourceVersion,omitempty"`
	Initial            bool    `json:"initial"`
	Cause              string  `json:"cause"`
	FinalStateKnown    bool    `json:"finalStateKnown"`
}

// ErrorEntry is one error that client-go told its user of.
type ErrorEntry struct {
	AtMs    int64  `json:"atMs"`
	Phase   string `json:"phase"`
	Code    int32  `json:"code"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Store is the cache at the end.
type Store struct {
	ResourceVersion string                         `json:"resourceVersion"`
	Objects         map[string]string              `json:"objects"`
	Indexes         map[string]map[string][]string `json:"indexes"`
}

// QueueOutcome is what was seen of a work queue.
type QueueOutcome struct {
	Name           string         `json:"name"`
	Runtime        string         `json:"runtime"`
	HandedOut      []HandedOut    `json:"handedOut"`
	Len            int            `json:"len"`
	PendingDelayed int            `json:"pendingDelayed"`
	Requeues       map[string]int `json:"requeues"`
	ShutDownAtMs   *int64         `json:"shutDownAtMs"`
}

// HandedOut is a key that a worker was given.
type HandedOut struct {
	AtMs   int64   `json:"atMs"`
	Key    string  `json:"key"`
	Worker *string `json:"worker"`
}

// Record writes an outcome into folder, unless one of the same shape is there already: what differs between two
// recordings of one behaviour (jitter, and the order in which Go walks a map) would only be noise in the history.
// It says whether it wrote.
func Record(folder, name string, outcome any) (bool, error) {
	text, err := format(outcome)
	if err != nil {
		return false, err
	}
	file := filepath.Join(folder, name+".json")
	if old, err := os.ReadFile(file); err == nil && sameShape(old, text) {
		return false, nil
	}
	return true, os.WriteFile(file, text, 0o644)
}

// sameShape is whether two outcomes tell the same but for times and the order between keys.
func sameShape(one, other []byte) bool {
	a, errA := shape(one)
	b, errB := shape(other)
	return errA == nil && errB == nil && bytes.Equal(a, b)
}

func shape(text []byte) ([]byte, error) {
	var outcome map[string]any
	if err := json.Unmarshal(text, &outcome); err != nil {
		return nil, err
	}
	timeless(outcome)
	if handlers, ok := outcome["handlers"].(map[string]any); ok {
		for _, events := range handlers {
			if events, ok := events.([]any); ok {
				slices.SortStableFunc(events, func(a, b any) int { return bytes.Compare(keyOf(a), keyOf(b)) })
			}
		}
	}
	return json.Marshal(outcome)
}

func keyOf(event any) []byte {
	fields, _ := event.(map[string]any)
	key, _ := fields["key"].(string)
	return []byte(key)
}

// timeless takes out of value what jitter draws.
func timeless(value any) {
	switch value := value.(type) {
	case map[string]any:
		for _, drawn := range []string{"atMs", "timeoutSeconds"} {
			delete(value, drawn)
		}
		for name := range value {
			if name == "stoppedAtMs" || name == "shutDownAtMs" {
				value[name] = value[name] != nil
			}
			timeless(value[name])
		}
	case []any:
		for _, element := range value {
			timeless(element)
		}
	}
}

// format writes an outcome with one request, event or error a line.
func format(outcome any) ([]byte, error) {
	raw, err := oneLine(outcome)
	if err != nil {
		return nil, err
	}
	fields, err := members(raw)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	out.WriteString("{\n")
	for n, field := range fields {
		fmt.Fprintf(&out, " %q: ", field.name)
		if err := expand(&out, field.value, field.name == "handlers"); err != nil {
			return nil, err
		}
		out.WriteString(comma(n, len(fields)))
	}
	out.WriteString("}\n")
	return out.Bytes(), nil
}

// expand writes an array with an element a line; deeper says that the value is an object of such arrays.
func expand(out *bytes.Buffer, value json.RawMessage, deeper bool) error {
	var elements []json.RawMessage
	switch {
	case deeper:
		arrays, err := members(value)
		if err != nil {
			return err
		}
		out.WriteString("{\n")
		for n, array := range arrays {
			fmt.Fprintf(out, "  %q: ", array.name)
			if err := expand(out, array.value, false); err != nil {
				return err
			}
			out.WriteString(comma(n, len(arrays)))
		}
		out.WriteString(" }")
		return nil
	case json.Unmarshal(value, &elements) != nil || len(elements) == 0:
		out.Write(spaced(value))
		return nil
	}
	out.WriteString("[\n")
	for n, element := range elements {
		out.WriteString("   ")
		out.Write(spaced(element))
		out.WriteString(comma(n, len(elements)))
	}
	out.WriteString("  ]")
	return nil
}

func comma(n, of int) string {
	if n+1 == of {
		return "\n"
	}
	return ",\n"
}

type member struct {
	name  string
	value json.RawMessage
}

// members are the members of an object, in order.
func members(object json.RawMessage) ([]member, error) {
	decoder := json.NewDecoder(bytes.NewReader(object))
	if _, err := decoder.Token(); err != nil {
		return nil, err
	}
	var all []member
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return nil, err
		}
		all = append(all, member{name: fmt.Sprint(name), value: value})
	}
	return all, nil
}

// oneLine encodes value without escaping what only HTML needs escaped.
func oneLine(value any) (json.RawMessage, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(out.Bytes()), nil
}

// spaced puts a space after each comma and colon between values.
func spaced(value json.RawMessage) []byte {
	var out []byte
	quoted, escaped := false, false
	for _, c := range value {
		out = append(out, c)
		switch {
		case escaped:
			escaped = false
		case c == '\\':
			escaped = true
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ',' || c == ':'):
			out = append(out, ' ')
		}
	}
	return out
}
