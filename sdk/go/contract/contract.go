// Package contract has the untyped contract between Windlass and a plugin: what crosses the border of the component. Plugins
// rarely need it: package windlass has the same with types. The WIT files of Windlass document every field.
package contract

// Kind is a kind, by the fields apiVersion and kind of its objects.
type Kind struct {
	// APIVersion is the group and version: "v1", "apps/v1".
	APIVersion string
	// Kind is as in objects: "Deployment".
	Kind string
}

// ChildRef says which child.
type ChildRef struct {
	// Kind is the child's kind, in any version that is served.
	Kind Kind
	// Namespace is empty for the parent's namespace, and for a cluster-scoped kind.
	Namespace string
	// Name is metadata.name.
	Name string
}

// Descriptor is the description of a plugin.
type Descriptor struct {
	// Name is a DNS label.
	Name string
	// Version is the semantic version of the component.
	Version string
	// Description is one sentence: what the plugin does.
	Description string
	// Parent is the kind that the plugin reconciles.
	Parent Parent
	// Children are the kinds of children.
	Children []ChildRule
	// Related are the kinds that a requirement may name.
	Related []RelatedRule
	// Finalizes: parents get a finalizer.
	Finalizes bool
	// OrderedDeletion: the children of a deleted parent are deleted in reverse order of their stages.
	OrderedDeletion bool
	// ReadyMeans is what Ready=True of a parent means.
	ReadyMeans ReadyMeans
	// Clock: requests have the time.
	Clock bool
	// Resync is in milliseconds; nil is the host's default.
	Resync *uint64
	// ConfigSchema is the JSON Schema of the Plugin's spec.config; nil for a plugin without configuration.
	ConfigSchema []byte
	// Metrics are the metrics that the plugin reports.
	Metrics []Metric
}

// Parent is the kind that a plugin reconciles: a CRD in JSON, or an existing kind.
type Parent struct {
	// CRD is the CRD that the component carries; nil for an existing kind.
	CRD []byte
	// Existing is a kind that exists already; nil for a custom kind.
	Existing *Kind
	// Selector selects the objects that the plugin reconciles.
	Selector Selector
}

// Selector selects parents: those that match both selectors, which are in kubectl's syntax (tier in (a,b),!legacy).
type Selector struct {
	// Labels is a selector over labels; empty for whatever the labels are.
	Labels string
	// Annotations is a selector over annotations; empty for whatever the annotations are. The host filters by it after the watch,
	// which costs memory for each object that does not match.
	Annotations string
}

// ReadyMeans is what Ready=True of a parent means.
type ReadyMeans uint8

// The meanings of Ready.
const (
	// ReadyMeansChildren: all children were applied, and each is ready.
	ReadyMeansChildren ReadyMeans = iota
	// ReadyMeansApplied: all children were applied.
	ReadyMeansApplied
	// ReadyMeansPlugin: what the plugin says.
	ReadyMeansPlugin
)

// ChildRule is a kind of children, and how the host updates them.
type ChildRule struct {
	// Kind is the kind of the children.
	Kind Kind
	// Update is how the host updates children that have no strategy of their own. If it is not set, it is Apply.
	Update UpdateStrategy
	// Optional: the kind may be missing in the cluster (Request.Kinds). The host leaves out children of a missing kind. Without it,
	// a missing kind stops the plugin.
	Optional bool
}

// RelatedRule is a kind of related objects.
type RelatedRule struct {
	// Kind is the kind of the objects.
	Kind Kind
	// Optional: the kind may be missing in the cluster (Request.Kinds). Requirements of a missing kind select nothing.
	Optional bool
}

// Strategy is how the host updates a child.
type Strategy uint8

// The strategies.
const (
	// Unset: as the rule of the kind says, or Apply in a rule.
	Unset Strategy = iota
	// Apply: by server-side apply, in place.
	Apply
	// Recreate: the child is deleted and created again.
	Recreate
	// OnDelete: never; a user deletes the child to update it.
	OnDelete
	// Rolling: one child at a time.
	Rolling
)

// UpdateStrategy is a strategy. The other fields belong to Rolling.
type UpdateStrategy struct {
	// Strategy is the strategy.
	Strategy Strategy
	// RollingRecreate: a child is deleted and created instead of applied in place.
	RollingRecreate bool
	// Conditions are the types of the conditions that must be True before the next child changes; none for a child that is ready.
	Conditions []string
}

// MetricType is how the host uses a measured value.
type MetricType uint8

// The types of metrics.
const (
	// Counter: values add up.
	Counter MetricType = iota
	// Gauge: the last value counts.
	Gauge
	// Histogram: values form a distribution.
	Histogram
)

