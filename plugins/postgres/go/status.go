package main

import (
	"fmt"

	windlass "windlass.dev/plugin"
	"windlass.dev/plugin/kinds"
)

// Observed state of a PostgresCluster.
type Status struct {
	// Phase of the cluster: Starting (the primary), Initializing (the database), Joining (the replicas), Updating, Healthy or Failed.
	Phase Phase `json:"phase"`
	// What the phase waits for; empty in the phase Healthy.
	PhaseReason string `json:"phaseReason"`
	// Number of instances that exist, ready or not.
	Instances int `json:"instances"`
	// Number of instances that are ready.
	ReadyInstances int `json:"readyInstances"`
	// Name of the primary's Pod.
	CurrentPrimary string `json:"currentPrimary"`
	// Service that leads to the primary.
	WriteService string `json:"writeService"`
	// Service that leads to the replicas.
	ReadService string `json:"readService"`
	// Whether the database and its owner have been created. The Job that did it is gone some time later.
	Initialized bool `json:"initialized"`
}

// Phase is the phase of a cluster.
type Phase string

// The phases.
const (
	Starting     Phase = "Starting"
	Initializing Phase = "Initializing"
	Joining      Phase = "Joining"
	Updating     Phase = "Updating"
	Healthy      Phase = "Healthy"
	Failed       Phase = "Failed"
)

// Enum lists the phases, for the schema.
func (Phase) Enum() []string {
	return []string{string(Starting), string(Initializing), string(Joining), string(Updating), string(Healthy), string(Failed)}
}

func statusOf(request *Request) Status {
	status := Status{
		CurrentPrimary: podName(request, 0),
		WriteService:   rwServiceName(request),
		ReadService:    roServiceName(request),
		Initialized:    isInitialized(request),
		Instances:      len(request.Children(kinds.StatefulSet)),
	}
	for _, instance := range request.Children(kinds.StatefulSet) {
		if instance.Int("/status/readyReplicas") > 0 {
			status.ReadyInstances++
		}
	}
	status.Phase, status.PhaseReason = phaseOf(request, status.Initialized)
	return status
}

// isInitialized tells whether the Job has succeeded, also once it is gone.
func isInitialized(request *Request) bool {
	if job := request.Child(kinds.Job, jobName(request)); job != nil {
		return job.IsReady()
	}
	before := request.Status()
	return before != nil && before.Initialized
}

// phaseOf is the phase, and what it waits for.
func phaseOf(request *Request, isInitialized bool) (Phase, string) {
	for _, kind := range []windlass.Kind{kinds.PersistentVolumeClaim, kinds.StatefulSet, kinds.Job} {
		for _, child := range request.Children(kind) {
			if child.Readiness().State == windlass.ReadinessFailed {
				return Failed, awaited(kind, child.Name(), child)
			}
		}
	}
	instance := func(index int) (string, *windlass.Object) {
		name := instanceName(request, index)
		return name, request.Child(kinds.StatefulSet, name)
	}
	if name, primary := instance(0); !primary.IsReady() {
		return Starting, awaited(kinds.StatefulSet, name, primary)
	}
	if name := jobName(request); !isInitialized {
		return Initializing, awaited(kinds.Job, name, request.Child(kinds.Job, name))
	}
	for index := 1; index < request.Spec.Instances; index++ {
		if name, replica := instance(index); !replica.IsReady() {
			return Joining, awaited(kinds.StatefulSet, name, replica)
		}
	}
	// Until a change of the spec is applied, the children are ready as the old spec says.
	if !request.IsSpecApplied() {
		return Updating, "the spec is being applied"
	}
	return Healthy, ""
}

// awaited says why a child is not ready.
func awaited(kind windlass.Kind, name string, child *windlass.Object) string {
	if message := child.Readiness().Message; message != "" {
		return fmt.Sprintf("%s %s: %s", kind.Kind, name, message)
	}
	return fmt.Sprintf("%s %s is not there yet", kind.Kind, name)
}

// monitoring is the condition that says whether Prometheus finds the metrics; none if nobody asked for that.
func monitoring(request *Request) []windlass.Condition {
	if !request.Spec.Monitoring.EnablePodMonitor {
		return nil
	}
	if !request.HasKind(podMonitorKind) {
		return []windlass.Condition{{
			Type: "Monitoring", Status: windlass.False, Reason: "KindMissing",
			Message: "This cluster of Kubernetes has no kind PodMonitor (monitoring.coreos.com/v1): install the Prometheus Operator",
		}}
	}
	return []windlass.Condition{{
		Type: "Monitoring", Status: windlass.True, Reason: "PodMonitorDesired",
		Message: "Prometheus finds the instances by PodMonitor " + request.Name,
	}}
}
