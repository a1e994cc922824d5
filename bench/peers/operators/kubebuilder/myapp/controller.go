package main

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	v1 "windlass.dev/bench/kubebuilder/myapp/api/v1"
)

const finalizer = "example.com/myapp"

type reconciler struct {
	client.Client
	events events.EventRecorder
}

// +kubebuilder:rbac:groups=example.com,resources=myapps,verbs=get;list;watch;patch;update
// +kubebuilder:rbac:groups=example.com,resources=myapps/status,verbs=get;patch;update
// +kubebuilder:rbac:groups=example.com,resources=myapps/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=networking.k8s.io,resources=ingresses,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile applies the desired children of one MyApp, deletes an Ingress that is no longer desired, and writes the status.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var app v1.MyApp
	if err := r.Get(ctx, request.NamespacedName, &app); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !app.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.cleanUp(ctx, &app)
	}
	if controllerutil.AddFinalizer(&app, finalizer) {
		if err := r.Update(ctx, &app); err != nil {
			return ctrl.Result{}, err
		}
	}
	if err := r.apply(ctx, &app); err != nil {
		return ctrl.Result{}, err
	}
	var deployment *appsv1.Deployment
	var live appsv1.Deployment
	if err := r.Get(ctx, request.NamespacedName, &live); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	} else if err == nil {
		deployment = &live
	}
	before := app.DeepCopy()
	setStatus(&app, deployment, metav1.Now())
	if !equality.Semantic.DeepEqual(before.Status, app.Status) {
		if err := r.Status().Patch(ctx, &app, client.MergeFrom(before)); err != nil {
			return ctrl.Result{}, err
		}
	}
	r.report(&app, before.Status.Phase)
	if app.Status.Phase == v1.Failed {
		return ctrl.Result{RequeueAfter: 30 * time.Second}, nil
	}
	return ctrl.Result{RequeueAfter: time.Minute}, nil
}

func (r *reconciler) apply(ctx context.Context, app *v1.MyApp) error {
	options := []client.ApplyOption{client.FieldOwner("myapp"), client.ForceOwnership}
	if err := r.Apply(ctx, deployment(app), options...); err != nil {
		return err
	}
	if err := r.Apply(ctx, service(app), options...); err != nil {
		return err
	}
	if app.Spec.IngressHost != nil {
		return r.Apply(ctx, ingress(app, *app.Spec.IngressHost), options...)
	}
	var superfluous networkingv1.Ingress
	if err := r.Get(ctx, client.ObjectKeyFromObject(app), &superfluous); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !metav1.IsControlledBy(&superfluous, app) {
		return nil
	}
	return client.IgnoreNotFound(r.Delete(ctx, &superfluous))
}

// cleanUp cleans up outside the cluster: a DNS record, for example. MyApp has nothing there, and only emits an event.
func (r *reconciler) cleanUp(ctx context.Context, app *v1.MyApp) error {
	if !controllerutil.RemoveFinalizer(app, finalizer) {
		return nil
	}
	message := fmt.Sprintf("Nothing of %s is left outside the cluster", app.Name)
	r.events.Eventf(app, nil, corev1.EventTypeNormal, "CleanedUp", "CleanUp", "%s", message)
	return r.Update(ctx, app)
}

// report emits an event if the phase has changed.
func (r *reconciler) report(app *v1.MyApp, before v1.Phase) {
	phase := app.Status.Phase
	if before == "" || before == phase {
		return
	}
	kind := corev1.EventTypeNormal
	if phase == v1.Failed {
		kind = corev1.EventTypeWarning
	}
	r.events.Eventf(app, nil, kind, string(phase), "Reconcile", "%s", app.Status.Message)
}
