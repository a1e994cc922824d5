package main

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "windlass.dev/bench/kubebuilder/myapp/api/v1"
)

// setStatus sets the status from the live Deployment, which may be nil.
func setStatus(app *v1.MyApp, deployment *appsv1.Deployment, now metav1.Time) {
	before := app.Status.DeepCopy()
	status := &app.Status
	if deployment == nil {
		deployment = &appsv1.Deployment{}
	}
	status.Replicas = deployment.Status.Replicas
	status.ReadyReplicas = deployment.Status.ReadyReplicas
	status.AvailableReplicas = deployment.Status.AvailableReplicas
	status.Message = fmt.Sprintf("%d/%d replicas ready", status.ReadyReplicas, app.Spec.Replicas)
	isComplete, failure := rollout(deployment)
	// Until a change of the spec is applied, the rollout of the old spec is complete.
	isApplied := before.ObservedGeneration == app.Generation
	switch {
	case failure != "":
		status.Phase = v1.Failed
		status.Message += ": " + failure
	case isComplete && *deployment.Spec.Replicas == app.Spec.Replicas && isApplied:
		status.Phase = v1.Running
	default:
		status.Phase = v1.Pending
	}
	ready := metav1.ConditionFalse
	if status.Phase == v1.Running {
		ready = metav1.ConditionTrue
	}
	same := *before
	same.Conditions, same.ObservedGeneration = status.Conditions, status.ObservedGeneration
	if before.LastUpdateTime.IsZero() || !equality.Semantic.DeepEqual(same, *status) {
		status.LastUpdateTime = now
	}
	status.ObservedGeneration = app.Generation
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type:               "Ready",
		Status:             ready,
		Reason:             string(status.Phase),
		Message:            status.Message,
		ObservedGeneration: app.Generation,
	})
}

// rollout tells whether all Pods are there and of the current spec, or why that will not happen without a change.
func rollout(deployment *appsv1.Deployment) (isComplete bool, failure string) {
	status := deployment.Status
	if deployment.Spec.Replicas == nil || status.ObservedGeneration < deployment.Generation {
		return false, ""
	}
	for _, condition := range status.Conditions {
		isRefused := condition.Type == appsv1.DeploymentReplicaFailure && condition.Status == corev1.ConditionTrue
		if isRefused || condition.Reason == "ProgressDeadlineExceeded" {
			return false, condition.Message
		}
	}
	desired := *deployment.Spec.Replicas
	counts := [4]int32{status.Replicas, status.UpdatedReplicas, status.ReadyReplicas, status.AvailableReplicas}
	return counts == [4]int32{desired, desired, desired, desired}, ""
}
