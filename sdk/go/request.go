package windlass

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"windlass.dev/plugin/contract"
	"windlass.dev/plugin/internal/jsondoc"
	"windlass.dev/plugin/internal/reading"
)

// Request is everything that a response may depend on. Spec is [Unread] in a call to clean up.
type Request[Spec, Status any] struct {
	// Metadata is the parent's metadata: request.Name, request.Labels.
	Metadata
	// Spec is the parent's spec. The host has filled in its defaults, and has checked it, except before a clean-up. Numbers are exact:
	// an integer is an int64, and a field of type json.Number has what the user wrote, as has a number in a value of type any.
	Spec Spec

	raw          contract.Request
	configSchema []byte
}

// Unread is the spec in a call to clean up ([Plugin.Finalize]). It may be invalid: [ReadSpec] reads it.
type Unread[Spec any] struct{}

// Metadata is the part of an object's metadata that plugins need.
type Metadata struct {
	// Name is unique in a namespace, or in the cluster.
	Name string `json:"name"`
	// Namespace is empty for a cluster-scoped object.
	Namespace string `json:"namespace"`
	// UID is unique: a later object of the same name has another one.
	UID string `json:"uid"`
	// Generation grows with each change of the spec.
	Generation int64 `json:"generation"`
	// Labels are for selectors.
	Labels map[string]string `json:"labels"`
	// Annotations are for tools.
	Annotations map[string]string `json:"annotations"`
	// CreationTimestamp is in RFC 3339.
	CreationTimestamp string `json:"creationTimestamp"`
	// DeletionTimestamp is the time of the deletion request in RFC 3339; empty while the object is not being deleted.
	DeletionTimestamp string `json:"deletionTimestamp"`
}

// parse reads a request without its spec.
func parse[Spec, Status any](plugin *Plugin[Spec, Status], raw contract.Request) (*Request[Unread[Spec], Status], error) {
	request := &Request[Unread[Spec], Status]{raw: raw, configSchema: plugin.ConfigSchema}
	if !json.Valid(raw.Parent) {
		return nil, Failed("the parent is not valid JSON")
	}
	if metadata := jsondoc.At(raw.Parent, "/metadata"); metadata != nil {
		if err := reading.Decode(metadata, "metadata", &request.Metadata); err != nil {
			return nil, Failed("the parent: %w", err)
		}
	}
	return request, nil
}

// ReadSpec returns the request of a clean-up with the parent's spec. The error is an [Invalid] that names a field whose value is not
// one of its type. The host does not check the spec before a clean-up: a value may be out of its bounds, and a field without a default
// may be missing, which is zero then.
func ReadSpec[Spec, Status any](request *Request[Unread[Spec], Status]) (*Request[Spec, Status], error) {
	// A parent without spec is one whose fields all have defaults, or a built-in kind that has no spec.
	spec := jsondoc.At(request.raw.Parent, "/spec")
	if spec == nil || string(spec) == "null" {
		spec = []byte("{}")
	}
	typed := &Request[Spec, Status]{Metadata: request.Metadata, raw: request.raw, configSchema: request.configSchema}
	if err := reading.Decode(spec, "spec", &typed.Spec); err != nil {
		return nil, &Failure{contract.Invalid, err}
	}
	return typed, nil
}

// IsFinalizing tells whether the parent is being deleted or is no longer selected, and the plugin has to clean up
// ([Plugin.Finalizes]). The response then lists the children that must still exist, and [Response.Finalized] ends the parent.
func (r *Request[Spec, Status]) IsFinalizing() bool {
	return r.raw.Finalizing != nil
}

// FinalizeCause is what happened to a parent that is finalized.
type FinalizeCause = contract.FinalizeCause

// The causes.
const (
	// Deleted: it is being deleted.
	Deleted = contract.Deleted
	// LeftSelector: it does not match the plugin's selector any more.
	LeftSelector = contract.LeftSelector
	// LeftNamespaces: its namespace does not match the Plugin's namespace selector any more.
	LeftNamespaces = contract.LeftNamespaces
)

// Cause is why the parent is finalized; empty if it is not ([Request.IsFinalizing]).
func (r *Request[Spec, Status]) Cause() FinalizeCause {
	if r.raw.Finalizing == nil {
		return ""
	}
	return r.raw.Finalizing.Cause
}

// IsNamespaceTerminating tells whether the parent is being finalized in a namespace that is being deleted. No child can be
// created there, and the host removes the finalizer after 30 seconds: a plugin that cleans up with a Job must do without it.
func (r *Request[Spec, Status]) IsNamespaceTerminating() bool {
	return r.raw.Finalizing != nil && r.raw.Finalizing.NamespaceTerminating
}

// Now is the time at which the reconcile began. It panics if the plugin does not set [Plugin.Clock]. The host reuses the response of
// such a plugin until [Response.RequeueAt], and never if that is not set.
func (r *Request[Spec, Status]) Now() time.Time {
	if r.raw.Now == nil {
		panic("the request has no time: set Clock of the plugin")
	}
	return time.UnixMilli(int64(*r.raw.Now)).UTC()
}