// Metric is a metric that the plugin reports.
type Metric struct {
	// Name is in Prometheus' syntax, without prefix.
	Name string
	// Unit is a UCUM unit, or empty for plain numbers.
	Unit string
	// Description is one sentence: what is measured.
	Description string
	// Type is how values are used.
	Type MetricType
	// Labels are the names of labels.
	Labels []string
}

// Request is everything that a response may depend on.
type Request struct {
	// Finalizing is why the parent is finalized; nil in a normal call.
	Finalizing *Finalizing
	// Parent is the parent as the API server sent it.
	Parent []byte
	// Children are the live children, in the order of apiVersion, kind, namespace and name.
	Children []Observed
	// LeftOut are the largest live children, if the request would be too large with them.
	LeftOut []LeftOut
	// Related are the objects for the requirements of the last response.
	Related []Related
	// Kinds are the optional kinds that exist in the cluster and are granted.
	Kinds []Kind
	// Now is the time at which the reconcile began, in milliseconds since 1970; nil for a descriptor without Clock.
	Now *uint64
	// Config is the Plugin's spec.config; nil for none.
	Config []byte
	// ClosedNamespaces are the namespaces in which the plugin may have no children.
	ClosedNamespaces []string
}

// Finalizing is why a parent is finalized.
type Finalizing struct {
	// Cause is the cause.
	Cause FinalizeCause
	// NamespaceTerminating: the parent's namespace is being deleted, and no child can be created in it.
	NamespaceTerminating bool
}

// FinalizeCause is what happened to a parent that is finalized.
type FinalizeCause string

// The causes.
const (
	// Deleted: it is being deleted.
	Deleted FinalizeCause = "deleted"
	// LeftSelector: it does not match the plugin's selector any more.
	LeftSelector FinalizeCause = "leftSelector"
	// LeftNamespaces: its namespace does not match the Plugin's namespace selector any more.
	LeftNamespaces FinalizeCause = "leftNamespaces"
)

// LeftOut is a live child that is not in a request.
type LeftOut struct {
	// Child is the child.
	Child ChildRef
	// Size is that of its JSON, in bytes.
	Size uint64
}

// Observed is an object that exists.
type Observed struct {
	// Kind is the kind.
	Kind Kind
	// Namespace is empty for a cluster-scoped object.
	Namespace string
	// Name is metadata.name.
	Name string
	// Object is the object as the API server sent it.
	Object []byte
	// Readiness is whether the object is ready.
	Readiness Readiness
}

// Readiness is whether an object is ready, by the rules of kstatus (sigs.k8s.io/cli-utils).
type Readiness struct {
	// State is whether it is ready.
	State ReadinessState
	// Message says what is missing, if it is progressing or has failed.
	Message string
}

// ReadinessState is whether an object is ready.
type ReadinessState uint8

// The states.
const (
	// ReadinessUnknown: the kind is not built in, and the object has none of the conditions Ready, Reconciling and Stalled.
	ReadinessUnknown ReadinessState = iota
	// ReadinessReady: the object does what its spec says.
	ReadinessReady
	// ReadinessProgressing: not yet.
	ReadinessProgressing
	// ReadinessFailed: it will not become ready by itself.
	ReadinessFailed
)

// Related is the objects that a requirement selects.
type Related struct {
	// ID is that of the requirement.
	ID string
	// Objects are ordered by namespace and name.
	Objects []Observed
}

// Requirement names objects that a response depends on without owning them.
type Requirement struct {
	// ID is unique in one response.
	ID string
	// Kind is one of the related kinds of the descriptor.
	Kind Kind
	// Namespaces are the namespaces of the objects; none for the parent's.
	Namespaces []string
	// AllNamespaces: the objects are in any namespace that the Plugin grants.
	AllNamespaces bool
	// Select selects the objects.
	Select Selection
	// MetadataOnly: apiVersion, kind and metadata of the objects are enough.
	MetadataOnly bool
}

// Selection selects objects of a kind.
type Selection struct {
	// By says which of the other fields selects.
	By SelectBy
	// Text is a name, or a label selector in kubectl's syntax, where an empty one selects all objects.
	Text string
	// LabelSelector is a LabelSelector (meta/v1) in JSON.
	LabelSelector []byte
}

// SelectBy is how objects are selected.
type SelectBy uint8

// The ways to select.
const (
	// ByName: the object of this name.
	ByName SelectBy = iota
	// ByLabels: the objects that match a label selector in kubectl's syntax.
	ByLabels
	// ByLabelSelector: the objects that match a LabelSelector.
	ByLabelSelector
)

