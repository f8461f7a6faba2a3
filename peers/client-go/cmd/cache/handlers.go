package main

import (
	"fmt"
	"log"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"informer.test/peers/client-go/side"
)

// A shared informer with a watch of ours and the index that generated informers have.
type fed struct {
	informer cache.SharedIndexInformer
	events   chan watch.Event
}

func newFed(objects int) *fed {
	events := make(chan watch.Event, 1_000)
	source := &cache.ListWatch{
		ListFunc: func(metav1.ListOptions) (apiruntime.Object, error) {
			list := &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
			for n := range objects {
				list.Items = append(list.Items, *tiny(n, 1))
			}
			return list, nil
		},
		WatchFunc: func(metav1.ListOptions) (watch.Interface, error) {
			return watch.NewProxyWatcher(events), nil
		},
	}
	informer := cache.NewSharedIndexInformer(source, &corev1.ConfigMap{}, 0, indexers(1))
	return &fed{informer, events}
}

func (f *fed) handle(update func()) cache.ResourceEventHandlerRegistration {
	registration, err := f.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, object any) {
			_ = object.(*corev1.ConfigMap)
			update()
		},
	})
	must(err)
	return registration
}

func (f *fed) run(handlers []cache.ResourceEventHandlerRegistration) {
	go f.informer.Run(make(chan struct{}))
	for _, handler := range handlers {
		if !cache.WaitForCacheSync(make(chan struct{}), handler.HasSynced) {
			log.Fatal("no sync")
		}
	}
}

// Counts down from so many events.
func countdown(events int, done func()) func() {
	return func() {
		if events--; events == 0 {
			done()
		}
	}
}

// Processor time for each event, from a watch of objects that were decoded before.
func events(found figures, handlers, events int) {
	const live = 10_000
	f := newFed(live)
	var all sync.WaitGroup
	var registrations []cache.ResourceEventHandlerRegistration
	for range handlers {
		all.Add(1)
		registrations = append(registrations, f.handle(countdown(events, all.Done)))
	}
	f.run(registrations)
	// Two versions of each object, in turn: a million distinct ones would only be work for the collector.
	var versions [2][live]*corev1.ConfigMap
	for version := range versions {
		for n := range live {
			versions[version][n] = tiny(n, 2+version)
		}
	}
	meter := side.Start()
	for change := range events {
		n := change % live * stride % live
		f.events <- watch.Event{Type: watch.Modified, Object: versions[change/live%2][n]}
	}
	all.Wait()
	found[fmt.Sprintf("event-%d", handlers)] = float64(meter.CPU().Nanoseconds()) / 1e3 / float64(events)
	runtime.KeepAlive(versions)
}

// A handler that does not return while events come as fast as another one takes them.
func stalled(found figures, events int) {
	const live, ahead = 4_000, 256
	f := newFed(live)
	wake := make(chan struct{})
	sleeper := f.handle(func() { <-wake })
	var told atomic.Int64
	other := f.handle(func() { told.Add(1) })
	f.run([]cache.ResourceEventHandlerRegistration{sleeper, other})
	before := heap()
	for change := range events {
		n := change % live * stride % live
		f.events <- watch.Event{Type: watch.Modified, Object: tiny(n, 2+change)}
		for change-int(told.Load()) > ahead {
			runtime.Gosched()
		}
	}
	for until := time.Now().Add(side.Patience); int(told.Load()) < events; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			log.Fatal("the other handler is not told of every event")
		}
	}
	found["stalled-heap"] = (heap() - before) / float64(events)
	found["stalled-others"] = 100 * float64(told.Load()) / float64(events)
	close(wake)
}
