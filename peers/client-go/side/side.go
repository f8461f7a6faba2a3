// Package side is what the programs share that are client-go's sides of a measurement (peers/bench is the other end).
package side

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Patience is how long to wait for a sync, and for all events.
const Patience = 10 * time.Minute

// Rest is how long a side rests after its sync, before its memory is read.
const Rest = 500 * time.Millisecond

// Meter measures time on the clock and on the processors from its start.
type Meter struct {
	began time.Time
	cpu   time.Duration
}

// Start starts a meter.
func Start() Meter { return Meter{time.Now(), cpu()} }

// Wall is the time on the clock since the start.
func (m Meter) Wall() time.Duration { return time.Since(m.began) }

// CPU is the time that all threads have run since the start, the garbage collector's included.
func (m Meter) CPU() time.Duration { return cpu() - m.cpu }

func cpu() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		log.Fatalf("getrusage: %v", err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// Memory is the most that was resident, and what is now, in MiB.
type Memory struct {
	PeakMiB    float64 `json:"peak_mib"`
	SettledMiB float64 `json:"settled_mib"`
}

// MemoryNow reads it.
func MemoryNow() *Memory {
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
	return &Memory{field("VmHWM:"), field("VmRSS:")}
}

// ForgetPeak makes the peak begin anew.
func ForgetPeak() {
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		log.Fatalf("a process may forget its own peak: %v", err)
	}
}

// Number reads an argument.
func Number(text string) int {
	value, err := strconv.Atoi(text)
	if err != nil {
		log.Fatalf("%q is no number: %v", text, err)
	}
	return value
}

// Print prints what was found as one line.
func Print(found any) {
	line, err := json.Marshal(found)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(line))
}
