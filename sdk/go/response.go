package windlass

import (
	"bytes"
	"fmt"
	"time"

	"windlass.dev/plugin/contract"
	"windlass.dev/plugin/internal/schema"
)

// Response is the desired state of one parent.
type Response[Status any] struct {
	// Children are all desired children: maps ([Map]), types of k8s.io/api with their TypeMeta set, or whatever encodes as the
	// JSON of an object. Each needs apiVersion, kind and metadata.name. The host deletes live children that are not among them.
	// Fields that are null are left out, as is a status without content. [Retain] and [ForceOwnership] set options of a child.
	Children []any
	// Status is the plugin's part of the parent's status. Nil without Conditions: that part stays as it is; Conditions alone
	// remove its other fields. Fields that are null are left out.
	Status *Status
	// Conditions are conditions of the parent's status. A condition of type Ready replaces the host's when all children are
	// applied. The host sets lastTransitionTime and observedGeneration.
	Conditions []Condition
	// Requeue is the time until the next reconcile, at least one second. Zero: the resync interval. Changes of the parent, its
	// children and its related objects reconcile earlier.
	Requeue time.Duration
	// Events are Kubernetes events on the parent: [Normal] or [Warning] make one.
	Events []Event
	// Requirements are related objects that the response depends on: all of them, also those that the host has served.
	Requirements []Requirement
	// Finalized ends a finalizing parent ([Request.IsFinalizing]): all is cleaned up, and the host removes the finalizer.
	Finalized bool
}

// Map is an object as a plain map:
//
//	windlass.Map{"apiVersion": "v1", "kind": "ConfigMap", "metadata": windlass.Map{"name": request.Name}}
type Map = map[string]any

// withOption is a child with an option for the host.
type withOption struct {
	child      any
	annotation string
}

// Retain keeps a child when its parent is deleted, like data. The child gets no ownerReference. A later parent of the same
// plugin, kind, namespace and name adopts it.
func Retain(child any) any {
	return withOption{child, "windlass.dev/retain"}
}

// ForceOwnership forces ownership of the child's fields that another field manager owns, as an autoscaler owns spec.replicas,
// once. Otherwise such a field is a conflict.
func ForceOwnership(child any) any {
	return withOption{child, "windlass.dev/take-over"}
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

// Requirement names related objects that a response depends on, without owning them: [Named] or [Labelled] makes one.
// [Request.Related] returns the objects. The host watches them, and reconciles the parent when they change.
type Requirement struct {
	raw contract.Requirement
}

// Named requires the object of this kind and name in the parent's namespace, or a cluster-scoped object. The plugin chooses the
// id, which is unique in one response. The kind is one of [Plugin.Related].
func Named(id string, kind Kind, name string) Requirement {
	return Requirement{contract.Requirement{ID: id, Kind: kind.raw(), Name: name}}
}

// Labelled requires all objects of this kind in the parent's namespace, or all cluster-scoped objects, that match a label selector
// in kubectl's syntax; an empty selector matches all. The id and the kind are as in [Named].
func Labelled(id string, kind Kind, selector string) Requirement {
	return Requirement{contract.Requirement{ID: id, Kind: kind.raw(), ByLabels: true, Labels: selector}}
}

// InNamespace selects in this namespace instead of the parent's. A cluster-scoped parent must name one for namespaced kinds.
func (r Requirement) InNamespace(namespace string) Requirement {
	r.raw.Namespace = namespace
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
		Children:  make([][]byte, 0, len(r.Children)),
		Requeue:   optional(r.Requeue),
		Events:    r.Events,
		Finalized: r.Finalized,
	}
	for index, child := range r.Children {
		document, err := encodeChild(child)
		if err != nil {
			return contract.Response{}, Failed("child %d: %w", index, err)
		}
		raw.Children = append(raw.Children, document)
	}
	for _, one := range r.Requirements {
		raw.Requirements = append(raw.Requirements, one.raw)
	}
	status, err := encodeStatus(r.Status, r.Conditions)
	raw.Status = status
	return raw, err
}

func encodeChild(child any) ([]byte, error) {
	var annotations []string
	for {
		option, isOption := child.(withOption)
		if !isOption {
			break
		}
		child = option.child
		annotations = append(annotations, option.annotation)
	}
	document, err := schema.Encode(child)
	if err != nil {
		return nil, err
	}
	if len(annotations) == 0 && !hasNulls(document) && !bytes.Contains(document, []byte(`"status":{`)) {
		return document, nil
	}
	fields, err := object(document)
	if err != nil {
		return nil, err
	}
	if status, isObject := fields["status"].(map[string]any); isObject && isBlank(status) {
		delete(fields, "status")
	}
	if len(annotations) > 0 {
		metadata, isObject := fields["metadata"].(map[string]any)
		if !isObject {
			return nil, fmt.Errorf("has no metadata")
		}
		all, isObject := metadata["annotations"].(map[string]any)
		if !isObject {
			all = map[string]any{}
			metadata["annotations"] = all
		}
		for _, annotation := range annotations {
			all[annotation] = "true"
		}
	}
	return schema.Encode(fields)
}

// hasNulls tells whether an encoded document may have a field that is null.
func hasNulls(document []byte) bool {
	return bytes.Contains(document, []byte(":null"))
}

// object parses an object, without fields that are null: the API server drops them too, so sending them would make the object
// differ from its live state in every reconcile.
func object(document []byte) (map[string]any, error) {
	value, err := schema.Tree(document)
	if err != nil {
		return nil, err
	}
	fields, isObject := value.(map[string]any)
	if !isObject {
		return nil, fmt.Errorf("%s is not a JSON object", schema.Show(value))
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
		document, err := schema.Encode(status)
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
	return schema.Encode(fields)
}
