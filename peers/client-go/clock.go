package player

import (
	"errors"
	"slices"
	"sync"
	"testing/synctest"
	"time"
)

// forever is later than the end of every scenario.
const forever = 100 * 365 * 24 * time.Hour

var errDone = errors.New("done")

// clock tells the time since the start, and holds everything back during a pause.
//
// A pause stands for a suspended process. client-go's own timers cannot be held, but nothing comes of them: no request
// goes out, nothing arrives and no handler is called before the resume.
type clock struct {
	start time.Time

	mu     sync.Mutex
	resume chan struct{} // closed at the resume; nil while nothing is paused
}

func (c *clock) now() int64 { return time.Since(c.start).Milliseconds() }

// until waits for the time at, and for the end of a pause; errDone if done comes first.
func (c *clock) until(at time.Time, done <-chan struct{}) error {
	if wait := time.Until(at); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-done:
			return errDone
		}
	}
	return c.running(done)
}

// running waits for the end of a pause; errDone if done comes first.
func (c *clock) running(done <-chan struct{}) error {
	for {
		c.mu.Lock()
		resume := c.resume
		c.mu.Unlock()
		if resume == nil {
			return nil
		}
		select {
		case <-resume:
		case <-done:
			return errDone
		}
	}
}

func (c *clock) pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.resume == nil {
		c.resume = make(chan struct{})
	}
}

func (c *clock) unpause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.resume != nil {
		close(c.resume)
		c.resume = nil
	}
}

// timed is something to do at a time.
type timed struct {
	atMs int64
	do   func()
}

// play does everything that is due by end, each after all else that is due at its instant, and lets time pass to end.
// It must be called in a synctest bubble.
func (c *clock) play(script []timed, endMs int64) {
	slices.SortStableFunc(script, func(a, b timed) int { return int(a.atMs - b.atMs) })
	for _, next := range script {
		if next.atMs > endMs {
			break
		}
		c.settle(next.atMs)
		next.do()
	}
	c.settle(endMs)
}

func (c *clock) settle(atMs int64) {
	time.Sleep(time.Until(c.start.Add(ms(atMs))))
	synctest.Wait()
}
