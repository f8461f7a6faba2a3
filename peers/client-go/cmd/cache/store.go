package main

import (
	"fmt"
	"log"
	"math"
	"math/bits"
	"runtime"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

const (
	// Updates and reads of one mean.
	calls = 300_000
	// Answers of hundreds of objects of one mean.
	lists = 3_000
	// Selections that look at every object.
	scans = 20
	// Changes that the writer makes each second, and how long readers read beside it: as peers/bench/src/pace.rs.
	writes = 10_000
	busy   = 2 * time.Second
	tick   = 100 * time.Microsecond
)

func meanNs(calls int, call func(int)) float64 {
	began := time.Now()
	for turn := range calls {
		call(turn)
	}
	return float64(time.Since(began).Nanoseconds()) / float64(calls)
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func filled(objects []*corev1.ConfigMap, indexes int) cache.Indexer {
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, indexers(indexes))
	for _, object := range objects {
		must(indexer.Add(object))
	}
	return indexer
}

func numbered(objects, version int) []*corev1.ConfigMap {
	all := make([]*corev1.ConfigMap, objects)
	for n := range all {
		all[n] = tiny(n, version)
	}
	return all
}

func overhead(found figures, objects int) {
	for _, indexes := range []int{0, 1, 3} {
		all := numbered(objects, 1)
		alone := heap()
		indexer := filled(all, indexes)
		found[fmt.Sprintf("overhead-key-%d", indexes)] = (heap() - alone) / float64(objects)
		runtime.KeepAlive(indexer)
		runtime.KeepAlive(all)
	}
}

// An update of these objects in a scattered order, again and again: nanoseconds each. Both versions outlive it.
func updates(indexer cache.Indexer, first []*corev1.ConfigMap, some int) float64 {
	size := len(first)
	round := make([]*corev1.ConfigMap, 2*some)
	for at := range some {
		n := at * stride % size
		round[at], round[some+at] = tiny(n, 2), first[n]
	}
	update := func(turn int) { must(indexer.Update(round[turn%len(round)])) }
	meanNs(len(round), update)
	return meanNs((calls+len(round)-1)/len(round)*len(round), update)
}

func scatteredKeys(size, some int) []string {
	keys := make([]string, some)
	for at := range keys {
		keys[at] = keyOf(at * stride % size)
	}
	return keys
}

func getter(indexer cache.Indexer, keys []string) func(int) {
	return func(turn int) {
		object, exists, err := indexer.GetByKey(keys[turn%len(keys)])
		// Whoever gets an object looks into it.
		if !exists || err != nil || object.(*corev1.ConfigMap).Name == "" {
			log.Fatal("every key is there")
		}
	}
}

func namespaceReader(indexer cache.Indexer, size int) func(int) {
	lister := listers.NewConfigMapLister(indexer)
	namespaces := size / inNamespace
	names := make([]string, namespaces)
	for at := range names {
		names[at] = namespaceOf(at * stride % namespaces * inNamespace)
	}
	return func(turn int) {
		found, err := lister.ConfigMaps(names[turn%namespaces]).List(labels.Everything())
		if err != nil || len(found) != inNamespace {
			log.Fatalf("%d objects of a namespace: %v", len(found), err)
		}
	}
}

func store(found figures, objects int) {
	first := numbered(objects, 1)
	for _, indexes := range []int{0, 1, 3} {
		found[fmt.Sprintf("update-%d", indexes)] = updates(filled(first, indexes), first, objects)
	}
	indexer := filled(first, 1)
	get := getter(indexer, scatteredKeys(objects, objects))
	meanNs(objects, get)
	found["get"] = meanNs(calls, get)

	namespace := namespaceReader(indexer, objects)
	meanNs(objects/inNamespace, namespace)
	found["namespace"] = meanNs(lists, namespace) / 1e3
	lister := listers.NewConfigMapLister(indexer)
	selected := 0
	for n := range objects {
		if partOf(n) == "part-0" {
			selected++
		}
	}
	selector, err := labels.Parse("part=part-0")
	must(err)
	found["selector"] = meanNs(scans, func(int) {
		hits, err := lister.List(selector)
		if err != nil || len(hits) != selected {
			log.Fatalf("%d objects selected, not %d: %v", len(hits), selected, err)
		}
	}) / 1e3
	beside(found, get, indexer, first)
}

// Reads beside a writer that keeps a pace; reading the clock is part of each time.
func beside(found figures, get func(int), indexer cache.Indexer, first []*corev1.ConfigMap) {
	changes := make([]*corev1.ConfigMap, 2*writes*int(busy/time.Second))
	for at := range changes {
		changes[at] = tiny(at%len(first)*stride%len(first), 3)
	}
	var stop atomic.Bool
	ended := make(chan int)
	began := time.Now()
	go func() {
		written := 0
		for !stop.Load() {
			time.Sleep(tick)
			for due := int(time.Since(began).Seconds() * writes); written < due; written++ {
				must(indexer.Update(changes[written%len(changes)]))
			}
		}
		ended <- written
	}()
	var times latencies
	for reads := 0; time.Since(began) < busy; {
		for range 1_000 {
			before := time.Now()
			get(reads)
			times.note(uint64(time.Since(before).Nanoseconds()))
			reads++
		}
	}
	stop.Store(true)
	written := <-ended
	found["get-busy-half"] = float64(times.quantile(0.5))
	found["get-busy"] = float64(times.quantile(0.999))
	found["get-busy-longest"] = float64(times.longest)
	found["writes"] = float64(written) / time.Since(began).Seconds()
}

// Counts times by their size: as peers/bench/src/latency.rs, which says why and tests it.
type latencies struct {
	counts  [64 * 59]uint64
	total   uint64
	longest uint64
}

func (l *latencies) note(ns uint64) {
	shift := max(bits.Len64(ns), 7) - 7
	l.counts[shift*64+int(ns>>shift)]++
	l.total++
	l.longest = max(l.longest, ns)
}

func (l *latencies) quantile(share float64) uint64 {
	left := uint64(math.Ceil(float64(l.total) * share))
	for place, count := range l.counts {
		if count >= left {
			shift := max(place/64, 1) - 1
			return uint64(place-shift*64) << shift
		}
		left -= count
	}
	return l.longest
}

// The same reads and updates in a small store and in a big one.
func scale(found figures, small, big int) {
	for _, one := range []struct {
		name string
		size int
	}{{"small", small}, {"big", big}} {
		first := numbered(one.size, 1)
		some := min(one.size, 100_000)
		found["update-0-"+one.name] = updates(filled(first, 0), first, some)
		indexer := filled(first, 3)
		found["update-3-"+one.name] = updates(indexer, first, some)
		get := getter(indexer, scatteredKeys(one.size, some))
		meanNs(some, get)
		found["get-"+one.name] = meanNs(calls, get)
		namespace := namespaceReader(indexer, one.size)
		meanNs(one.size/inNamespace, namespace)
		found["namespace-"+one.name] = meanNs(lists, namespace)
	}
}
