// MyApp is a web application: a Deployment, a Service and, for a host name, an Ingress.
package main

import (
	_ "embed"
	"time"

	windlass "windlass.dev/plugin"
	"windlass.dev/plugin/admission"
	"windlass.dev/plugin/kinds"
)

//go:embed crd.json
var crd []byte

var plugin = windlass.Plugin[Spec, Status]{
	Name:        "myapp",
	Version:     "0.1.0",
	Description: "Runs a web application, with its Service and Ingress",
	Parent: windlass.CustomResource{
		Group:      "example.com",
		Version:    "v1",
		Kind:       "MyApp",
		ShortNames: []string{"ma"},
		Columns: []windlass.Column{
			{Name: "Phase", Type: "string", Path: ".status.phase"},
			{Name: "Replicas", Type: "integer", Path: ".status.replicas"},
		},
		// The Service has the same name.
		Rules: []windlass.Rule{windlass.RFC1035Name(63)},
		CRD:   crd,
	},
	Children:  []windlass.ChildRule{{Kind: kinds.Deployment}, {Kind: kinds.Service}, {Kind: kinds.Ingress}},
	Finalizes: true,
	Resync:    time.Minute,
	Reconcile: reconcile,
	Finalize:  finalize,
}

type (
	Request  = windlass.Request[Spec, Status]
	Response = windlass.Response[Status]
)

func reconcile(request *Request) (*Response, error) {
	if err := request.Spec.check(); err != nil {
		return nil, err
	}
	response := &Response{Children: []any{deployment(request), service(request)}}
	if host := request.Spec.IngressHost; host != nil {
		response.Children = append(response.Children, ingress(request, *host))
	}
	status := statusOf(request)
	windlass.SetPhase(response, request, status, status.Message)
	return response, nil
}

// finalize cleans up outside the cluster: a DNS record, for example. MyApp has nothing there, and only emits an event. The
// response has no children, so the host deletes the live ones.
func finalize(request *windlass.Request[windlass.Unread[Spec], Status]) (*Response, error) {
	event := windlass.Normal("CleanedUp", "Nothing of %s is left outside the cluster", request.Name)
	return &Response{Events: []windlass.Event{event}, Finalized: true}, nil
}

// review validates MyApps and sets their defaults, for a host that serves admission; no host does yet.
func review(request *admission.Request[Spec]) admission.Response {
	if request.IsBeingDeleted() {
		return admission.Allow()
	}
	spec, err := request.Spec()
	if err != nil {
		return admission.Deny(err)
	}
	if err := spec.check(); err != nil {
		return admission.Deny(err)
	}
	return request.WithDefaults()
}

func init() {
	windlass.Register(plugin)
	admission.Register(plugin, review)
}

func main() {}
