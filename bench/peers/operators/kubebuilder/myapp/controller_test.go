package main

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"windlass.dev/bench/kubebuilder/golden"
	v1 "windlass.dev/bench/kubebuilder/myapp/api/v1"
)

func TestChildrenAndStatusAreThoseOfTheGoldenCases(t *testing.T) {
	for _, one := range golden.Cases(t, "myapp") {
		if one.Finalize {
			continue
		}
		app := withDefaults(t, one.Parent)
		children := []any{deployment(app), service(app)}
		if app.Spec.IngressHost != nil {
			children = append(children, ingress(app, *app.Spec.IngressHost))
		}
		if len(children) != len(one.Answer.Children) {
			t.Fatalf("%s: %d children", one.Name, len(children))
		}
		for i, child := range children {
			// Typed, because a quantity can be written in several ways.
			same := equal[networkingv1.Ingress]
			switch i {
			case 0:
				same = equal[appsv1.Deployment]
			case 1:
				same = equal[corev1.Service]
			}
			if !same(t, golden.Desired(t, child), one.Answer.Children[i]) {
				t.Errorf("%s: child %v", one.Name, child)
			}
		}
		var live *appsv1.Deployment
		for _, child := range one.Children {
			if child["kind"] == "Deployment" {
				live = golden.Into[appsv1.Deployment](t, child)
			}
		}
		setStatus(app, live, metav1.NewTime(one.At))
		expected := golden.Into[v1.MyAppStatus](t, one.Answer.Status)
		expected.ObservedGeneration = app.Generation
		for i := range expected.Conditions {
			expected.Conditions[i].ObservedGeneration = app.Generation
			expected.Conditions[i].LastTransitionTime = app.Status.Conditions[i].LastTransitionTime
		}
		if !equality.Semantic.DeepEqual(app.Status, *expected) {
			t.Errorf("%s: status %+v instead of %+v", one.Name, app.Status, *expected)
		}
	}
}

func equal[T any](t *testing.T, one, other any) bool {
	return equality.Semantic.DeepEqual(golden.Into[T](t, one), golden.Into[T](t, other))
}

// withDefaults sets the defaults that the API server sets by the CRD.
func withDefaults(t *testing.T, parent map[string]any) *v1.MyApp {
	spec := parent["spec"].(map[string]any)
	resources, _ := spec["resources"].(map[string]any)
	if resources == nil {
		resources = map[string]any{}
	}
	spec["resources"] = resources
	for field, value := range map[string]any{"replicas": 1, "port": 8080} {
		if spec[field] == nil {
			spec[field] = value
		}
	}
	for field, value := range map[string]any{"cpu": "100m", "memory": "128Mi"} {
		if resources[field] == nil {
			resources[field] = value
		}
	}
	return golden.Into[v1.MyApp](t, parent)
}
