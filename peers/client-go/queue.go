package player

import (
	"fmt"
	"sync"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/client-go/util/workqueue"
)

// PlayQueue plays a scenario through client-go's work queue. It must be called in a synctest bubble.
func PlayQueue(s *Scenario) (*QueueOutcome, error) {
	if s.Queue.Priority {
		return nil, fmt.Errorf("queue.priority: client-go's queue has none")
	}
	clock := &clock{start: time.Now()}
	base, limit := ms(5), ms(1_000_000)
	if spec := s.Queue.Limiter; spec != nil {
		base, limit = ms(spec.BaseMs), ms(spec.CapMs)
	}
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](base, limit)
	if s.Queue.QPS != nil && s.Queue.Burst != nil {
		bucket := rate.NewLimiter(rate.Limit(*s.Queue.QPS), *s.Queue.Burst)
		limiter = workqueue.NewTypedMaxOfRateLimiter(limiter, &workqueue.TypedBucketRateLimiter[string]{Limiter: bucket})
	}
	// The delaying queue does not tell how many keys wait in it, so its calls of the queue below are counted.
	ready := &counted{TypedInterface: workqueue.NewTyped[string](), delayed: map[string]bool{}}
	queue := workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[string]{
		DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[string]{Queue: ready}),
	})

	var mu sync.Mutex
	outcome := &QueueOutcome{Name: s.Name, Runtime: Runtime, HandedOut: []HandedOut{}, Requeues: map[string]int{}}
	ended := false
	shutDown := func() {
		mu.Lock()
		defer mu.Unlock()
		if at := clock.now(); !ended && outcome.ShutDownAtMs == nil {
			outcome.ShutDownAtMs = &at
		}
	}
	// Workers wait in line: which of several waiting ones gets a key is the scheduler's choice and no promise of the queue.
	line := make(chan *string, len(s.Ops))
	defer close(line)
	go func() {
		for worker := range line {
			key, down := queue.Get()
			mu.Lock()
			if !down && !ended {
				outcome.HandedOut = append(outcome.HandedOut, HandedOut{AtMs: clock.now(), Key: key, Worker: worker})
			}
			mu.Unlock()
		}
	}()
	keys := map[string]bool{}
	var script []timed
	for _, op := range s.Ops {
		keys[op.Key] = op.Key != ""
		do := map[string]func(){
			"add":               func() { queue.Add(op.Key) },
			"addAfter":          func() { ready.later(op.Key, op.DelayMs > 0); queue.AddAfter(op.Key, ms(op.DelayMs)) },
			"addRateLimited":    func() { ready.later(op.Key, base > 0); queue.AddRateLimited(op.Key) },
			"forget":            func() { queue.Forget(op.Key) },
			"done":              func() { queue.Done(op.Key) },
			"get":               func() { line <- op.worker() },
			"shutDown":          func() { queue.ShutDown(); ready.dropped(); shutDown() },
			"shutDownWithDrain": func() { go func() { queue.ShutDownWithDrain(); shutDown() }(); ready.dropped() },
		}[op.Do]
		if do == nil {
			return nil, fmt.Errorf("ops: %q is unknown", op.Do)
		}
		if op.Priority != nil {
			return nil, fmt.Errorf("ops: client-go's queue has no priorities")
		}
		direct := op.Do == "add" || op.Do == "addAfter" && op.DelayMs == 0
		script = append(script, timed{op.AtMs, func() {
			ready.set(direct)
			do()
			synctest.Wait()
			ready.set(false)
		}})
	}
	clock.play(script, s.RunForMs)

	mu.Lock()
	ended = true
	outcome.Len = queue.Len()
	outcome.PendingDelayed = ready.pending()
	for key, named := range keys {
		if n := queue.NumRequeues(key); named && n > 0 {
			outcome.Requeues[key] = n
		}
	}
	mu.Unlock()
	queue.ShutDown()
	return outcome, nil
}

// counted is the queue below a delaying one; it knows which keys the delaying one still holds back.
type counted struct {
	workqueue.TypedInterface[string]

	mu      sync.Mutex
	direct  bool // an add that is under way comes from the user
	delayed map[string]bool
}

func (c *counted) set(direct bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.direct = direct
}

// later notes that a key is given to the delaying queue, which takes none once it is shutting down.
func (c *counted) later(key string, waits bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if waits && !c.ShuttingDown() {
		c.delayed[key] = true
	}
}

// dropped notes a shutdown, after which no delayed key is ever added.
func (c *counted) dropped() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.delayed)
}

func (c *counted) pending() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.delayed)
}

// Add implements workqueue.TypedInterface.
func (c *counted) Add(key string) {
	c.mu.Lock()
	if !c.direct {
		delete(c.delayed, key)
	}
	c.mu.Unlock()
	c.TypedInterface.Add(key)
}
