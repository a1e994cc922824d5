package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	acorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	ametav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "windlass.dev/bench/kubebuilder/echo/api/v1"
)

type reconciler struct {
	client.Client
}

// +kubebuilder:rbac:groups=my-operator.dev,resources=echoes,verbs=get;list;watch
// +kubebuilder:rbac:groups=my-operator.dev,resources=echoes/status,verbs=get;patch;update
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;create;patch;delete

// Reconcile applies the desired Pods of one Echo, deletes the others, and writes the status.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var echo v1.Echo
	if err := r.Get(ctx, request.NamespacedName, &echo); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !echo.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	var owned corev1.PodList
	labels := client.MatchingLabels{"owner": string(echo.UID)}
	if err := r.List(ctx, &owned, client.InNamespace(echo.Namespace), labels); err != nil {
		return ctrl.Result{}, err
	}
	desired := map[string]bool{}
	for _, pod := range pods(&echo) {
		desired[*pod.Name] = true
		if err := r.Apply(ctx, pod, client.FieldOwner("echo"), client.ForceOwnership); err != nil {
			return ctrl.Result{}, err
		}
	}
	for i := range owned.Items {
		if pod := &owned.Items[i]; !desired[pod.Name] {
			if err := r.Delete(ctx, pod); client.IgnoreNotFound(err) != nil {
				return ctrl.Result{}, err
			}
		}
	}
	before := echo.DeepCopy()
	setStatus(&echo, owned.Items)
	if !equality.Semantic.DeepEqual(before.Status, echo.Status) {
		if err := r.Status().Patch(ctx, &echo, client.MergeFrom(before)); err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{RequeueAfter: 5 * time.Minute}, nil
}

func pods(echo *v1.Echo) []*acorev1.PodApplyConfiguration {
	owner := ametav1.OwnerReference().
		WithAPIVersion(v1.GroupVersion.String()).
		WithKind("Echo").
		WithName(echo.Name).
		WithUID(echo.UID).
		WithController(true).
		WithBlockOwnerDeletion(true)
	var pods []*acorev1.PodApplyConfiguration
	for index := range echo.Spec.Replicas {
		container := acorev1.Container().WithName("nginx").WithImage(echo.Spec.Image)
		pod := acorev1.Pod(fmt.Sprintf("%s-%d", echo.Name, index), echo.Namespace).
			WithLabels(map[string]string{"app": echo.Name, "owner": string(echo.UID)}).
			WithOwnerReferences(owner).
			WithSpec(acorev1.PodSpec().WithContainers(container))
		pods = append(pods, pod)
	}
	return pods
}

func setStatus(echo *v1.Echo, live []corev1.Pod) {
	ready := 0
	for i := range live {
		if isReady(&live[i]) {
			ready++
		}
	}
	desired := int(echo.Spec.Replicas)
	echo.Status.CurrentReplicas = int32(len(live))
	echo.Status.IsReady = ready == len(live) && ready == desired
	echo.Status.ObservedGeneration = echo.Generation
	condition := metav1.Condition{
		Type:               "Ready",
		Status:             metav1.ConditionFalse,
		Reason:             "Pending",
		Message:            fmt.Sprintf("%d/%d Pods are ready", ready, desired),
		ObservedGeneration: echo.Generation,
	}
	if echo.Status.IsReady {
		condition.Status, condition.Reason = metav1.ConditionTrue, "Running"
	}
	meta.SetStatusCondition(&echo.Status.Conditions, condition)
}

func isReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
