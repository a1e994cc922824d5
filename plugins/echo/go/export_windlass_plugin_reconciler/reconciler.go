// Package export_windlass_plugin_reconciler is Echo in Go: as many Pods as asked for. The generated bindings call it, and
// want it under this name.
package export_windlass_plugin_reconciler

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"
	"unicode"

	witTypes "go.bytecodealliance.org/pkg/wit/types"

	types "wit_component/windlass_plugin_types"
)

//go:embed crd.json
var definition []byte

// Each garbage collection reads the wall clock, for statistics; and when it comes while the host hands over a request, a
// guest may not ask for anything, and ends. A call is short and its memory is thrown away whole, so that nothing is
// collected before the limit comes near.
func init() {
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(48 << 20)
}

// echo is the parent, as far as it matters here.
type echo struct {
	Metadata struct {
		Name string `json:"name"`
		UID  string `json:"uid"`
	} `json:"metadata"`
	Spec struct {
		Replicas *int    `json:"replicas"`
		Image    *string `json:"image"`
	} `json:"spec"`
}

type status struct {
	CurrentReplicas int  `json:"currentReplicas"`
	IsReady         bool `json:"isReady"`
}

// object is JSON.
type object = map[string]any

// Describe says what the plugin is.
func Describe() types.Descriptor {
	return types.Descriptor{
		Name:        "echo",
		Version:     "0.1.0",
		Description: "Runs as many Pods of an image as asked for",
		Parent:      types.MakeParentCustom(definition),
		Children: []types.ChildRule{{
			Kind:   types.Kind{ApiVersion: "v1", Name: "Pod"},
			Update: types.MakeUpdateStrategyApply(),
		}},
		Resync:       witTypes.Some(uint64((5 * time.Minute).Milliseconds())),
		ConfigSchema: witTypes.None[[]uint8](),
	}
}

// Reconcile says which Pods should exist, and how those that do are.
func Reconcile(request types.Request) witTypes.Result[types.Response, types.Failure] {
	parent, err := parse(request.Parent)
	if err != nil {
		return witTypes.Err[types.Response](types.MakeFailureInvalid(err.Error()))
	}
	wanted := *parent.Spec.Replicas
	pods := make([][]uint8, 0, wanted)
	for index := range wanted {
		pods = append(pods, encode(object{
			"apiVersion": "v1",
			"kind":       "Pod",
			"metadata": object{
				"name":   fmt.Sprintf("%s-%d", parent.Metadata.Name, index),
				"labels": object{"app": parent.Metadata.Name, "owner": parent.Metadata.UID},
			},
			"spec": object{"containers": []object{{"name": "nginx", "image": *parent.Spec.Image}}},
		}))
	}
	current := len(request.Children)
	ready := 0
	for _, pod := range request.Children {
		if isReady(pod.Object) {
			ready++
		}
	}
	return witTypes.Ok[types.Response, types.Failure](types.Response{
		Children: pods,
		Status:   witTypes.Some(encode(status{current, ready == current && ready == wanted})),
		Requeue:  witTypes.None[uint64](),
	})
}

// parse reads an Echo; the error names the field that is wrong.
func parse(parent []byte) (echo, error) {
	var echo echo
	err := json.Unmarshal(parent, &echo)
	var wrong *json.UnmarshalTypeError
	switch spec := echo.Spec; {
	case errors.As(err, &wrong):
		return echo, fmt.Errorf("%s: a %s has no place here", wrong.Field, wrong.Value)
	case err != nil:
		return echo, err
	case spec.Replicas == nil:
		return echo, errors.New("spec.replicas: is required")
	case spec.Image == nil:
		return echo, errors.New("spec.image: is required")
	case *spec.Replicas < 0 || *spec.Replicas > 1000:
		return echo, fmt.Errorf("spec.replicas: %d is not between 0 and 1000", *spec.Replicas)
	case *spec.Image == "" || strings.ContainsFunc(*spec.Image, unicode.IsSpace):
		return echo, fmt.Errorf("spec.image: %q is not the name of an image", *spec.Image)
	}
	return echo, nil
}

func isReady(pod []byte) bool {
	var seen struct {
		Status struct {
			Conditions []struct{ Type, Status string }
		}
	}
	// A Pod that cannot be read is not ready.
	_ = json.Unmarshal(pod, &seen)
	for _, condition := range seen.Status.Conditions {
		if condition.Type == "Ready" {
			return condition.Status == "True"
		}
	}
	return false
}

func encode(value any) []byte {
	bytes, err := json.Marshal(value)
	if err != nil {
		panic(err) // What it is made of is all JSON.
	}
	return bytes
}
