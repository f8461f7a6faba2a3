// Command wire is client-go as a side of a measurement: a typed shared informer of Pods over JSON with one handler.
//
// It is told HOST:PORT OBJECTS EVENTS and prints one line of JSON, as every side does (peers/bench/src/side.rs).
package main

import (
	"fmt"
	"log"
	"net/http"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"informer.test/peers/client-go/side"
)

type work struct {
	WallS     float64 `json:"wall_s"`
	CPUUsEach float64 `json:"cpu_us_each"`
	PerS      float64 `json:"per_s"`
}

type outcome struct {
	Sync   *work        `json:"sync,omitempty"`
	Memory *side.Memory `json:"memory,omitempty"`
	Events *work        `json:"events,omitempty"`
}

func done(m side.Meter, count int) *work {
	wall, spent := m.Wall(), m.CPU()
	each := float64(spent.Nanoseconds()) / 1e3 / float64(count)
	return &work{wall.Seconds(), each, float64(count) / wall.Seconds()}
}

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: wire HOST:PORT OBJECTS EVENTS")
	}
	server, objects, events := os.Args[1], side.Number(os.Args[2]), side.Number(os.Args[3])
	// One whole list, which is twice as fast in client-go as a streaming list when both are JSON.
	os.Setenv("KUBE_FEATURE_WatchListClient", "false")

	var result outcome
	seen := make(chan struct{})
	updates := 0

	m := side.Start()
	config := &rest.Config{
		Host:          "http://" + server,
		QPS:           -1, // no limit of the client's own
		ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: "application/json"},
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		log.Fatalf("client: %v", err)
	}
	pods := informers.NewSharedInformerFactory(client, 0).Core().V1().Pods().Informer()
	handler, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { _ = object.(*corev1.Pod) },
		UpdateFunc: func(_, object any) {
			_ = object.(*corev1.Pod)
			if updates++; updates == events {
				close(seen)
			}
		},
	})
	if err != nil {
		log.Fatalf("handler: %v", err)
	}
	stop := make(chan struct{})
	go pods.Run(stop)
	if !cache.WaitForCacheSync(stop, handler.HasSynced) {
		log.Fatal("no sync")
	}
	result.Sync = done(m, objects)
	if count := len(pods.GetStore().ListKeys()); count != objects {
		log.Fatalf("%d objects in the store, not %d", count, objects)
	}
	time.Sleep(side.Rest)
	result.Memory = side.MemoryNow()

	if events > 0 {
		m = side.Start()
		answer, err := http.Post(fmt.Sprintf("http://%s/events?count=%d", server, events), "", nil)
		if err != nil || answer.StatusCode != http.StatusOK {
			log.Fatalf("no events: %v %v", answer, err)
		}
		select {
		case <-seen:
		case <-time.After(side.Patience):
			log.Fatal("not all events came")
		}
		result.Events = done(m, events)
	}
	side.Print(result)
}
