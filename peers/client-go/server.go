package player

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A spin that costs no virtual time would never come to the end of the scenario, and one that costs little would fill
// the outcome: after this many requests within a second, or in all, a request is held back for good, and the outcome
// says so.
const (
	requestsPerSecond = 100
	requestsInAll     = 1000
)

// server is the scripted API server. It is an http.RoundTripper that does for a script what http.Transport does for a
// socket: it numbers connections, asks for gzip if the request says nothing of encodings, and then decompresses.
type server struct {
	clock *clock

	mu       sync.Mutex
	entries  []ServerEntry
	left     []int64
	requests []*Request
	idle     []int // connections that can be used again, the last one first
	opened   int
	current  *exchange
	held     *ErrorEntry
}

// exchange is the newest request and how far its answer is.
type exchange struct {
	verb      string
	streaming bool // a streaming list before its end marker
	open      bool // answered 200, and its body has not ended
	done      bool
}

func newServer(s *Scenario, clock *clock) *server {
	left := make([]int64, len(s.Server))
	for n, entry := range s.Server {
		left[n] = -1
		if entry.Times != nil {
			left[n] = *entry.Times
		}
	}
	return &server{clock: clock, entries: s.Server, left: left}
}

// RoundTrip answers a request from the script.
func (s *server) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	if err := s.clock.running(ctx.Done()); err != nil {
		return nil, ctx.Err()
	}
	gunzip := req.Header.Get("Accept-Encoding") == "" && req.Header.Get("Range") == ""
	reply, exchange, connection := s.take(req, gunzip)
	// An exchange that failed before its answer is over as well.
	over := func(err error) (*http.Response, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		exchange.done = true
		return nil, err
	}
	switch {
	case reply == nil || reply.Hang:
		<-ctx.Done()
		return over(ctx.Err())
	case reply.Refuse:
		return over(&net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)})
	}
	head := time.Now().Add(ms(reply.AfterMs))
	if err := s.clock.until(head, ctx.Done()); err != nil {
		return over(ctx.Err())
	}
	response := &http.Response{
		StatusCode:    reply.Status,
		Status:        fmt.Sprintf("%d %s", reply.Status, http.StatusText(reply.Status)),
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        http.Header{},
		ContentLength: -1,
		Request:       req,
	}
	for name, value := range reply.Headers {
		response.Header.Set(name, value)
	}
	if length, err := strconv.ParseInt(response.Header.Get("Content-Length"), 10, 64); err == nil && length >= 0 {
		response.ContentLength = length
	}
	s.mu.Lock()
	exchange.open = reply.Status == http.StatusOK
	s.mu.Unlock()
	raw := &body{
		server: s, reply: reply, exchange: exchange, connection: connection,
		last: strings.EqualFold(response.Header.Get("Connection"), "close"),
		left: response.ContentLength, due: head, ctx: ctx, closed: make(chan struct{}),
	}
	response.Body = raw
	if gunzip && strings.EqualFold(response.Header.Get("Content-Encoding"), "gzip") {
		response.Header.Del("Content-Encoding")
		response.Header.Del("Content-Length")
		response.ContentLength = -1
		response.Uncompressed = true
		response.Body = &unzipped{body: raw}
	}
	return response, nil
}

// take records a request and finds its answer; nil is a request that hangs.
func (s *server) take(req *http.Request, gunzip bool) (*Reply, *exchange, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	query := map[string]string{}
	for name, values := range req.URL.Query() {
		query[name] = values[0]
	}
	verb := "list"
	if query["watch"] == "1" || query["watch"] == "true" {
		verb = "watch"
	}
	sent := req.Header.Clone()
	if gunzip {
		sent.Set("Accept-Encoding", "gzip")
	}
	headers := map[string]string{}
	for _, name := range []string{"accept", "accept-encoding", "authorization"} {
		if value := sent.Get(name); value != "" {
			headers[name] = value
		}
	}
	record := &Request{AtMs: s.clock.now(), Verb: verb, Path: req.URL.Path, Query: query, Headers: headers}
	s.current = &exchange{verb: verb, streaming: query["sendInitialEvents"] == "true"}
	before := len(s.requests)
	if s.held == nil && (before >= requestsInAll ||
		before >= requestsPerSecond && s.requests[before-requestsPerSecond].AtMs+1000 > record.AtMs) {
		s.held = &ErrorEntry{
			AtMs: record.AtMs, Phase: s.phase(), Reason: "HeldBack",
			Message: fmt.Sprintf("not from client-go: it has sent %d requests, and the player holds back the next one", before),
		}
	}
	if s.held != nil {
		return nil, s.current, 0
	}
	s.requests = append(s.requests, record)
	found := s.find(verb, query, sent)
	if found < 0 {
		record.Unexpected = true
		record.Connection = s.connect()
		return nil, s.current, record.Connection
	}
	if s.left[found] > 0 {
		s.left[found]--
	}
	reply := &s.entries[found].Reply
	if reply.Refuse {
		s.idle = nil // a server that refuses has closed what was open
		return reply, s.current, 0
	}
	record.Connection = s.connect()
	return reply, s.current, record.Connection
}

