package player

import (
	"flag"
	"fmt"
	"math/rand"
	"path/filepath"
	"testing"
	"testing/synctest"

	clientfeatures "k8s.io/client-go/features"
	featuretesting "k8s.io/client-go/features/testing"
	"k8s.io/klog/v2"

	"github.com/go-logr/logr"
)

var into = flag.String("into", "", "folder for the outcomes of the files that are named after the flags")

// TestPlay plays the files that the command line names, and records their outcomes.
func TestPlay(t *testing.T) {
	files := flag.Args()
	if *into == "" || len(files) == 0 {
		t.Skip("nothing to play: give -into FOLDER FILE...")
	}
	klog.SetLogger(logr.Discard())
	played, written := 0, 0
	for _, file := range files {
		scenario, err := ReadScenario(file)
		if err != nil {
			t.Error(err)
			continue
		}
		t.Run(scenario.Name, func(t *testing.T) {
			streams := scenario.Informer.ListStrategy != "paged"
			featuretesting.SetFeatureDuringTest(t, clientfeatures.WatchListClient, streams)
			folder := t.TempDir()
			// client-go draws from the global source; with randseednop=0 (go.mod) it can be seeded.
			rand.Seed(scenario.Seed) //nolint:staticcheck // there is no other seam
			var outcome any
			synctest.Test(t, func(t *testing.T) {
				if scenario.Kind == "queue" {
					outcome, err = PlayQueue(scenario)
				} else {
					outcome, err = PlayInformer(scenario, folder)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			wrote, err := Record(*into, scenario.Name, outcome)
			if err != nil {
				t.Fatal(err)
			}
			played++
			if wrote {
				written++
			}
		})
	}
	fmt.Printf("played %d of %d files into %s, %d outcomes changed\n", played, len(files), filepath.Clean(*into), written)
}
