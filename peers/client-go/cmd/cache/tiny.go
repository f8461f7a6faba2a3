package main

import (
	"fmt"
	"runtime"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// What objects are like: as Tiny in peers/bench/src/cache.rs, which says why.
const (
	inNamespace = 500
	inPart      = 8_340
	inBlock     = 100
	stride      = 54_321
)

func namespaceOf(n int) string { return fmt.Sprintf("team-%05d", n/inNamespace) }

func partOf(n int) string { return fmt.Sprintf("part-%d", n*stride%100_000/inPart) }

func keyOf(n int) string { return fmt.Sprintf("%s/object-%07d", namespaceOf(n), n) }

// A ConfigMap that has nothing but metadata.
func tiny(n, version int) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name:            fmt.Sprintf("object-%07d", n),
		Namespace:       namespaceOf(n),
		UID:             types.UID(fmt.Sprintf("%08x-0000-4000-8000-%012x", n, n*stride)),
		ResourceVersion: fmt.Sprint(version),
		Labels:          map[string]string{"part": partOf(n), "block": fmt.Sprintf("block-%05d", n/inBlock)},
	}}
}

func label(name string) cache.IndexFunc {
	return func(object any) ([]string, error) {
		return []string{object.(*corev1.ConfigMap).Labels[name]}, nil
	}
}

// The first of these: of the namespace and the two labels.
func indexers(count int) cache.Indexers {
	all := []struct {
		name     string
		function cache.IndexFunc
	}{
		{cache.NamespaceIndex, cache.MetaNamespaceIndexFunc},
		{"part", label("part")},
		{"block", label("block")},
	}
	chosen := cache.Indexers{}
	for _, index := range all[:count] {
		chosen[index.name] = index.function
	}
	return chosen
}

// The heap in use when all garbage is collected.
func heap() float64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc)
}
