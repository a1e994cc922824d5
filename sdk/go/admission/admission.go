// Package admission validates and defaults parents before they are stored.
//
// The host does not serve admission yet: it registers no webhook and never calls the review, which only windlasstest calls. In a
// cluster the schema of the CRD and its CEL rules validate and default, and the host checks the spec before Reconcile.
//
// A program that imports this package exports the interface admission of the contract, and is of the world admitting-plugin.
package admission

import (
	"bytes"
	"errors"
	"fmt"

	windlass "windlass.dev/plugin"
	"windlass.dev/plugin/contract"
	"windlass.dev/plugin/internal/defaults"
	"windlass.dev/plugin/internal/guest"
	"windlass.dev/plugin/internal/jsondoc"
	"windlass.dev/plugin/internal/problem"
	"windlass.dev/plugin/internal/reading"
)

// Operation is the operation of a write.
type Operation = contract.Operation

// The operations.
const (
	// Create: there is no object before the write.
	Create = contract.Create
	// Update: there is an object before the write and one after it.
	Update = contract.Update
	// Delete: there is no object after the write.
	Delete = contract.Delete
)

// Request is one write of a parent, before it is stored.
type Request[Spec any] struct {
	// Operation is the operation.
	Operation Operation
	// Kind is that of the object.
	Kind windlass.Kind
	// Subresource is the subresource that is written: "scale", "status". Empty: the object itself.
	Subresource string
	// Namespace is empty for a cluster-scoped object.
	Namespace string
	// NamespaceLabels are the labels of the namespace.
	NamespaceLabels map[string]string
	// Name is empty if the API server generates it after admission.
	Name string
	// DryRun: nothing is stored, whatever the response is.
	DryRun bool
	// Username is the name of the user who writes, as the API server authenticated it.
	Username string
	// Groups are the user's groups.
	Groups []string

	raw          contract.AdmissionRequest
	defaults     *defaults.Schema
	configSchema []byte
}

// Response is the outcome of a review: [Allow], [Deny] or [Replace] make one.
type Response struct {
	raw contract.Verdict
}

// Allow allows the write.
func Allow() Response {
	return Response{}
}

// Deny denies the write with the message of an error: windlass.Invalid, for example.
func Deny(err error) Response {
	field, message := problem.Split(err)
	return Response{contract.Verdict{Denied: true, Field: field, Message: message}}
}

// Replace allows the write, and this object is stored instead: a map, or whatever encodes as the JSON of the object. Only its spec,
// labels and annotations may differ. An object that cannot be encoded denies the write.
func Replace(object any) Response {
	document, err := jsondoc.Encode(object)
	if err != nil {
		return Deny(fmt.Errorf("the object cannot be encoded: %w", err))
	}
	return Response{contract.Verdict{Replace: document}}
}

// WithWarnings is this response with warnings for the user, whether the write is allowed or denied.
func (r Response) WithWarnings(warnings ...string) Response {
	r.raw.Warnings = warnings
	return r
}

// Register makes a review the admission of a plugin; once in a program, beside windlass.Register. Like Reconcile, a review
// depends on its request alone.
func Register[Spec, Status any](plugin windlass.Plugin[Spec, Status], review func(*Request[Spec]) Response) {
	guest.Review = Contract(plugin, review)
}

// Contract returns a review as the host will call it, with the untyped requests and verdicts of the contract.
func Contract[Spec, Status any](plugin windlass.Plugin[Spec, Status], review func(*Request[Spec]) Response) func(contract.AdmissionRequest) contract.Verdict {
	return func(raw contract.AdmissionRequest) contract.Verdict {
		request := &Request[Spec]{
			Operation: raw.Operation, Kind: raw.Kind,
			Subresource: raw.Subresource, Namespace: raw.Namespace, NamespaceLabels: raw.NamespaceLabels, Name: raw.Name,
			DryRun: raw.DryRun, Username: raw.Username, Groups: raw.Groups, raw: raw, configSchema: plugin.ConfigSchema,
		}
		if resource, isCustom := plugin.Parent.(windlass.CustomResource); isCustom {
			var err error
			if request.defaults, err = defaults.OfCRD(resource.CRD); err != nil {
				return Deny(fmt.Errorf("the CRD: %w", err)).raw
			}
		}
		return review(request).raw
	}
}

// IsBeingDeleted tells whether the object is being deleted. Its finalizers must be removable then, so even an invalid object
// must be allowed.
func (r *Request[Spec]) IsBeingDeleted() bool {
	return r.Operation == Delete || jsondoc.At(r.raw.Object, "/metadata/deletionTimestamp") != nil
}

// Spec returns the spec of the object after the write, with the defaults of its type. The error names a field whose value is not one
// of its type, or says that there is no object ([Delete]). [Deny] takes it. Bounds, patterns and required fields are not checked:
// the API server does that after admission.
func (r *Request[Spec]) Spec() (*Spec, error) {
	spec := new(Spec)
	if r.raw.Object == nil {
		return nil, errors.New("the request has no object")
	}
	return spec, reading.Read(r.defaults, specOf(r.raw.Object), "spec", spec)
}

// OldSpec returns the spec of the object before the write, as [Request.Spec]; nil for a new object.
func (r *Request[Spec]) OldSpec() (*Spec, error) {
	if r.raw.OldObject == nil {
		return nil, nil
	}
	spec := new(Spec)
	return spec, reading.Read(r.defaults, specOf(r.raw.OldObject), "spec", spec)
}

// Object reads the object after the write into a value, as json.Unmarshal does. The error names the field that does not fit, or says
// that there is no object ([Delete]).
func (r *Request[Spec]) Object(into any) error {
	return readObject(r.raw.Object, into)
}

// OldObject reads the object before the write into a value, as [Request.Object].
func (r *Request[Spec]) OldObject(into any) error {
	return readObject(r.raw.OldObject, into)
}

// Config reads the Plugin's spec.config into a value, as [windlass.Request.Config]. The error names the field.
func (r *Request[Spec]) Config(into any) error {
	return reading.Config(r.configSchema, r.raw.Config, into)
}

// WithDefaults allows the write, with all defaults of the spec's type filled in. Fields that the object has stay as they are.
func (r *Request[Spec]) WithDefaults() Response {
	given := specOf(r.raw.Object)
	spec, err := r.defaults.Fill(given)
	switch {
	case err != nil:
		return Deny(err)
	case bytes.Equal(spec, given):
		return Allow()
	}
	object, err := jsondoc.Tree(r.raw.Object)
	fields, isObject := object.(map[string]any)
	if err != nil || !isObject {
		return Deny(errors.New("the object is not a JSON object"))
	}
	if fields["spec"], err = jsondoc.Tree(spec); err != nil {
		return Deny(err)
	}
	return Replace(fields)
}

func specOf(object []byte) []byte {
	spec := jsondoc.At(object, "/spec")
	if spec == nil || string(spec) == "null" {
		return []byte("{}")
	}
	return spec
}

func readObject(object []byte, into any) error {
	if object == nil {
		return errors.New("the request has no such object")
	}
	return reading.Decode(object, "", into)
}
