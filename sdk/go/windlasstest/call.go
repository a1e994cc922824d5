// Package windlasstest tests a plugin without wasm and without a cluster. A call goes through the same bytes as in the host, and the
// program windlass checks the response as the host does: it is the one that the environment variable WINDLASS names, or else the one in
// PATH.
//
//	func TestScaleDown(t *testing.T) {
//		parent := windlasstest.YAML(`{metadata: {name: web}, spec: {replicas: 1, image: nginx}}`)
//		response, err := windlasstest.Call(plugin, parent).Children(pod("web-0"), pod("web-1")).Run()
//		if err != nil || len(response.Children) != 1 {
//			t.Fatal(response, err)
//		}
//	}
//
// [Golden] compares the responses of a folder of requests with reviewed ones, and [CRD] writes the CRD.
package windlasstest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	windlass "windlass.dev/plugin"
	"windlass.dev/plugin/admission"
	"windlass.dev/plugin/contract"
	"windlass.dev/plugin/internal/host"
	"windlass.dev/plugin/internal/jsondoc"
)

// Prepared is a prepared call. Its methods change it and return it, so that they can be chained; [Prepared.Run] calls the plugin.
type Prepared struct {
	plugin  contract.Plugin
	request contract.Request
	input   host.Input
	// hasClock: the plugin gets the time in its request.
	hasClock bool
	// invalid is why the host does not call the plugin with the parent; empty if it does.
	invalid string
}

// Call prepares a call with this parent: a map ([YAML] reads one), or whatever encodes as the JSON of an object. A missing
// metadata.uid becomes "uid". The host's code checks the parent and fills in its defaults, by the plugin's types, whatever the file of
// the CRD has. It panics if the parent is not an object, or if the types have no schema, as all functions of this package do for values
// that cannot be encoded.
func Call[Spec, Status any](plugin windlass.Plugin[Spec, Status], parent any) *Prepared {
	fields := mapOf(parent)
	metadata, _ := fields["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		fields["metadata"] = metadata
	}
	if _, isSet := metadata["uid"]; !isSet {
		metadata["uid"] = "uid"
	}
	prepared := &Prepared{plugin: current(plugin).Contract(), request: contract.Request{Parent: encode(fields)}}
	described := prepared.plugin.Describe()
	for _, rule := range described.Children {
		if rule.Optional {
			prepared.request.Kinds = append(prepared.request.Kinds, rule.Kind)
		}
	}
	for _, rule := range described.Related {
		if rule.Optional {
			prepared.request.Kinds = append(prepared.request.Kinds, rule.Kind)
		}
	}
	prepared.hasClock = described.Clock
	return prepared.At(host.DefaultNow)
}

// current is a plugin with the CRD of its types.
func current[Spec, Status any](plugin windlass.Plugin[Spec, Status]) windlass.Plugin[Spec, Status] {
	resource, isCustom := plugin.Parent.(windlass.CustomResource)
	if !isCustom {
		return plugin
	}
	crd, err := crdOf[Spec, Status](resource, &generator{withoutDocs: true})
	if err != nil {
		panic(err)
	}
	resource.CRD = encode(crd)
	plugin.Parent = resource
	return plugin
}

// Describe returns the plugin's description of itself.
func Describe[Spec, Status any](plugin windlass.Plugin[Spec, Status]) contract.Descriptor {
	return plugin.Contract().Describe()
}

// withReadiness is a live object, and whether it is ready.
type withReadiness struct {
	object    any
	readiness windlass.Readiness
}

// Ready is a live object that is ready, for [Prepared.Children] and [Prepared.Related]. Whether other live objects are ready follows
// from their status, by the host's own code.
func Ready(object any) any {
	return withReadiness{object, windlass.Readiness{State: windlass.ReadinessReady}}
}

// Progressing is a live object that is not ready yet, as [Ready]; the message says what is missing.
func Progressing(object any, message string) any {
	return withReadiness{object, windlass.Readiness{State: windlass.ReadinessProgressing, Message: message}}
}

