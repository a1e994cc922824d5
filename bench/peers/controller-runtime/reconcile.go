package main

import (
	"context"
	"encoding/json"
	"maps"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

const (
	fieldManager = client.FieldOwner("bench-controller-runtime")
	ownerIndex   = "owner"
)

var childLabels = map[string]string{"app": "load"}

type reconciler struct {
	client client.Client
}

// Reconcile brings one Load's ConfigMaps and status to what its spec says.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var load Load
	if err := r.client.Get(ctx, request.NamespacedName, &load); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if load.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	var owned corev1.ConfigMapList
	// Read only: the cache's own objects will do.
	options := []client.ListOption{
		client.InNamespace(load.Namespace),
		client.MatchingFields{ownerIndex: string(load.UID)},
		client.UnsafeDisableDeepCopy,
	}
	if err := r.client.List(ctx, &owned, options...); err != nil {
		return ctrl.Result{}, err
	}
	found := make(map[string]*corev1.ConfigMap, len(owned.Items))
	for i := range owned.Items {
		found[owned.Items[i].Name] = &owned.Items[i]
	}
	if err := r.children(ctx, &load, found); err != nil {
		return ctrl.Result{}, err
	}
	for _, superfluous := range found {
		if err := r.client.Delete(ctx, superfluous, client.Preconditions{UID: &superfluous.UID}); client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{}, r.status(ctx, &load)
}

// children writes what is missing or differs, all at once, and takes what is wanted out of found.
func (r *reconciler) children(ctx context.Context, load *Load, found map[string]*corev1.ConfigMap) error {
	padding := strings.Repeat("x", load.Spec.Payload)
	var writes []func() error
	for i := range load.Spec.Children {
		wanted := child(load, i, padding)
		is := found[wanted.Name]
		delete(found, wanted.Name)
		switch {
		case is == nil:
			writes = append(writes, func() error { return r.create(ctx, wanted) })
		case !maps.Equal(is.Data, wanted.Data) || is.Labels["app"] != "load":
			writes = append(writes, func() error { return r.apply(ctx, wanted) })
		}
	}
	errs := make(chan error, len(writes))
	for _, write := range writes {
		go func() { errs <- write() }()
	}
	var failed error
	for range writes {
		if err := <-errs; err != nil {
			failed = err
		}
	}
	return failed
}

func (r *reconciler) create(ctx context.Context, wanted *corev1.ConfigMap) error {
	err := r.client.Create(ctx, wanted, fieldManager)
	if apierrors.IsAlreadyExists(err) {
		// The cache lags behind our own create.
		return nil
	}
	return err
}

func (r *reconciler) apply(ctx context.Context, wanted *corev1.ConfigMap) error {
	body, err := json.Marshal(wanted)
	if err != nil {
		return err
	}
	return r.client.Patch(ctx, wanted, client.RawPatch(types.ApplyPatchType, body), fieldManager, client.ForceOwnership)
}

func (r *reconciler) status(ctx context.Context, load *Load) error {
	status := load.Status
	status.Conditions = append([]metav1.Condition(nil), status.Conditions...)
	status.Wanted = load.Spec.Children
	status.ObservedGeneration = load.Generation
	changed := meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type:               "Ready",
		Status:             metav1.ConditionTrue,
		Reason:             "Applied",
		Message:            strconv.Itoa(load.Spec.Children) + " children are as wanted",
		ObservedGeneration: load.Generation,
		LastTransitionTime: metav1.NewTime(time.Now()),
	})
	if !changed && status.Wanted == load.Status.Wanted && status.ObservedGeneration == load.Status.ObservedGeneration {
		return nil
	}
	body, err := json.Marshal(map[string]any{
		"apiVersion": groupVersion.String(),
		"kind":       "Load",
		"metadata":   map[string]any{"name": load.Name, "namespace": load.Namespace, "uid": load.UID},
		"status":     status,
	})
	if err != nil {
		return err
	}
	patch := client.RawPatch(types.ApplyPatchType, body)
	return r.client.Status().Patch(ctx, load.deepCopy(), patch, fieldManager, client.ForceOwnership)
}

func child(load *Load, index int, padding string) *corev1.ConfigMap {
	yes := true
	return &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{
			Name:      load.Name + "-" + strconv.Itoa(index),
			Namespace: load.Namespace,
			Labels:    childLabels,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion:         groupVersion.String(),
				Kind:               "Load",
				Name:               load.Name,
				UID:                load.UID,
				Controller:         &yes,
				BlockOwnerDeletion: &yes,
			}},
		},
		Data: map[string]string{"note": load.Spec.Note, "payload": padding},
	}
}

func ownerOf(object client.Object) []string {
	owner := metav1.GetControllerOf(object)
	if owner == nil || owner.Kind != "Load" {
		return nil
	}
	return []string{string(owner.UID)}
}

// resynced lets the cache's periodic resync through, which shows an object as it was.
type resynced struct {
	predicate.Funcs
}

// Update says whether nothing changed at all.
func (resynced) Update(e event.UpdateEvent) bool {
	return e.ObjectOld != nil && e.ObjectNew != nil && e.ObjectOld.GetResourceVersion() == e.ObjectNew.GetResourceVersion()
}

func withPredicates(p predicate.Predicate) builder.Predicates {
	return builder.WithPredicates(p)
}
