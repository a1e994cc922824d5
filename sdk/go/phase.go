package windlass

import (
	"encoding/json"
	"reflect"
	"time"

	"windlass.dev/plugin/internal/jsondoc"
)

// Phase is a phase for parents that need no others. A plugin with more phases has a type of its own with the methods of
// [StatusPhase].
type Phase string

// The phases.
const (
	// PhasePending: the desired state is not reached yet.
	PhasePending Phase = "Pending"
	// PhaseRunning: the desired state is reached.
	PhaseRunning Phase = "Running"
	// PhaseFailed: the desired state will not be reached without a change.
	PhaseFailed Phase = "Failed"
)

// Enum lists the phases, for the schema.
func (Phase) Enum() []string {
	return []string{string(PhasePending), string(PhaseRunning), string(PhaseFailed)}
}

// String returns the name.
func (p Phase) String() string { return string(p) }

// IsReady tells whether the condition Ready is True.
func (p Phase) IsReady() bool { return p == PhaseRunning }

// IsFailed tells whether the parent does not become ready without a change.
func (p Phase) IsFailed() bool { return p == PhaseFailed }

// StatusPhase is a phase that is ready, failed, or neither.
type StatusPhase interface {
	// String is the name in CamelCase. It is the reason of the condition Ready and of events.
	String() string
	// IsReady tells whether the condition Ready is True.
	IsReady() bool
	// IsFailed tells whether the parent does not become ready without a change: its event is a warning, and it is reconciled
	// again after [RequeueFailed].
	IsFailed() bool
}

// PhaseStatus is a status with a phase. [SetPhase] writes it together with everything that follows from the phase.
type PhaseStatus interface {
	// CurrentPhase returns the phase.
	CurrentPhase() StatusPhase
}

// RequeueFailed is the time until the next reconcile of a parent in a failed phase: its cause may be something that the host
// does not watch.
const RequeueFailed = 30 * time.Second

// SetPhase sets the status of a response and everything that follows from its phase:
//
//   - the condition Ready, with the phase as its reason and this message;
//   - an event with the same reason and message if the phase is another than in the last status, a warning if it is failed;
//   - a requeue after [RequeueFailed] in a failed phase.
func SetPhase[Spec any, Status PhaseStatus](response *Response[Status], request *Request[Spec, Status], status Status, message string) {
	phase := status.CurrentPhase()
	if before := request.Status(); before != nil && request.hasOwnStatus() && (*before).CurrentPhase() != phase {
		response.Events = append(response.Events, Event{Warning: phase.IsFailed(), Reason: phase.String(), Message: message})
	}
	if phase.IsFailed() {
		response.Requeue = RequeueFailed
	}
	ready := Condition{Type: "Ready", Status: StatusOf(phase.IsReady()), Reason: phase.String(), Message: message}
	response.Conditions = append(response.Conditions, ready)
	response.Status = &status
}

// hasOwnStatus tells whether the last status has a field of the plugin. After a failed first call it has the host's alone.
func (r *Request[Spec, Status]) hasOwnStatus() bool {
	var fields map[string]json.RawMessage
	if json.Unmarshal(jsondoc.At(r.raw.Parent, "/status"), &fields) != nil {
		return false
	}
	delete(fields, "observedGeneration")
	delete(fields, "conditions")
	return len(fields) > 0
}

// LastChange returns the time of the last change of a status, for a field of it: the time that the last status has, if all
// other fields are equal as JSON, or else now ([Timestamp]). In the steady state the clock is not read, so the host can reuse the
// response, and the status does not change. field returns the field of the time.
//
//	status.LastUpdateTime = windlass.LastChange(request, status, func(s *Status) **string { return &s.LastUpdateTime })
func LastChange[Spec, Status any](request *Request[Spec, Status], status Status, field func(*Status) **string) *string {
	*field(&status) = nil
	if before := request.Status(); before != nil {
		time := *field(before)
		*field(before) = nil
		if time != nil && isSameDocument(before, &status) {
			return time
		}
	}
	now := Timestamp(Now())
	return &now
}

// isSameDocument compares values as the API server stores them: one that is read back may be another value of Go, like a nil slice
// for an empty one.
func isSameDocument(a, b any) bool {
	one, errOne := jsondoc.Encode(a)
	other, errOther := jsondoc.Encode(b)
	if errOne != nil || errOther != nil {
		return false
	}
	fields, errOne := object(one)
	others, errOther := object(other)
	return errOne == nil && errOther == nil && reflect.DeepEqual(fields, others)
}