// Failed is a live object that will not become ready by itself, as [Ready]; the message says why.
func Failed(object any, message string) any {
	return withReadiness{object, windlass.Readiness{State: windlass.ReadinessFailed, Message: message}}
}

// Children adds live children. They are ordered as the host orders them.
func (p *Prepared) Children(objects ...any) *Prepared {
	for _, object := range objects {
		p.request.Children = append(p.request.Children, observed(object))
	}
	slices.SortStableFunc(p.request.Children, func(a, b contract.Observed) int {
		return cmp.Or(
			cmp.Compare(a.Kind.APIVersion, b.Kind.APIVersion), cmp.Compare(a.Kind.Kind, b.Kind.Kind),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name),
		)
	})
	return p
}

// Related serves the requirement of this id with these objects ([windlass.Request.Related]).
func (p *Prepared) Related(id string, objects ...any) *Prepared {
	related := contract.Related{ID: id}
	for _, object := range objects {
		related.Objects = append(related.Objects, observed(object))
	}
	p.request.Related = append(p.request.Related, related)
	return p
}

// Config sets the Plugin's spec.config ([windlass.Request.Config]): whatever encodes as JSON.
func (p *Prepared) Config(config any) *Prepared {
	p.request.Config = encode(config)
	return p
}

// LeftOut adds live children that are not in the request ([windlass.Request.LeftOut]).
func (p *Prepared) LeftOut(children ...windlass.LeftOut) *Prepared {
	p.request.LeftOut = append(p.request.LeftOut, children...)
	return p
}

// Kinds sets the optional kinds that exist in the cluster ([windlass.Request.HasKind]). By default all do.
func (p *Prepared) Kinds(kinds ...windlass.Kind) *Prepared {
	p.request.Kinds = kinds
	return p
}

// ClosedNamespaces sets the namespaces in which the plugin may have no children ([windlass.Request.ClosedNamespaces]).
func (p *Prepared) ClosedNamespaces(names ...string) *Prepared {
	p.request.ClosedNamespaces = names
	return p
}

// Finalize makes this a call to clean up ([windlass.Request.IsFinalizing]), because the parent is being deleted.
func (p *Prepared) Finalize() *Prepared {
	return p.FinalizeBecause(windlass.Deleted)
}

// FinalizeBecause makes this a call to clean up for this cause ([windlass.Request.Cause]).
func (p *Prepared) FinalizeBecause(cause windlass.FinalizeCause) *Prepared {
	p.request.Finalizing = &contract.Finalizing{Cause: cause}
	return p
}

// NamespaceTerminating makes this a call to clean up in a namespace that is being deleted
// ([windlass.Request.IsNamespaceTerminating]).
func (p *Prepared) NamespaceTerminating() *Prepared {
	p.request.Finalizing = &contract.Finalizing{Cause: windlass.Deleted, NamespaceTerminating: true}
	return p
}

// At sets the time ([windlass.Request.Now]) and the wall clock ([windlass.Now]). The default is the first second of 2026.
func (p *Prepared) At(now time.Time) *Prepared {
	p.input.Now = now
	if p.hasClock {
		p.request.Now = new(uint64(now.UnixMilli()))
	}
	return p
}

// Random sets the random bytes that the plugin reads, in this order ([windlass.RandomBytes]). By default they are the same in
// every call.
func (p *Prepared) Random(bytes []byte) *Prepared {
	p.input.Random = bytes
	return p
}

// Request returns the untyped request of the contract.
func (p *Prepared) Request() contract.Request {
	return p.request
}

// call calls the plugin, if the host would. The error is a [*windlass.Failure].
func (p *Prepared) call() (response contract.Response, calls HostCalls, err error) {
	if p.invalid != "" {
		return response, calls, invalid(p.invalid)
	}
	var failure *contract.Failure
	made := host.Run(p.input, func() { response, failure = p.plugin.Reconcile(p.request) })
	return response, hostCalls(made), errorOf(failure)
}

