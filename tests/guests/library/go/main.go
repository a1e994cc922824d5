// What Go's standard library can and cannot do in a component: the spec names one thing to do, and the status has the result. A
// panic in a function that reconcile calls is a bug as plugins have it: the parent's condition has the message and the place, and the
// log has the stack.
package main

import (
	_ "embed"
	"fmt"
	"net"
	"os"
	"time"

	windlass "windlass.dev/plugin"
)

type (
	// Spec names one thing to do.
	Spec struct {
		// The name of a function in `does`.
		Do string `json:"do"`
	}
	// Status has the result.
	Status struct {
		// What the function returned.
		Result string `json:"result"`
	}
	// Request is a request for a Library.
	Request = windlass.Request[Spec, Status]
	// Response is a response for a Library.
	Response = windlass.Response[Status]
)

//go:embed crd.json
var crd []byte

var does = map[string]func() (string, error){
	"panic": func() (string, error) {
		count("a")
		return "", nil
	},
	"goroutine": func() (string, error) {
		done := make(chan bool)
		go func() { panic("no such luck") }()
		<-done
		return "", nil
	},
	"deadlock": func() (string, error) {
		<-make(chan bool)
		return "", nil
	},
	"file": func() (string, error) {
		hosts, err := os.ReadFile("/etc/hosts")
		return string(hosts), err
	},
	"address": func() (string, error) {
		connection, err := net.Dial("tcp", "10.0.0.1:80")
		return fmt.Sprint(connection), err
	},
	"name": func() (string, error) {
		addresses, err := net.LookupHost("example.com")
		return fmt.Sprint(addresses), err
	},
	"zone": func() (string, error) {
		zone, err := time.LoadLocation("Europe/Berlin")
		return fmt.Sprint(zone), err
	},
	"parse": func() (string, error) {
		at, err := time.Parse(time.DateOnly, "2026-01-02")
		return at.String(), err
	},
	"sleep": func() (string, error) {
		time.Sleep(time.Hour)
		return "slept", nil
	},
}

func reconcile(request *Request) (*Response, error) {
	result, err := does[request.Spec.Do]()
	if err != nil {
		return nil, err
	}
	return &Response{Status: &Status{Result: result}}, nil
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
		Name:        "library",
		Version:     "0.1.0",
		Description: "Calls the standard library",
		Parent:      windlass.CustomResource{Group: "library.example", Version: "v1", Kind: "Library", CRD: crd},
		Reconcile:   reconcile,
	})
}

func main() {}
