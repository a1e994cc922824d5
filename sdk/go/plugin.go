package windlass

import (
	"fmt"
	"runtime"
	"strings"
	"time"

	"windlass.dev/plugin/contract"
	"windlass.dev/plugin/internal/guest"
	"windlass.dev/plugin/log"
)

// Plugin is an operator: its description, and the function that returns the desired state. Spec is the type of the parent's
// spec, and Status the type of the plugin's part of the parent's status; struct{} for none. [Register] makes it the plugin of
// a program.
type Plugin[Spec, Status any] struct {
	// Name is a DNS label. It is also the default name of the Plugin resource.
	Name string
	// Version is the semantic version of the component.
	Version string
	// Description is one sentence: what the plugin does.
	Description string
	// Parent is the kind that the plugin reconciles: a [CustomResource] or an [Existing] kind.
	Parent Parent
	// Children are the kinds of children that the plugin may return.
	Children []ChildRule
	// Related are the kinds that a [Requirement] may name. The plugin reads such objects and does not own them.
	Related []RelatedRule
	// Finalizes gives parents a finalizer. When a parent is deleted or is no longer selected, the plugin is called to clean up:
	// [Plugin.Finalize], or Reconcile without it.
	Finalizes bool
	// OrderedDeletion deletes the children of a deleted parent in reverse order of their stages ([ChildOptions.Stage]), each stage
	// gone before the next; with Finalizes, once the plugin has cleaned up.
	OrderedDeletion bool
	// ReadyMeans is what Ready=True of a parent means; [ReadyMeansChildren] if it is not set. A condition Ready in the response
	// takes precedence.
	ReadyMeans ReadyMeans
	// Clock gives each request the time ([Request.Now]).
	Clock bool
	// Resync is the time between reconciles of a parent while nothing changes, to which the host adds jitter. Zero is the host's
	// default.
	Resync time.Duration
	// ConfigSchema is the JSON Schema of the Plugin's spec.config, which [Request.Config] reads. windlasstest.ConfigSchema
	// writes it, and go:embed embeds it. Nil for a plugin without configuration.
	ConfigSchema []byte
	// Metrics are the metrics that [Measure] may name.
	Metrics []Metric
	// Reconcile returns the desired state of one parent, or an error: [Invalid], [Failed] or any other. It must depend on its
	// request alone, and return the same response for the same request. A panic is a failure with the panic's message and place, and
	// its stack is in the log.
	Reconcile func(*Request[Spec, Status]) (*Response[Status], error)
	// Finalize cleans up after one parent, whose spec may be invalid: an older version of the CRD may have accepted it, and the host does
	// not check it before a clean-up. [ReadSpec] reads it. Nil: the spec is read, and Reconcile is called ([Request.IsFinalizing]). A plugin that cleans up by the parent's
	// name and its live children has this function, so that an invalid spec does not block the deletion.
	Finalize func(*Request[Unread[Spec], Status]) (*Response[Status], error)
}

// Register makes a plugin the one of this program, once, in a function init: the host calls no function main. It panics if it is
// called twice, or if the plugin has no Reconcile.
//
//	func init() { windlass.Register(plugin) }
//	func main() {}
func Register[Spec, Status any](plugin Plugin[Spec, Status]) {
	if guest.Plugin != nil {
		panic("windlass.Register is called twice: a component has one plugin")
	}
	if plugin.Reconcile == nil {
		panic("the plugin has no Reconcile")
	}
	guest.Plugin = plugin.Contract()
}

// Contract returns the plugin as the host calls it, with the untyped requests and responses of the contract. It panics if
// the host would never call the plugin's Finalize.
func (p Plugin[Spec, Status]) Contract() contract.Plugin {
	if p.Finalize != nil && !p.Finalizes {
		panic("the plugin has Finalize, which is never called: set Finalizes")
	}
	return adapter[Spec, Status]{p}
}

type adapter[Spec, Status any] struct {
	plugin Plugin[Spec, Status]
}

// Describe returns the description of the plugin.
func (a adapter[Spec, Status]) Describe() contract.Descriptor {
	p := a.plugin
	raw := contract.Descriptor{
		Name:            p.Name,
		Version:         p.Version,
		Description:     p.Description,
		Finalizes:       p.Finalizes,
		OrderedDeletion: p.OrderedDeletion,
		ReadyMeans:      p.ReadyMeans,
		Clock:           p.Clock,
		Children:        p.Children,
		Related:         p.Related,
		Resync:          milliseconds(p.Resync),
		ConfigSchema:    p.ConfigSchema,
		Metrics:         p.Metrics,
	}
	if p.Parent == nil {
		panic("the plugin has no parent: set Parent to a windlass.CustomResource or a windlass.Existing")
	}
	raw.Parent = p.Parent.raw()
	return raw
}

// Reconcile calls the plugin with types.
func (a adapter[Spec, Status]) Reconcile(raw contract.Request) (response contract.Response, failure *contract.Failure) {
	defer func() {
		if cause := recover(); cause != nil {
			response, failure = contract.Response{}, panicked(cause)
		}
	}()
	typed, err := a.call(raw)
	switch {
	case err != nil:
		return response, rawFailure(err)
	case typed == nil:
		return response, rawFailure(Failed("the plugin returned neither a response nor an error"))
	}
	if response, err = typed.raw(); err != nil {
		return response, rawFailure(err)
	}
	return response, nil
}

