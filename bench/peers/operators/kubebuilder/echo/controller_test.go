package main

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"

	v1 "windlass.dev/bench/kubebuilder/echo/api/v1"
	"windlass.dev/bench/kubebuilder/golden"
)

func TestPodsAndStatusAreThoseOfTheGoldenCases(t *testing.T) {
	for _, one := range golden.Cases(t, "echo") {
		echo := golden.Into[v1.Echo](t, one.Parent)
		var children []map[string]any
		for _, pod := range pods(echo) {
			children = append(children, golden.Desired(t, pod))
		}
		if !reflect.DeepEqual(children, one.Answer.Children) {
			t.Errorf("%s: children %v", one.Name, children)
		}
		setStatus(echo, *golden.Into[[]corev1.Pod](t, one.Children))
		expected := golden.Into[v1.EchoStatus](t, one.Answer.Status)
		if echo.Status.CurrentReplicas != expected.CurrentReplicas || echo.Status.IsReady != expected.IsReady {
			t.Errorf("%s: status %+v", one.Name, echo.Status)
		}
	}
}