func (s *server) find(verb string, query map[string]string, header http.Header) int {
	for n, entry := range s.entries {
		matches := s.left[n] != 0 && entry.When.Verb == verb
		for name, want := range entry.When.Query {
			matches = matches && query[name] == deref(want)
		}
		for name, want := range entry.When.Headers {
			matches = matches && header.Get(name) == deref(want)
		}
		if matches {
			return n
		}
	}
	return -1
}

// deref reads null as what is absent or empty.
func deref(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

func (s *server) connect() int {
	if last := len(s.idle) - 1; last >= 0 {
		connection := s.idle[last]
		s.idle = s.idle[:last]
		return connection
	}
	s.opened++
	return s.opened
}

// phase is where the reflector stands, as the network sees it. Called under mu.
func (s *server) phase() string {
	switch {
	case s.current == nil:
		return "idle"
	case s.current.done:
		return "backoff"
	case s.current.verb == "list":
		return "listing"
	case s.current.streaming:
		return "streaming"
	case s.current.open:
		return "watching"
	default:
		return "opening"
	}
}

// marked says that the end marker of a streaming list was read from the newest stream.
func (s *server) marked() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil {
		s.current.streaming = false
	}
}

// body is the body of one answer, part by part at its time.
type body struct {
	server     *server
	reply      *Reply
	exchange   *exchange
	connection int
	last       bool // the server closes the connection behind this answer
	ctx        context.Context
	left       int64 // what Content-Length still promises, -1 without one
	due        time.Time

	part int
	sent int64  // how often the part was sent
	rest []byte // of the write that is being read

	once   sync.Once
	closed chan struct{}
}

var errClosed = errors.New("http: read on closed response body")

// Read gives what has arrived, and waits if that is nothing.
func (b *body) Read(into []byte) (int, error) {
	for len(b.rest) == 0 {
		if b.left == 0 {
			return 0, b.ended(io.EOF)
		}
		if b.part < len(b.reply.Body) && b.sent == b.reply.Body[b.part].Repeat {
			b.part, b.sent = b.part+1, 0
		}
		if b.part == len(b.reply.Body) {
			return 0, b.end()
		}
		part := &b.reply.Body[b.part]
		b.due = b.due.Add(ms(part.AfterMs))
		b.sent++
		if err := b.wait(b.due); err != nil {
			return 0, err
		}
		b.rest = part.bytes
		if b.left >= 0 && int64(len(b.rest)) > b.left {
			b.rest = b.rest[:b.left]
		}
	}
	select {
	case <-b.closed:
		return 0, errClosed
	default:
	}
	n := copy(into, b.rest)
	b.rest = b.rest[n:]
	if b.left >= 0 {
		b.left -= int64(n)
	}
	return n, nil
}

func (b *body) wait(at time.Time) error {
	done := make(chan struct{})
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-b.closed:
		case <-b.ctx.Done():
		case <-stop:
			return
		}
		close(done)
	}()
	if b.server.clock.until(at, done) == nil {
		return nil
	}
	select {
	case <-b.closed:
		return errClosed
	default:
		return b.ended(b.ctx.Err())
	}
}

// end is what follows the last part.
func (b *body) end() error {
	switch b.reply.End {
	case "hang":
		return b.wait(b.due.Add(forever))
	case "reset":
		if err := b.wait(b.due); err != nil {
			return err
		}
		return b.ended(&net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)})
	default:
		if err := b.wait(b.due); err != nil {
			return err
		}
		if b.left > 0 {
			return b.ended(io.ErrUnexpectedEOF)
		}
		return b.ended(io.EOF)
	}
}

// ended closes the exchange; a connection whose answer was read to its clean end is free again.
func (b *body) ended(err error) error {
	b.once.Do(func() {
		b.server.mu.Lock()
		defer b.server.mu.Unlock()
		b.exchange.done = true
		if err == io.EOF && !b.last {
			b.server.idle = append(b.server.idle, b.connection)
		}
	})
	return err
}

// Close ends the exchange; the connection of an answer that was not read to its end is closed.
func (b *body) Close() error {
	b.ended(errClosed)
	select {
	case <-b.closed:
	default:
		close(b.closed)
	}
	return nil
}

// unzipped reads what a body holds in gzip, as http.Transport does for a request that it asked for gzip itself.
type unzipped struct {
	body   *body
	reader *gzip.Reader
}

func (u *unzipped) Read(into []byte) (int, error) {
	if u.reader == nil {
		reader, err := gzip.NewReader(u.body)
		if err != nil {
			return 0, err
		}
		u.reader = reader
	}
	return u.reader.Read(into)
}

func (u *unzipped) Close() error { return u.body.Close() }