func (a adapter[Spec, Status]) call(raw contract.Request) (*Response[Status], error) {
	unread, err := parse(&a.plugin, raw)
	if err != nil {
		return nil, err
	}
	if raw.Finalizing != nil && a.plugin.Finalize != nil {
		return a.plugin.Finalize(unread)
	}
	request, err := ReadSpec(unread)
	if err != nil {
		return nil, err
	}
	return a.plugin.Reconcile(request)
}

// panicked is the failure of a call that panics. A trap would have no message, and repeated traps quarantine a component.
func panicked(cause any) *contract.Failure {
	message := fmt.Sprint("panic: ", cause)
	var callers [64]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers[:])])
	var stack []string
	for {
		frame, isMore := frames.Next()
		if strings.HasPrefix(frame.Function, "windlass.dev/plugin.adapter[") {
			break
		}
		// The machinery of a panic is above the function that panics.
		if !strings.HasPrefix(frame.Function, "runtime.") {
			stack = append(stack, fmt.Sprintf("at %s (%s:%d)", frame.Function, frame.File, frame.Line))
		}
		if !isMore {
			break
		}
	}
	log.Error(message, "stack", strings.Join(stack, "\n"))
	if len(stack) > 0 {
		message += " (" + stack[0] + ")" // One line for the parent's condition.
	}
	return &contract.Failure{Kind: contract.Failed, Message: message}
}

// milliseconds are those of a duration, or nil for zero.
func milliseconds(duration time.Duration) *uint64 {
	if duration == 0 {
		return nil
	}
	return new(uint64(max(duration.Milliseconds(), 0)))
}

// Kind is a kind of Kubernetes objects. Package kinds has the common ones.
type Kind = contract.Kind

// ChildRule is a kind of children, and how the host updates them: its fields are Kind, Update ([UpdateStrategy]) and Optional
// ([Request.HasKind]).
type ChildRule = contract.ChildRule

// RelatedRule is a kind of related objects: its fields are Kind and Optional ([Request.HasKind]).
type RelatedRule = contract.RelatedRule

// ReadyMeans is what Ready=True of a parent means.
type ReadyMeans = contract.ReadyMeans

// The meanings of Ready.
const (
	// ReadyMeansChildren: all children were applied, and each is ready ([Object.IsReady], or [ChildOptions.Ready]). The parent
	// waits for a child of which it is unknown.
	ReadyMeansChildren = contract.ReadyMeansChildren
	// ReadyMeansApplied: all children were applied.
	ReadyMeansApplied = contract.ReadyMeansApplied
	// ReadyMeansPlugin: what the plugin says with its condition Ready.
	ReadyMeansPlugin = contract.ReadyMeansPlugin
)

// UpdateStrategy is how the host brings an existing child to its desired state. If it is not set, it is [Apply] in a [ChildRule],
// and that of the rule in [ChildOptions].
type UpdateStrategy = contract.UpdateStrategy

var (
	// Apply updates a child in place, by server-side apply.
	Apply = UpdateStrategy{Strategy: contract.Apply}
	// Recreate deletes a child whose desired state changed, waits until it is gone, and creates it again.
	Recreate = UpdateStrategy{Strategy: contract.Recreate}
	// OnDelete creates missing children, and never changes existing ones: a user deletes a child to update it.
	OnDelete = UpdateStrategy{Strategy: contract.OnDelete}
)

// Rolling updates one child at a time in place, in the order of the response. The next one follows when the one before has
// these conditions with status True; without any, when it is ready ([Object.IsReady]).
func Rolling(conditions ...string) UpdateStrategy {
	return UpdateStrategy{Strategy: contract.Rolling, Conditions: conditions}
}

// RollingRecreate recreates one child at a time. The next one follows as in [Rolling].
func RollingRecreate(conditions ...string) UpdateStrategy {
	return UpdateStrategy{Strategy: contract.Rolling, RollingRecreate: true, Conditions: conditions}
}

// Metric is a metric of a plugin: [NewCounter], [NewGauge] or [NewHistogram] make one.
type Metric = contract.Metric

// NewCounter is a counter, whose values add up. name is a Prometheus name without prefix, description one sentence, and labels
// are the names of labels. A counter has no unit.
func NewCounter(name, description string, labels ...string) Metric {
	return Metric{Name: name, Description: description, Type: contract.Counter, Labels: labels}
}

// NewGauge is a gauge, whose last value counts. unit is a UCUM unit ("s", "By"), or empty for plain numbers.
func NewGauge(name, unit, description string, labels ...string) Metric {
	return Metric{Name: name, Unit: unit, Description: description, Type: contract.Gauge, Labels: labels}
}

// NewHistogram is a distribution of values. unit is a UCUM unit ("s", "By"), or empty for plain numbers.
func NewHistogram(name, unit, description string, labels ...string) Metric {
	return Metric{Name: name, Unit: unit, Description: description, Type: contract.Histogram, Labels: labels}
}