// HasKind tells whether an optional kind ([ChildRule.Optional], [RelatedRule.Optional]) exists in the cluster and is granted to the
// Plugin.
func (r *Request[Spec, Status]) HasKind(kind Kind) bool {
	return slices.Contains(r.raw.Kinds, kind)
}

// ClosedNamespaces returns the namespaces in which the plugin may have no children: the host's, and those that the Plugin does not
// grant by name. The host refuses a whole response with a child in one of them.
func (r *Request[Spec, Status]) ClosedNamespaces() []string {
	return r.raw.ClosedNamespaces
}

// Status returns the parent's status as last written; nil if there is no status, or if it is not a Status (an older version may
// have written it).
func (r *Request[Spec, Status]) Status() *Status {
	document := jsondoc.At(r.raw.Parent, "/status")
	status := new(Status)
	if document == nil || string(document) == "null" || reading.Unmarshal(document, status) != nil {
		return nil
	}
	return status
}

// IsSpecApplied tells whether the children of the last response for the current generation of the spec have been applied: the
// host writes this into status.observedGeneration and the condition Stalled. Until then the live children belong to an older
// spec: however complete they look, the parent is not ready. Children of which one has failed have been applied. Always false for kinds whose status has no such fields, as built-in
// kinds.
func (r *Request[Spec, Status]) IsSpecApplied() bool {
	var status struct {
		ObservedGeneration *int64      `json:"observedGeneration"`
		Conditions         []Condition `json:"conditions"`
	}
	document := jsondoc.At(r.raw.Parent, "/status")
	if document == nil || json.Unmarshal(document, &status) != nil || status.ObservedGeneration == nil {
		return false
	}
	stalled := find(status.Conditions, "Stalled")
	isStalled := stalled != nil && stalled.Status == True && stalled.Reason != "ChildFailed"
	return *status.ObservedGeneration >= r.Generation && !isStalled
}

// Parent reads the whole parent into a value, as json.Unmarshal does, for kinds with fields outside spec. A number in a value of
// type any is a json.Number. The error is an [Invalid] that names the field.
func (r *Request[Spec, Status]) Parent(into any) error {
	if err := reading.Decode(r.raw.Parent, "", into); err != nil {
		return &Failure{contract.Invalid, err}
	}
	return nil
}

// Config reads the Plugin's spec.config into a value, with the defaults of [Plugin.ConfigSchema]; without a config, {} is read. The
// host refuses a config that does not fit the schema. The error is a [Failed] that names the field, because the parent's user cannot
// correct it.
func (r *Request[Spec, Status]) Config(into any) error {
	if err := reading.Config(r.configSchema, r.raw.Config, into); err != nil {
		return Failed("%w", err)
	}
	return nil
}

// Children returns the live children of one kind, ordered by namespace and name. Children that are being deleted are among
// them, and those of [Request.LeftOut] are not.
func (r *Request[Spec, Status]) Children(kind Kind) []*Object {
	return ofKind(r.raw.Children, kind)
}

// LeftOut is a live child that is not in a request: its fields are Child ([ChildRef]), and Size in bytes of JSON.
type LeftOut = contract.LeftOut

// LeftOut returns the largest children, if the request would exceed spec.limits.requestBytes of the Plugin with them. The host
// neither changes, deletes nor recreates these, whatever the response has.
func (r *Request[Spec, Status]) LeftOut() []LeftOut {
	return r.raw.LeftOut
}

// Child returns the live child of this kind and name in the parent's namespace; for a cluster-scoped parent, the cluster-scoped
// child. It is nil if there is none; all methods of a nil [Object] find nothing.
func (r *Request[Spec, Status]) Child(kind Kind, name string) *Object {
	return r.ChildIn(r.Namespace, kind, name)
}

// ChildIn returns the live child of this kind and name in a namespace, as [Request.Child]: a cluster-scoped parent may have
// children of the same name in several namespaces.
func (r *Request[Spec, Status]) ChildIn(namespace string, kind Kind, name string) *Object {
	for index := range r.raw.Children {
		child := &r.raw.Children[index]
		if child.Kind == kind && child.Namespace == namespace && child.Name == name {
			return &Object{child}
		}
	}
	return nil
}

// Related returns the related objects that the [Requirement] of this id selects. isServed is false while the host has not served
// the requirement: return a response with the requirement and without whatever depends on it, and the host calls again at once. An
// object that does not exist is served as no object.
//
//	// In every response, also when the objects have been served.
//	response := &windlass.Response[Status]{
//		Requirements: []windlass.Requirement{windlass.Named("certificate", kinds.Secret, "shop-tls")},
//	}
//	if secrets, _ := request.Related("certificate"); len(secrets) > 0 {
//		response.Children = append(response.Children, ingress(request, secrets[0].Name()))
//	}
func (r *Request[Spec, Status]) Related(id string) (objects []*Object, isServed bool) {
	for _, related := range r.raw.Related {
		if related.ID == id {
			for index := range related.Objects {
				objects = append(objects, &Object{&related.Objects[index]})
			}
			return objects, true
		}
	}
	return nil, false
}

// Raw returns the untyped request of the contract.
func (r *Request[Spec, Status]) Raw() contract.Request {
	return r.raw
}

