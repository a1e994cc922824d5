// Package contract has the untyped contract between Windlass and a plugin: what crosses the border of the component. Plugins
// rarely need it: package windlass has the same with types. The WIT files of Windlass document every field.
package contract

// Kind is a kind, by the fields apiVersion and kind of its objects.
type Kind struct {
	// APIVersion is the group and version: "v1", "apps/v1".
	APIVersion string
	// Name is the kind: "Pod".
	Name string
}

// Extension is a field that a later version of the contract added: its name, and its value as JSON.
type Extension struct {
	// Name is the name.
	Name string
	// Value is a JSON document.
	Value []byte
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
	Related []Kind
	// Finalizes: parents get a finalizer.
	Finalizes bool
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
	Existing *ExistingParent
}

// ExistingParent is a parent kind that exists already.
type ExistingParent struct {
	// Kind is the kind.
	Kind Kind
	// Selector is a label selector in kubectl's syntax; empty for all objects.
	Selector string
}

// ChildRule is a child kind and its update strategy.
type ChildRule struct {
	// Kind is the kind of the children.
	Kind Kind
	// Update is how the host updates them.
	Update UpdateStrategy
}

// Strategy is how the host updates a child.
type Strategy uint8

// The strategies.
const (
	// Apply: by server-side apply, in place.
	Apply Strategy = iota
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
	// Conditions are the types of the conditions that must be True before the next child changes.
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
	// Finalize: the parent is being deleted, or has left the label selector.
	Finalize bool
	// Parent is the parent as the API server sent it.
	Parent []byte
	// Children are the live children, in the order of apiVersion, kind, namespace and name.
	Children []Observed
	// Related are the objects for the requirements of the last response.
	Related []Related
	// Config is the Plugin's spec.config; nil for none.
	Config []byte
	// Extensions are fields of later versions of the contract.
	Extensions []Extension
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
}

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
	// Namespace is empty for a cluster-scoped kind, and for the parent's namespace.
	Namespace string
	// ByLabels: Labels selects the objects; otherwise Name selects one.
	ByLabels bool
	// Name is the name of the object.
	Name string
	// Labels is a label selector; empty for all objects.
	Labels string
}

// Response is the desired state of a parent.
type Response struct {
	// Children are all desired children.
	Children [][]byte
	// Status is the plugin's part of the parent's status, with its conditions; nil leaves it as it is.
	Status []byte
	// Requeue is in milliseconds; nil is the resync interval.
	Requeue *uint64
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
	// Retry: the host calls again after a time.
	Retry
	// Failed: the host calls again with exponential backoff.
	Failed
)

// Failure is why there is no response.
type Failure struct {
	// Kind is what the host does.
	Kind FailureKind
	// Message is for users.
	Message string
	// After is in milliseconds; only for Retry.
	After uint64
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
	// Object is the object after the write.
	Object []byte
	// OldObject is the object before the write.
	OldObject []byte
	// Username is the name of the user who writes.
	Username string
	// Config is the Plugin's spec.config.
	Config []byte
}

// Verdict is the outcome of a review: a denial, another object, or neither.
type Verdict struct {
	// Denied: the write is denied.
	Denied bool
	// Message is for the user, if the write is denied.
	Message string
	// Replace is stored instead of the object; nil leaves it as it is.
	Replace []byte
	// Warnings are for the user, if the write is allowed.
	Warnings []string
}

// Plugin is a plugin as the host calls it.
type Plugin interface {
	// Describe returns the description of the plugin, the same one in every call.
	Describe() Descriptor
	// Reconcile returns the desired state of one parent, or the failure; the failure is nil if there is a response.
	Reconcile(Request) (Response, *Failure)
}
