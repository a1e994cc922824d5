package windlass

import (
	"bytes"
	"fmt"
	"time"

	"windlass.dev/plugin/contract"
	"windlass.dev/plugin/internal/jsondoc"
)

// Response is the desired state of one parent.
type Response[Status any] struct {
	// Children are all desired children: maps ([Map]), types of k8s.io/api with their TypeMeta set, or whatever encodes as the
	// JSON of an object. Each needs apiVersion, kind and metadata.name. The host deletes live children that are not among them.
	// Fields that are null are left out, as is a status without content. [ChildWith] sets options of a child.
	Children []any
	// Keep are live children that stay as they are, although they are not among Children: [Object.Ref] and [Refs] make references.
	// Not together with Finalized.
	Keep []ChildRef
	// KeepAll keeps all live children that are not among Children as they are. Not together with Finalized.
	KeepAll bool
	// Status is the plugin's part of the parent's status. Nil without Conditions: that part stays as it is; Conditions alone
	// remove its other fields. Fields that are null are left out.
	Status *Status
	// Conditions are conditions of the parent's status. A condition of type Ready replaces the host's when all children are
	// applied. The host sets lastTransitionTime and observedGeneration.
	Conditions []Condition
	// Waiting is what the plugin waits for, for users: the parent gets the reason Waiting, and everything else in the response is
	// carried out. [Wait] makes a response that changes nothing.
	Waiting string
	// Requeue is the time until the next reconcile, at least one second. Zero: the resync interval. Changes of the parent, its
	// children and its related objects reconcile earlier.
	Requeue time.Duration
	// Events are Kubernetes events on the parent: [Normal] or [Warning] make one.
	Events []Event
	// Requirements are related objects that the response depends on: all of them, also those that the host has served.
	Requirements []Requirement
	// Finalized ends a finalizing parent ([Request.IsFinalizing]): all is cleaned up, and the host removes the finalizer.
	Finalized bool

	requeueAt *uint64
}

// RequeueAt sets the time of the next reconcile; with Requeue, the earlier of both. A plugin with [Plugin.Clock] sets it, because
// the host reuses a response until then.
//
// It is no field, because a type with a time.Time makes a component 170 KB larger: by the methods that read and write times.
func (r *Response[Status]) RequeueAt(at time.Time) {
	r.requeueAt = new(uint64(max(at.UnixMilli(), 0)))
}

// Map is an object as a plain map:
//
//	windlass.Map{"apiVersion": "v1", "kind": "ConfigMap", "metadata": windlass.Map{"name": request.Name}}
type Map = map[string]any

// ChildOptions say how the host treats a child, by the fields Stage, Retain, TakeOver, Once, Ready, Update and Replaces.
// [ChildWith] sets them.
type ChildOptions = contract.ChildOptions

// optioned is a child with options.
type optioned struct {
	child   any
	options ChildOptions
}

// ChildWith is a child with options, for [Response.Children].
//
//	windlass.ChildWith(volumeClaim, windlass.ChildOptions{Retain: true})
func ChildWith(child any, options ChildOptions) any {
	return optioned{child, options}
}

// ChildRef says which child, by its fields Kind, Namespace and Name.
type ChildRef = contract.ChildRef

// Refs are references to live children, for [Response.Keep].
func Refs(children []*Object) []ChildRef {
	refs := make([]ChildRef, 0, len(children))
	for _, child := range children {
		refs = append(refs, child.Ref())
	}
	return refs
}

// Wait is the response of a call that can do nothing but wait: all live children stay as they are, the parent gets the reason
// Waiting with this message, and the host calls again after this time, at least one second. A response with [Response.Waiting] waits
// as well, and has children and a status.
func Wait[Status any](after time.Duration, format string, arguments ...any) *Response[Status] {
	return &Response[Status]{KeepAll: true, Waiting: fmt.Sprintf(format, arguments...), Requeue: after}
}

// Event is a Kubernetes event on the parent, about a change that users want to know. An event in every call is noise.
type Event = contract.Event

// Normal is an event about an expected change. The reason is in CamelCase: "ScaledUp".
func Normal(reason, format string, arguments ...any) Event {
	return Event{Reason: reason, Message: fmt.Sprintf(format, arguments...)}
}

// Warning is an event about a change that may need action. The reason is in CamelCase: "ScaleFailed".
func Warning(reason, format string, arguments ...any) Event {
	return Event{Warning: true, Reason: reason, Message: fmt.Sprintf(format, arguments...)}
}

// Requirement names related objects that a response depends on, without owning them: [Named], [Labelled] or [Selected] makes one.
// [Request.Related] returns the objects. The host watches them, and reconciles the parent when they change.
type Requirement struct {
	raw      contract.Requirement
	selector any
}

// Named requires the object of this kind and name in the parent's namespace, or a cluster-scoped object. The plugin chooses the
// id, which is unique in one response. The kind is one of [Plugin.Related].
func Named(id string, kind Kind, name string) Requirement {
	return requirement(id, kind, contract.Selection{Text: name})
}

// Labelled requires all objects of this kind in the parent's namespace, or all cluster-scoped objects, that match a label selector
// in kubectl's syntax; an empty selector matches all. The id and the kind are as in [Named].
func Labelled(id string, kind Kind, selector string) Requirement {
	return requirement(id, kind, contract.Selection{By: contract.ByLabels, Text: selector})
}

// Selected requires objects as [Labelled], by a LabelSelector (meta/v1) as a field of a spec has it: with matchLabels and
// matchExpressions. It is a map, or whatever encodes as the JSON of a LabelSelector; an empty one matches all.
func Selected(id string, kind Kind, selector any) Requirement {
	one := requirement(id, kind, contract.Selection{By: contract.ByLabelSelector})
	one.selector = selector
	return one
}