func ofKind(observed []contract.Observed, kind Kind) []*Object {
	var objects []*Object
	for index := range observed {
		if observed[index].Kind == kind {
			objects = append(objects, &Object{&observed[index]})
		}
	}
	return objects
}

// Object is a live object: a child or a related object. It is parsed only as far as it is read. All methods of a nil Object find
// nothing.
type Object struct {
	observed *contract.Observed
}

// Name is metadata.name.
func (o *Object) Name() string {
	if o == nil {
		return ""
	}
	return o.observed.Name
}

// Namespace is metadata.namespace; empty for a cluster-scoped object.
func (o *Object) Namespace() string {
	if o == nil {
		return ""
	}
	return o.observed.Namespace
}

// Kind is the object's kind.
func (o *Object) Kind() Kind {
	if o == nil {
		return Kind{}
	}
	return o.observed.Kind
}

// JSON returns the object as the API server sent it, without managedFields; nil for a nil object.
func (o *Object) JSON() []byte {
	if o == nil {
		return nil
	}
	return o.observed.Object
}

// Map returns the whole object as a map. Numbers are json.Number, exactly as the API server sent them. A nil object is a nil
// map.
func (o *Object) Map() map[string]any {
	if o == nil {
		return nil
	}
	value, err := jsondoc.Tree(o.JSON())
	fields, isObject := value.(map[string]any)
	if err != nil || !isObject {
		panic(fmt.Sprintf("%s %s: the host sent no JSON object", o.observed.Kind.Kind, o.Name()))
	}
	return fields
}

// Read reads the whole object into a value, as json.Unmarshal does: a type of k8s.io/api, or a struct with the fields that you
// need. A number in a value of type any is a json.Number. The error is a [Failed] that names the object and the field. A nil
// object is read as {}.
func (o *Object) Read(into any) error {
	if o == nil {
		return nil
	}
	if err := reading.Decode(o.JSON(), "", into); err != nil {
		return Failed("%s %s: %w", o.observed.Kind.Kind, o.Name(), err)
	}
	return nil
}

// Get reads the value at a JSON pointer (RFC 6901) into a value, and tells whether the object has it. It is false, too, if the
// value does not fit. Only this value is parsed. In a name, / is written ~1 and ~ is written ~0.
//
//	var replicas int
//	if deployment.Get("/spec/replicas", &replicas) { ... }
func (o *Object) Get(pointer string, into any) bool {
	document := jsondoc.At(o.JSON(), pointer)
	return document != nil && string(document) != "null" && reading.Unmarshal(document, into) == nil
}

// Text returns the string at a JSON pointer, as [Object.Get]; empty if the object has none.
func (o *Object) Text(pointer string) string {
	var text string
	o.Get(pointer, &text)
	return text
}

// Int returns the whole number at a JSON pointer, as [Object.Get]; 0 if the object has none.
func (o *Object) Int(pointer string) int64 {
	var number int64
	o.Get(pointer, &number)
	return number
}

// Ref returns a reference to a live child, for [Response.Keep] and [ChildOptions.Replaces].
func (o *Object) Ref() ChildRef {
	return ChildRef{Kind: o.Kind(), Namespace: o.Namespace(), Name: o.Name()}
}

// Readiness is whether an object is ready, by the rules of kstatus (sigs.k8s.io/cli-utils).
type Readiness = contract.Readiness

// The states of [Readiness].
const (
	// ReadinessUnknown: the kind is not built in, and the object has none of the conditions Ready, Reconciling and Stalled.
	ReadinessUnknown = contract.ReadinessUnknown
	// ReadinessReady: the object does what its spec says.
	ReadinessReady = contract.ReadinessReady
	// ReadinessProgressing: not yet.
	ReadinessProgressing = contract.ReadinessProgressing
	// ReadinessFailed: the object will not become ready by itself.
	ReadinessFailed = contract.ReadinessFailed
)

// Readiness returns whether the object is ready, as the host sees it. That of a nil object is unknown.
func (o *Object) Readiness() Readiness {
	if o == nil {
		return Readiness{}
	}
	return o.observed.Readiness
}

// IsReady tells whether the object is ready ([Object.Readiness]).
func (o *Object) IsReady() bool {
	return o.Readiness().State == ReadinessReady
}

// Metadata returns the metadata.
func (o *Object) Metadata() Metadata {
	var metadata Metadata
	o.Get("/metadata", &metadata)
	return metadata
}

// IsBeingDeleted tells whether the object has a metadata.deletionTimestamp.
func (o *Object) IsBeingDeleted() bool {
	return o.Text("/metadata/deletionTimestamp") != ""
}

// Condition returns the entry of status.conditions with this type; nil if there is none.
func (o *Object) Condition(conditionType string) *Condition {
	var conditions []Condition
	o.Get("/status/conditions", &conditions)
	return find(conditions, conditionType)
}

// IsConditionTrue tells whether the condition of this type has status True.
func (o *Object) IsConditionTrue(conditionType string) bool {
	condition := o.Condition(conditionType)
	return condition != nil && condition.Status == True
}
