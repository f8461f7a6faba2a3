// Command cache is client-go's cache in the jobs of `peers/run cache`:
//
//	cache overhead|store OBJECTS | scale SMALL BIG | events TO-1 TO-10 TO-100 | stalled EVENTS
//	cache idle SERVER INFORMERS | relist SERVER OBJECTS
//
// It prints one line of JSON: a number for each row of the table in peers/bench/src/cache.rs that it measured.
package main

import (
	"log"
	"os"

	"informer.test/peers/client-go/side"
)

type figures map[string]float64

func main() {
	// One whole list, which is twice as fast in client-go as a streaming list when both are JSON.
	os.Setenv("KUBE_FEATURE_WatchListClient", "false")
	found := figures{}
	args := os.Args[1:]
	is := func(job string, operands int) bool { return len(args) == operands+1 && args[0] == job }
	switch {
	case is("overhead", 1):
		overhead(found, side.Number(args[1]))
	case is("store", 1):
		store(found, side.Number(args[1]))
	case is("scale", 2):
		scale(found, side.Number(args[1]), side.Number(args[2]))
	case is("events", 3):
		events(found, 1, side.Number(args[1]))
		events(found, 10, side.Number(args[2]))
		events(found, 100, side.Number(args[3]))
	case is("stalled", 1):
		stalled(found, side.Number(args[1]))
	case is("idle", 2):
		idle(found, args[1], side.Number(args[2]))
	case is("relist", 2):
		relist(found, args[1], side.Number(args[2]))
	default:
		log.Fatal("usage: the head of cmd/cache/main.go")
	}
	side.Print(found)
}