// DesiredChild is a child that should exist.
type DesiredChild struct {
	// Object is the child.
	Object []byte
	// ChildOptions say how the host treats it.
	ChildOptions
}

// ChildOptions say how the host treats a child.
type ChildOptions struct {
	// Stage: the child is created, and changed after its desired state changed, once all children of lower stages are ready.
	Stage uint32
	// Retain keeps the child when its parent is deleted, like data. The child gets no ownerReference. A later parent of the same
	// plugin, kind, namespace and name adopts it.
	Retain bool
	// TakeOver takes the fields that another field manager owns, as an autoscaler owns spec.replicas. Otherwise such a field is a
	// conflict.
	TakeOver bool
	// Once creates the child once for each value of this text, like a Job that must not run again after its time to live. A new text
	// deletes an existing child and creates it again. Empty: the child is created whenever it is missing. Not together with Retain.
	Once string
	// Ready is whether the child is ready, if the plugin knows better than the host (Observed.Readiness); nil otherwise.
	Ready *bool
	// Update is how the host updates this child. If it is not set: as the rule of its kind says.
	Update UpdateStrategy
	// Replaces is a child of the same kind that is no longer desired, and that is deleted first if it is in the way, because both need
	// something that only one can have (a node port). Empty: none.
	Replaces ChildRef
}

// Response is the desired state of a parent.
type Response struct {
	// Children are all desired children.
	Children []DesiredChild
	// Keep are live children that stay as they are.
	Keep []ChildRef
	// KeepAll: all live children that are not desired stay as they are.
	KeepAll bool
	// Status is the plugin's part of the parent's status, with its conditions; nil leaves it as it is.
	Status []byte
	// Waiting is what the plugin waits for; empty for nothing.
	Waiting string
	// Requeue is in milliseconds; nil is the resync interval.
	Requeue *uint64
	// RequeueAt is the time of the next reconcile, in milliseconds since 1970; nil for none.
	RequeueAt *uint64
	// Events are events on the parent.
	Events []Event
	// Requirements are all requirements of this response.
	Requirements []Requirement
	// Finalized: clean-up is complete.
	Finalized bool
}

// Event is a Kubernetes event on the parent.
type Event struct {
	// Warning: the event may need action.
	Warning bool
	// Reason is in CamelCase.
	Reason string
	// Message is for users.
	Message string
}

// FailureKind is what the host does after a failure.
type FailureKind uint8

// The kinds of failures.
const (
	// Invalid: the host does not call again before the parent changes; in a call to clean up, it calls again with backoff.
	Invalid FailureKind = iota
	// Failed: the host calls again with exponential backoff.
	Failed
)

// Failure is why there is no response.
type Failure struct {
	// Kind is what the host does.
	Kind FailureKind
	// Field is the invalid field; empty for none.
	Field string
	// Message is for users.
	Message string
}

// Operation is the operation of an admission request.
type Operation uint8

// The operations.
const (
	// Create: there is no object before the write.
	Create Operation = iota
	// Update: there is an object before the write and one after it.
	Update
	// Delete: there is no object after the write.
	Delete
)

// AdmissionRequest is one write of a parent. Absent documents are nil.
type AdmissionRequest struct {
	// Operation is the operation.
	Operation Operation
	// Kind is that of the object.
	Kind Kind
	// Subresource is the subresource that is written: "scale"; empty for the object itself.
	Subresource string
	// Namespace is empty for a cluster-scoped object.
	Namespace string
	// NamespaceLabels are the labels of the namespace.
	NamespaceLabels map[string]string
	// Name is empty if the API server generates it later.
	Name string
	// Object is the object after the write.
	Object []byte
	// OldObject is the object before the write.
	OldObject []byte
	// DryRun: nothing is stored, whatever the verdict is.
	DryRun bool
	// Username is the name of the user who writes.
	Username string
	// Groups are the user's groups.
	Groups []string
	// Config is the Plugin's spec.config.
	Config []byte
}

// Verdict is the outcome of a review: a denial, another object, or neither.
type Verdict struct {
	// Denied: the write is denied.
	Denied bool
	// Field is the invalid field, if the write is denied for one.
	Field string
	// Message is for the user, if the write is denied.
	Message string
	// Replace is stored instead of the object; nil leaves it as it is.
	Replace []byte
	// Warnings are for the user, whatever the verdict is.
	Warnings []string
}

// Plugin is a plugin as the host calls it.
type Plugin interface {
	// Describe returns the description of the plugin, the same one in every call.
	Describe() Descriptor
	// Reconcile returns the desired state of one parent, or the failure; the failure is nil if there is a response.
	Reconcile(Request) (Response, *Failure)
}
