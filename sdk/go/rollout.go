package windlass

import "fmt"

// RolloutState is the state of a rollout, by the rules of kstatus (sigs.k8s.io/cli-utils).
type RolloutState uint8

// The states of rollouts.
const (
	// RolloutProgressing: the rollout goes on, or has not begun.
	RolloutProgressing RolloutState = iota
	// RolloutComplete: all desired Pods are available and of the current revision, and there are no others.
	RolloutComplete
	// RolloutFailed: the rollout does not go on without a change.
	RolloutFailed
)

// Rollout is the Pods of a Deployment, and how far its last change is rolled out.
type Rollout struct {
	// Desired is the Pods that the Deployment's spec desires (spec.replicas); an autoscaler writes it too.
	Desired uint32
	// Replicas is the Pods that exist, with those of older revisions.
	Replicas uint32
	// Updated is the Pods of the current revision.
	Updated uint32
	// Ready is the Pods that are Ready.
	Ready uint32
	// Available is the Pods that have been Ready for at least spec.minReadySeconds.
	Available uint32
	// IsOutdated: the status is older than the spec (status.observedGeneration), and the counts are of the spec before.
	IsOutdated bool
	// State is how far the rollout is.
	State RolloutState
	// Failure is the message of the Deployment's condition, for RolloutFailed.
	Failure string
}

// Rollout returns the rollout of a Deployment. That of a nil object has no Pods, and is progressing. A status that cannot be
// read counts as empty.
func (o *Object) Rollout() Rollout {
	if o == nil {
		return Rollout{}
	}
	var status struct {
		ObservedGeneration int64
		Replicas           uint32
		UpdatedReplicas    uint32
		ReadyReplicas      uint32
		AvailableReplicas  uint32
		Conditions         []Condition
	}
	o.Get("/status", &status)
	rollout := Rollout{
		Desired:    1, // The API server's default.
		Replicas:   status.Replicas,
		Updated:    status.UpdatedReplicas,
		Ready:      status.ReadyReplicas,
		Available:  status.AvailableReplicas,
		IsOutdated: status.ObservedGeneration < o.Int("/metadata/generation"),
	}
	o.Get("/spec/replicas", &rollout.Desired)
	if rollout.IsOutdated {
		return rollout
	}
	for _, condition := range status.Conditions {
		if condition.Type == "ReplicaFailure" && condition.Status == True ||
			condition.Type == "Progressing" && condition.Reason == "ProgressDeadlineExceeded" {
			rollout.State, rollout.Failure = RolloutFailed, condition.Message
			return rollout
		}
	}
	all := [4]uint32{rollout.Replicas, rollout.Updated, rollout.Ready, rollout.Available}
	if desired := rollout.Desired; all == [4]uint32{desired, desired, desired, desired} {
		rollout.State = RolloutComplete
	}
	return rollout
}

// Message is a message for users: "2/3 replicas ready", followed by the message of a failed rollout. desired is the parent's
// number of replicas.
func (r Rollout) Message(desired int) string {
	message := fmt.Sprintf("%d/%d replicas ready", r.Ready, desired)
	if r.State == RolloutFailed {
		message += ": " + r.Failure
	}
	return message
}
