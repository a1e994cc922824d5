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
	Name  string
	Value []byte
}

// Descriptor is the description of a plugin.
type Descriptor struct {
	Name        string
	Version     string
	Description string
	Parent      Parent
	Children    []ChildRule
	Related     []Kind
	Finalizes   bool
	// Resync is in milliseconds; nil is the host's default.
	Resync *uint64
	// ConfigSchema is the JSON Schema of the Plugin's spec.config; nil for a plugin without configuration.
	ConfigSchema []byte
	Metrics      []Metric
}

// Parent is the kind that a plugin reconciles: a CRD in JSON, or an existing kind.
type Parent struct {
	CRD      []byte
	Existing *ExistingParent
}

// ExistingParent is a parent kind that exists already.
type ExistingParent struct {
	Kind Kind
	// Selector is a label selector in kubectl's syntax; empty for all objects.
	Selector string
}

// ChildRule is a child kind and its update strategy.
type ChildRule struct {
	Kind   Kind
	Update UpdateStrategy
}

// Strategy is how the host updates a child.
type Strategy uint8

// The strategies.
const (
	Apply Strategy = iota
	Recreate
	OnDelete
	Rolling
)

// UpdateStrategy is a strategy. The other fields belong to Rolling.
type UpdateStrategy struct {
	Strategy        Strategy
	RollingRecreate bool
	Conditions      []string
}

// MetricType is how the host uses a measured value.
type MetricType uint8

// The types of metrics.
const (
	Counter MetricType = iota
	Gauge
	Histogram
)

// Metric is a metric that the plugin reports.
type Metric struct {
	Name        string
	Unit        string
	Description string
	Type        MetricType
	Labels      []string
}

// Request is everything that a response may depend on.
type Request struct {
	// Finalize: the parent is being deleted, or has left the label selector.
	Finalize   bool
	Parent     []byte
	Children   []Observed
	Related    []Related
	Config     []byte
	Extensions []Extension
}

// Observed is an object that exists.
type Observed struct {
	Kind Kind
	// Namespace is empty for a cluster-scoped object.
	Namespace string
	Name      string
	Object    []byte
}

// Related is the objects that a requirement selects.
type Related struct {
	ID      string
	Objects []Observed
}

// Requirement names objects that a response depends on without owning them.
type Requirement struct {
	ID   string
	Kind Kind
	// Namespace is empty for a cluster-scoped kind, and for the parent's namespace.
	Namespace string
	// Name selects one object; if it is empty, Labels selects objects by a label selector.
	Name   string
	Labels string
}

// Response is the desired state of a parent.
type Response struct {
	Children     [][]byte
	Status       []byte
	Requeue      *uint64
	Events       []Event
	Requirements []Requirement
	Finalized    bool
}

// Event is a Kubernetes event on the parent.
type Event struct {
	Warning bool
	Reason  string
	Message string
}

// FailureKind is what the host does after a failure.
type FailureKind uint8

// The kinds of failures.
const (
	Invalid FailureKind = iota
	Retry
	Failed
)

// Failure is why there is no response.
type Failure struct {
	Kind    FailureKind
	Message string
	// After is in milliseconds; only for Retry.
	After uint64
}

// Operation is the operation of an admission request.
type Operation uint8

// The operations.
const (
	Create Operation = iota
	Update
	Delete
)

// AdmissionRequest is one write of a parent. Absent documents are nil.
type AdmissionRequest struct {
	Operation Operation
	Object    []byte
	OldObject []byte
	Username  string
	Config    []byte
}

// Verdict is the outcome of a review: a denial, another object, or neither.
type Verdict struct {
	Denied   bool
	Message  string
	Replace  []byte
	Warnings []string
}

// Plugin is a plugin as the host calls it.
type Plugin interface {
	Describe() Descriptor
	Reconcile(Request) (Response, *Failure)
}