func requirement(id string, kind Kind, by contract.Selection) Requirement {
	return Requirement{raw: contract.Requirement{ID: id, Kind: kind, Select: by}}
}

// InNamespaces selects in these namespaces instead of the parent's. A cluster-scoped parent has none, so it must choose for
// namespaced kinds.
func (r Requirement) InNamespaces(namespaces ...string) Requirement {
	r.raw.Namespaces = namespaces
	return r
}

// InAllNamespaces selects in all namespaces that the Plugin grants, instead of the parent's.
func (r Requirement) InAllNamespaces() Requirement {
	r.raw.AllNamespaces = true
	return r
}

// MetadataOnly gets apiVersion, kind and metadata of the objects alone: the host keeps only that, and a change of anything else
// does not cause a call. The host does not support it yet.
func (r Requirement) MetadataOnly() Requirement {
	r.raw.MetadataOnly = true
	return r
}

// ConditionStatus is the status of a condition.
type ConditionStatus string

// The statuses of conditions.
const (
	True    ConditionStatus = "True"
	False   ConditionStatus = "False"
	Unknown ConditionStatus = "Unknown"
)

// StatusOf is True or False.
func StatusOf(holds bool) ConditionStatus {
	if holds {
		return True
	}
	return False
}

// Condition is one entry of an object's status.conditions.
type Condition struct {
	// Type is in CamelCase: "Ready".
	Type string `json:"type"`
	// Status is True, False or Unknown.
	Status ConditionStatus `json:"status"`
	// Reason is why the condition has this status, in CamelCase.
	Reason string `json:"reason"`
	// Message has details for users.
	Message string `json:"message"`
}

func find(conditions []Condition, conditionType string) *Condition {
	for index := range conditions {
		if conditions[index].Type == conditionType {
			return &conditions[index]
		}
	}
	return nil
}

// raw is the response as the host gets it.
func (r *Response[Status]) raw() (contract.Response, error) {
	raw := contract.Response{
		Children:  make([]contract.DesiredChild, 0, len(r.Children)),
		Keep:      r.Keep,
		KeepAll:   r.KeepAll,
		Waiting:   r.Waiting,
		Requeue:   milliseconds(r.Requeue),
		RequeueAt: r.requeueAt,
		Events:    r.Events,
		Finalized: r.Finalized,
	}
	for index, child := range r.Children {
		var one contract.DesiredChild
		if with, isOptioned := child.(optioned); isOptioned {
			child, one.ChildOptions = with.child, with.options
		}
		var err error
		if one.Object, err = encodeChild(child); err != nil {
			return contract.Response{}, Failed("child %d: %w", index, err)
		}
		raw.Children = append(raw.Children, one)
	}
	for _, one := range r.Requirements {
		if one.raw.Select.By == contract.ByLabelSelector {
			var err error
			if one.raw.Select.LabelSelector, err = jsondoc.Encode(one.selector); err != nil {
				return contract.Response{}, Failed("requirement %s: %w", one.raw.ID, err)
			}
		}
		raw.Requirements = append(raw.Requirements, one.raw)
	}
	status, err := encodeStatus(r.Status, r.Conditions)
	raw.Status = status
	return raw, err
}

func encodeChild(child any) ([]byte, error) {
	document, err := jsondoc.Encode(child)
	if err != nil || !hasNulls(document) && !bytes.Contains(document, []byte(`"status":{`)) {
		return document, err
	}
	fields, err := object(document)
	if err != nil {
		return nil, err
	}
	if status, isObject := fields["status"].(map[string]any); isObject && isBlank(status) {
		delete(fields, "status")
	}
	return jsondoc.Encode(fields)
}

// hasNulls tells whether an encoded document may have a field that is null.
func hasNulls(document []byte) bool {
	return bytes.Contains(document, []byte(":null"))
}

// object parses an object, without fields that are null: the API server drops them too, so sending them would make the object
// differ from its live state in every reconcile.
func object(document []byte) (map[string]any, error) {
	value, err := jsondoc.Tree(document)
	if err != nil {
		return nil, err
	}
	fields, isObject := value.(map[string]any)
	if !isObject {
		return nil, fmt.Errorf("%s is not a JSON object", jsondoc.Show(document))
	}
	dropNulls(fields)
	return fields, nil
}

func dropNulls(value any) {
	switch value := value.(type) {
	case map[string]any:
		for name, field := range value {
			if field == nil {
				delete(value, name)
			} else {
				dropNulls(field)
			}
		}
	case []any:
		for _, item := range value {
			dropNulls(item)
		}
	}
}

// isBlank tells whether an object consists of empty objects alone, as the status of a new value of a type of k8s.io/api.
func isBlank(fields map[string]any) bool {
	for _, field := range fields {
		inner, isObject := field.(map[string]any)
		if !isObject || !isBlank(inner) {
			return false
		}
	}
	return true
}

func encodeStatus[Status any](status *Status, conditions []Condition) ([]byte, error) {
	if status == nil && len(conditions) == 0 {
		return nil, nil
	}
	fields := map[string]any{}
	if status != nil {
		document, err := jsondoc.Encode(status)
		if err != nil {
			return nil, Failed("the status: %w", err)
		}
		if len(conditions) == 0 && !hasNulls(document) && document[0] == '{' {
			return document, nil
		}
		if fields, err = object(document); err != nil {
			return nil, Failed("the status: %w", err)
		}
	}
	if len(conditions) > 0 {
		fields["conditions"] = conditions
	}
	return jsondoc.Encode(fields)
}
