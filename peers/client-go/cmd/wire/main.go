// Command wire is client-go as a side of a measurement: a typed shared informer of Pods over JSON with one handler.
//
// It is told HOST:PORT OBJECTS EVENTS and prints one line of JSON, as every side does (peers/bench/src/side.rs).
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// How long to wait for the sync, and for all events.
const patience = 10 * time.Minute

// How long a side rests after its sync, before its memory is read.
const settle = 500 * time.Millisecond

type work struct {
	WallS     float64 `json:"wall_s"`
	CPUUsEach float64 `json:"cpu_us_each"`
	PerS      float64 `json:"per_s"`
}

type memory struct {
	PeakMiB    float64 `json:"peak_mib"`
	SettledMiB float64 `json:"settled_mib"`
}

type outcome struct {
	Sync   *work   `json:"sync,omitempty"`
	Memory *memory `json:"memory,omitempty"`
	Events *work   `json:"events,omitempty"`
}

type meter struct {
	began time.Time
	cpu   time.Duration
}

func cpu() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		log.Fatalf("getrusage: %v", err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func start() meter { return meter{time.Now(), cpu()} }

func (m meter) work(count int) *work {
	wall, spent := time.Since(m.began), cpu()-m.cpu
	each := float64(spent.Nanoseconds()) / 1e3 / float64(count)
	return &work{wall.Seconds(), each, float64(count) / wall.Seconds()}
}

func memoryNow() *memory {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		log.Fatalf("measurements need Linux: %v", err)
	}
	field := func(name string) float64 {
		for _, line := range strings.Split(string(status), "\n") {
			if value, found := strings.CutPrefix(line, name); found {
				kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
				if err != nil {
					log.Fatalf("%s: %v", name, err)
				}
				return kib / 1024
			}
		}
		log.Fatalf("no %s in /proc/self/status", name)
		return 0
	}
	return &memory{field("VmHWM:"), field("VmRSS:")}
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	if err != nil {
		log.Fatalf("usage: wire HOST:PORT OBJECTS EVENTS: %v", err)
	}
	return value
}

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: wire HOST:PORT OBJECTS EVENTS")
	}
	server, objects, events := os.Args[1], number(os.Args[2]), number(os.Args[3])
	// One whole list, which is twice as fast in client-go as a streaming list when both are JSON.
	os.Setenv("KUBE_FEATURE_WatchListClient", "false")

	var result outcome
	seen := make(chan struct{})
	updates := 0

	m := start()
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
	result.Sync = m.work(objects)
	if count := len(pods.GetStore().ListKeys()); count != objects {
		log.Fatalf("%d objects in the store, not %d", count, objects)
	}
	time.Sleep(settle)
	result.Memory = memoryNow()

	if events > 0 {
		m = start()
		answer, err := http.Post(fmt.Sprintf("http://%s/events?count=%d", server, events), "", nil)
		if err != nil || answer.StatusCode != http.StatusOK {
			log.Fatalf("no events: %v %v", answer, err)
		}
		select {
		case <-seen:
		case <-time.After(patience):
			log.Fatal("not all events came")
		}
		result.Events = m.work(events)
	}
	line, err := json.Marshal(result)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(line))
}