// RunRaw calls the plugin as [Prepared.Run], and returns the untyped response of the contract, and the calls of the host's functions,
// also those of a call that fails.
func (p *Prepared) RunRaw() (contract.Response, HostCalls, error) {
	if err := p.prepare(); err != nil {
		return contract.Response{}, HostCalls{}, err
	}
	response, calls, err := p.call()
	if err == nil {
		_, err = p.ask(responseOf(response))
	}
	return response, calls, err
}

// Run calls the plugin. The error is a [*windlass.Failure], which [windlass.IsInvalid] examines, a [*Refused] with the host's sentence
// if the host refuses the response, or another one if the program windlass is missing. A parent that does not fit the schema is invalid
// with the host's sentence, and the plugin is not called. Run may be called again: the calls get the same request.
func (p *Prepared) Run() (*Response, error) {
	raw, calls, err := p.RunRaw()
	if err != nil {
		return nil, err
	}
	response := &Response{
		Children:     make([]map[string]any, 0, len(raw.Children)),
		Keep:         raw.Keep,
		KeepAll:      raw.KeepAll,
		Waiting:      raw.Waiting,
		Events:       raw.Events,
		Requirements: raw.Requirements,
		Finalized:    raw.Finalized,
		HostCalls:    calls,
	}
	for _, child := range raw.Children {
		response.Children = append(response.Children, parsed(child.Object))
		response.Options = append(response.Options, child.ChildOptions)
	}
	if raw.Status != nil {
		response.Status = parsed(raw.Status)
	}
	if raw.Requeue != nil {
		response.Requeue = time.Duration(*raw.Requeue) * time.Millisecond
	}
	if raw.RequeueAt != nil {
		response.RequeueAt = time.UnixMilli(int64(*raw.RequeueAt)).UTC()
	}
	return response, nil
}

func text(object map[string]any, field string) string {
	value, _ := object[field].(string)
	return value
}

// invalid is the failure of a parent with the host's sentence, which begins with the field.
func invalid(sentence string) error {
	if field, message, hasField := strings.Cut(sentence, ": "); hasField {
		return windlass.Invalid(field, "%s", message)
	}
	return windlass.Invalid("", "%s", sentence)
}

// errorOf is nil for no failure.
func errorOf(failure *contract.Failure) error {
	switch {
	case failure == nil:
		return nil
	case failure.Kind == contract.Invalid:
		return windlass.Invalid(failure.Field, "%s", failure.Message)
	}
	return windlass.Failed("%s", failure.Message)
}

// Response is the response of a plugin with parsed JSON, and its calls of the host's functions. Numbers are json.Number.
type Response struct {
	// Children are all desired children, in the plugin's order.
	Children []map[string]any
	// Options are the options of the children, in the same order.
	Options []windlass.ChildOptions
	// Keep are live children that stay as they are.
	Keep []windlass.ChildRef
	// KeepAll: all live children that are not among Children stay as they are.
	KeepAll bool
	// Waiting is what the plugin waits for; empty for nothing.
	Waiting string
	// Status is the plugin's part of the status, with its conditions; nil if there is none.
	Status map[string]any
	// Requeue is the time until the next reconcile; zero if it is not set.
	Requeue time.Duration
	// RequeueAt is the time of the next reconcile; zero if it is not set.
	RequeueAt time.Time
	// Events are events on the parent.
	Events []windlass.Event
	// Requirements are related objects that the response depends on.
	Requirements []contract.Requirement
	// Finalized: the host may remove the finalizer.
	Finalized bool
	HostCalls
}

// Child returns the desired child of this kind and name; nil if there is none.
func (r *Response) Child(kind windlass.Kind, name string) map[string]any {
	for _, child := range r.Children {
		metadata, _ := child["metadata"].(map[string]any)
		if child["apiVersion"] == kind.APIVersion && child["kind"] == kind.Kind && metadata["name"] == name {
			return child
		}
	}
	return nil
}

// HostCalls are the calls of the host's functions during one call of a plugin.
type HostCalls struct {
	// Logs are log lines.
	Logs []LogLine
	// Measurements are calls of windlass.Measure.
	Measurements []Measurement
	// SpanAttributes are the attributes of the call's span.
	SpanAttributes map[string]string
	// SpanEvents are the names of events of the call's span.
	SpanEvents []string
}

