// Package windlass writes a Kubernetes operator as one function.
//
// A Windlass plugin is a function from a custom resource (the parent) and the live objects to the desired state. The host does
// everything else: it watches, caches and queues, applies the desired children, deletes the others, writes the status, retries
// and traces. With this package the input and the output of the function are types of Go, and the CRD comes from them.
//
// # A whole plugin
//
//	package main
//
//	import (
//		_ "embed"
//		"fmt"
//
//		windlass "windlass.dev/plugin"
//		"windlass.dev/plugin/kinds"
//	)
//
//	// What the user asks for. kubectl explain shows this sentence.
//	type Spec struct {
//		// The name to greet.
//		Name string `json:"name" minLength:"1"`
//	}
//
//	// What the user gets.
//	type Status struct {
//		// ConfigMaps that exist.
//		ConfigMaps int `json:"configMaps"`
//	}
//
//	//go:embed crd.json
//	var crd []byte
//
//	var plugin = windlass.Plugin[Spec, Status]{
//		Name:      "greeting",
//		Version:   "0.1.0",
//		Parent:    windlass.CustomResource{Group: "example.com", Version: "v1", Kind: "Greeting", CRD: crd},
//		Children:  []windlass.ChildRule{{Kind: kinds.ConfigMap}},
//		Reconcile: reconcile,
//	}
//
//	func reconcile(request *windlass.Request[Spec, Status]) (*windlass.Response[Status], error) {
//		return &windlass.Response[Status]{
//			Children: []any{windlass.Map{
//				"apiVersion": "v1",
//				"kind":       "ConfigMap",
//				"metadata":   windlass.Map{"name": request.Name},
//				"data":       windlass.Map{"greeting": fmt.Sprintf("Hello, %s!", request.Spec.Name)},
//			}},
//			Status: &Status{ConfigMaps: len(request.Children(kinds.ConfigMap))},
//		}, nil
//	}
//
//	func init() { windlass.Register(plugin) }
//
//	func main() {}
//
// # Rules
//
//   - The response lists all desired children. The host deletes a live child that is missing.
//   - A call depends on its [Request] alone, and returns the same response for the same request. There is no network, no file,
//     and no memory of the last call: the host makes a fresh instance for each.
//   - Sort what comes from a map before it becomes a list: Go iterates over maps in an order that differs between requests.
//   - The host sets ownerReferences, namespaces and its labels: leave them out of children.
//   - The host sets status.observedGeneration and the conditions Reconciling and Stalled, and Ready unless the plugin sets it.
//   - After an error or a panic the host writes and deletes nothing.
//
// # The spec
//
// windlasstest.CRD makes the CRD from the types of spec and status: from their comments and tags. The component embeds it, and
// the host checks each spec with it before Reconcile, because an object may be older than its schema. The host fills in defaults, so
// Reconcile never asks whether a field is set. Unknown fields are ignored. CEL rules are checked by the API server alone. In a clean-up
// the host fills in defaults and checks nothing.
//
// # Memory and time
//
// The package turns the garbage collector off until the memory comes near to the host's default limit of 64 MiB, because a call
// is short and its memory is thrown away. A request of 4 MiB, the largest by default, with a thousand children that are read
// whole ([Object.Map]) stays below it. [Object.Get], [Object.Text] and [Object.Condition] read single fields, which costs much less.
//
// A program for windlass is an ordinary one without network and files. Packages work as far as they do for GOOS=wasip1. time.Now,
// time.Sleep and log/slog read the clock: use [Request.Now] and package log instead.
package windlass
