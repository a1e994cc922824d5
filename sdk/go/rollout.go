package windlass

import "fmt"

// RolloutState is the state of a rollout, by the rules of kstatus (sigs.k8s.io/cli-utils).
type RolloutState uint8

// The states of rollouts.
const (
	// RolloutProgressing: the rollout goes on, or has not begun.
	RolloutProgressing RolloutState = iota
	// RolloutComplete: all desired Pods are available and of the current revision, and there are no others. The revision does not
	// count where a StatefulSet has a partition, or where users delete Pods to update them (OnDelete).
	RolloutComplete
	// RolloutFailed: the rollout of a Deployment does not go on without a change.
	RolloutFailed
)

// Rollout is the Pods of a Deployment, StatefulSet or DaemonSet, and how far its last change is rolled out.
type Rollout struct {
	// Desired is the Pods that the spec desires (spec.replicas, which an autoscaler writes too), or a DaemonSet for its nodes.
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

// Rollout returns the rollout of a Deployment, StatefulSet or DaemonSet. That of a nil object has no Pods, and is progressing. A status
// that cannot be read counts as empty.
func (o *Object) Rollout() Rollout {
	if o == nil {
		return Rollout{}
	}
	rollout := Rollout{
		Desired:    1, // The API server's default.
		IsOutdated: o.Int("/status/observedGeneration") < o.Int("/metadata/generation"),
	}
	kind := o.Kind().Kind
	counts := [4]string{"replicas", "updatedReplicas", "readyReplicas", "availableReplicas"}
	if kind == "DaemonSet" {
		counts = [4]string{"currentNumberScheduled", "updatedNumberScheduled", "numberReady", "numberAvailable"}
		rollout.Desired = 0
		o.Get("/status/desiredNumberScheduled", &rollout.Desired)
	} else {
		o.Get("/spec/replicas", &rollout.Desired)
	}
	for index, count := range []*uint32{&rollout.Replicas, &rollout.Updated, &rollout.Ready, &rollout.Available} {
		o.Get("/status/"+counts[index], count)
	}
	if rollout.IsOutdated {
		return rollout
	}
	var conditions []Condition
	if kind == "Deployment" {
		o.Get("/status/conditions", &conditions)
	}
	for _, condition := range conditions {
		if condition.Type == "ReplicaFailure" && condition.Status == True ||
			condition.Type == "Progressing" && condition.Reason == "ProgressDeadlineExceeded" {
			rollout.State, rollout.Failure = RolloutFailed, condition.Message
			return rollout
		}
	}
	// The number of Pods that keep their revision.
	var kept uint32
	o.Get("/spec/updateStrategy/rollingUpdate/partition", &kept)
	if kind != "Deployment" && o.Text("/spec/updateStrategy/type") == "OnDelete" {
		kept = rollout.Desired
	}
	desired := rollout.Desired
	isUpdated := rollout.Updated == desired || kept > 0 && rollout.Updated+kept >= desired
	if isUpdated && [3]uint32{rollout.Replicas, rollout.Ready, rollout.Available} == [3]uint32{desired, desired, desired} {
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
