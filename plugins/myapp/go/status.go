package main

import (
	windlass "windlass.dev/plugin"
	"windlass.dev/plugin/kinds"
)

// Observed state of a MyApp.
type Status struct {
	// Phase of the application: Pending, Running or Failed.
	Phase windlass.Phase `json:"phase"`
	// Number of Pods that exist.
	Replicas uint32 `json:"replicas"`
	// Number of Ready Pods.
	ReadyReplicas uint32 `json:"readyReplicas"`
	// Number of available Pods.
	AvailableReplicas uint32 `json:"availableReplicas"`
	// Time of the last change of this status.
	LastUpdateTime *string `json:"lastUpdateTime" format:"date-time"`
	// Summary of the status for users.
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
