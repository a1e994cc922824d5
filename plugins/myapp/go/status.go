package main

import (
	windlass "windlass.dev/plugin"
	"windlass.dev/plugin/kinds"
)

// What became of an application.
type Status struct {
	// Where it stands.
	Phase windlass.Phase `json:"phase"`
	// Pods that exist.
	Replicas uint32 `json:"replicas"`
	// Pods that are Ready.
	ReadyReplicas uint32 `json:"readyReplicas"`
	// Pods that can be relied on.
	AvailableReplicas uint32 `json:"availableReplicas"`
	// When anything in this status was last another.
	LastUpdateTime *string `json:"lastUpdateTime" format:"date-time"`
	// The same for people.
	Message string `json:"message"`
}

// CurrentPhase returns the phase.
func (s Status) CurrentPhase() windlass.StatusPhase { return s.Phase }

func statusOf(request *Request) Status {
	desired := request.Spec.Replicas
	rollout := request.Child(kinds.Deployment, request.Name).Rollout()
	phase := windlass.PhasePending
	switch {
	case rollout.State == windlass.RolloutFailed:
		phase = windlass.PhaseFailed
	// Until a change of the spec is applied, the rollout of the old spec is complete.
	case rollout.State == windlass.RolloutComplete && int(rollout.Desired) == desired && request.IsSpecApplied():
		phase = windlass.PhaseRunning
	}
	status := Status{
		Phase:             phase,
		Replicas:          rollout.Replicas,
		ReadyReplicas:     rollout.Ready,
		AvailableReplicas: rollout.Available,
		Message:           rollout.Message(desired),
	}
	status.LastUpdateTime = windlass.LastChange(request, status, func(s *Status) **string { return &s.LastUpdateTime })
	return status
}
