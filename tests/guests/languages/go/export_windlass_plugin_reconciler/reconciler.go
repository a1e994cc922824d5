// Package export_windlass_plugin_reconciler is the guest: it writes into a ConfigMap what a plugin in Go sees of the
// machine it runs on. The generated bindings call it, and require this name.
package export_windlass_plugin_reconciler

import (
	cryptorand "crypto/rand"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"
	_ "unsafe" // For go:linkname.

	witTypes "go.bytecodealliance.org/pkg/wit/types"

	types "wit_component/windlass_plugin_types"
)

// Reads only the monotonic clock: time.Now also reads the wall clock.
//
//go:linkname nanotime runtime.nanotime
func nanotime() int64

// A garbage collection reads the wall clock, for statistics. While the host passes a request to the guest, the guest may
// not call the host, so a collection would end it. A call is short and its memory is discarded as a whole, so nothing is
// collected until the memory is near the limit.
func init() {
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(48 << 20)
}

// object is a JSON object.
type object = map[string]any

// Describe returns the plugin's descriptor.
func Describe() types.Descriptor {
	return types.Descriptor{
		Name:        "go",
		Version:     "0.1.0",
		Description: "Shows what a plugin in Go sees.",
		Parent:      types.MakeParentCustom(encode(definition())),
		Children: []types.ChildRule{{
			Kind:   types.Kind{ApiVersion: "v1", Name: "ConfigMap"},
			Update: types.MakeUpdateStrategyApply(),
		}},
		Resync:       witTypes.None[uint64](),
		ConfigSchema: witTypes.None[[]uint8](),
	}
}

// Reconcile returns one ConfigMap that shows what this call sees.
func Reconcile(request types.Request) witTypes.Result[types.Response, types.Failure] {
	var parent struct {
		Metadata struct{ Name string }
		Spec     struct{ WallClock bool }
	}
	if err := json.Unmarshal(request.Parent, &parent); err != nil {
		return witTypes.Err[types.Response](types.MakeFailureFailed(err.Error()))
	}
	data := seen()
	if parent.Spec.WallClock {
		data["wallClock"] = time.Now().UTC().Format(time.RFC3339)
	}
	child := object{
		"apiVersion": "v1",
		"kind":       "ConfigMap",
		"metadata":   object{"name": parent.Metadata.Name + "-seen"},
		"data":       data,
	}
	return witTypes.Ok[types.Response, types.Failure](types.Response{
		Children: [][]uint8{encode(child)},
		Status:   witTypes.None[[]uint8](),
		Requeue:  witTypes.None[uint64](),
	})
}

func seen() map[string]string {
	before := nanotime()
	bytes := make([]byte, 8)
	_, _ = cryptorand.Read(bytes) // It never returns an error: it ends the program instead.
	return map[string]string{
		"random":      fmt.Sprintf("%d %x", rand.Uint64(), bytes),
		"order":       order(),
		"environment": strings.Join(os.Environ(), " "),
		"arguments":   strings.Join(os.Args, " "),
		"files":       files(),
		"elapsed":     fmt.Sprint(nanotime() - before),
	}
}

// order is the order of a map's iteration, which Go chooses at random each time.
func order() string {
	words := map[string]bool{}
	for _, word := range strings.Fields("one two three four five six seven eight nine ten eleven twelve") {
		words[word] = true
	}
	var order []string
	for word := range words {
		order = append(order, word)
	}
	return strings.Join(order, " ")
}

// files are the names in the folders that a guest may look at.
func files() string {
	var names []string
	for _, folder := range []string{".", "/"} {
		entries, _ := os.ReadDir(folder)
		for _, entry := range entries {
			names = append(names, entry.Name())
		}
	}
	return strings.Join(slices.Compact(names), " ")
}

func definition() object {
	schema := object{
		"type": "object",
		"properties": object{
			"spec": object{
				"type":       "object",
				"properties": object{"wallClock": object{"type": "boolean"}},
			},
		},
	}
	return object{
		"apiVersion": "apiextensions.k8s.io/v1",
		"kind":       "CustomResourceDefinition",
		"metadata":   object{"name": "goguests.languages.example"},
		"spec": object{
			"group": "languages.example",
			"names": object{
				"kind": "GoGuest", "listKind": "GoGuestList", "plural": "goguests", "singular": "goguest",
			},
			"scope": "Namespaced",
			"versions": []any{object{
				"name": "v1", "served": true, "storage": true,
				"subresources": object{"status": object{}},
				"schema":       object{"openAPIV3Schema": schema},
			}},
		},
	}
}

func encode(value any) []byte {
	bytes, err := json.Marshal(value)
	if err != nil {
		panic(err) // Every value here can be encoded.
	}
	return bytes
}
