// Panics in a function that reconcile calls, as a plugin with a bug does. The parent's condition has the message and the place, and
// the log has the stack.
package main

import (
	_ "embed"

	windlass "windlass.dev/plugin"
)

type (
	// Spec has no fields.
	Spec struct{}
	// Status has no fields.
	Status struct{}
	// Request is a request for a GoPanic.
	Request = windlass.Request[Spec, Status]
	// Response is a response for a GoPanic.
	Response = windlass.Response[Status]
)

//go:embed crd.json
var crd []byte

func reconcile(request *Request) (*Response, error) {
	count(request.Name)
	return &Response{}, nil
}

var counts map[string]int

// Not inlined, so that the stack has this function.
//
//go:noinline
func count(name string) {
	counts[name]++
}

func init() {
	windlass.Register(windlass.Plugin[Spec, Status]{
		Name:        "panics-go",
		Version:     "0.1.0",
		Description: "Panics",
		Parent:      windlass.CustomResource{Group: "panics.example", Version: "v1", Kind: "GoPanic", CRD: crd},
		Reconcile:   reconcile,
	})
}

func main() {}