// LogLine is a line of the log.
type LogLine struct {
	// Level is trace, debug, info, warn or error.
	Level string
	// Message is the text.
	Message string
	// Fields are the fields as text.
	Fields map[string]string
}

// Measurement is a value of a metric.
type Measurement struct {
	// Metric is the name of the metric.
	Metric string
	// Value is the value.
	Value float64
	// Labels are the labels as text.
	Labels map[string]string
}

func hostCalls(made host.Calls) HostCalls {
	calls := HostCalls{SpanAttributes: pairs(made.SpanAttributes)}
	for _, line := range made.Logs {
		level := [...]string{"trace", "debug", "info", "warn", "error"}[line.Level]
		calls.Logs = append(calls.Logs, LogLine{level, line.Message, pairs(line.Fields)})
	}
	for _, one := range made.Measurements {
		calls.Measurements = append(calls.Measurements, Measurement{one.Metric, one.Value, pairs(one.Labels)})
	}
	for _, event := range made.SpanEvents {
		calls.SpanEvents = append(calls.SpanEvents, event.Name)
	}
	return calls
}

func pairs(pairs []host.Pair) map[string]string {
	all := make(map[string]string, len(pairs))
	for _, pair := range pairs {
		all[pair.Name] = pair.Value
	}
	return all
}

// Verdict is the outcome of a review with parsed JSON.
type Verdict struct {
	// Denied: the write is denied, with Message.
	Denied bool
	// Message is for the user, if the write is denied. It begins with the field that is invalid.
	Message string
	// Object is stored instead; nil if the object is stored as it is.
	Object map[string]any
	// Warnings are for the user, whether the write is allowed or denied.
	Warnings []string
}

// Review calls a plugin's review with a write of an object by the user "user": object is the object after the write, old the
// object before it; nil for none.
func Review[Spec, Status any](
	plugin windlass.Plugin[Spec, Status], review func(*admission.Request[Spec]) admission.Response,
	operation admission.Operation, object, old any,
) Verdict {
	request := contract.AdmissionRequest{Operation: operation, Username: "user"}
	for _, one := range []struct {
		object   any
		document *[]byte
	}{{old, &request.OldObject}, {object, &request.Object}} {
		if one.object != nil {
			written := observed(one.object)
			*one.document = written.Object
			request.Kind, request.Namespace, request.Name = written.Kind, written.Namespace, written.Name
		}
	}
	raw := admission.Contract(current(plugin), review)(request)
	verdict := Verdict{Denied: raw.Denied, Message: fieldAndMessage(raw.Field, raw.Message), Warnings: raw.Warnings}
	if raw.Replace != nil {
		verdict.Object = parsed(raw.Replace)
	}
	return verdict
}

// fieldAndMessage is what users read of an invalid object.
func fieldAndMessage(field, message string) string {
	if field == "" {
		return message
	}
	return field + ": " + message
}

func observed(object any) contract.Observed {
	var readiness windlass.Readiness
	if with, isSet := object.(withReadiness); isSet {
		object, readiness = with.object, with.readiness
	}
	fields := mapOf(object)
	metadata, _ := fields["metadata"].(map[string]any)
	return contract.Observed{
		Kind:      windlass.Kind{APIVersion: text(fields, "apiVersion"), Kind: text(fields, "kind")},
		Namespace: text(metadata, "namespace"),
		Name:      text(metadata, "name"),
		Object:    encode(fields),
		Readiness: readiness,
	}
}

// mapOf is a copy of an object as a map.
func mapOf(object any) map[string]any {
	return parsed(encode(object))
}

func parsed(document []byte) map[string]any {
	value, err := jsondoc.Tree(document)
	if err != nil {
		panic(fmt.Sprintf("%s: %v", document, err))
	}
	fields, isObject := value.(map[string]any)
	if !isObject {
		panic(fmt.Sprintf("%s is not an object", document))
	}
	return fields
}

func encode(value any) []byte {
	document, err := jsondoc.Encode(value)
	if err != nil {
		panic(err)
	}
	return document
}
