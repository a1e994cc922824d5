// Echo is a number of Pods of one image: the smallest useful operator.
package main

import (
	_ "embed"
	"fmt"
	"time"

	windlass "windlass.dev/plugin"
	"windlass.dev/plugin/kinds"
)

// Desired state of an Echo.
type Spec struct {
	// Desired number of Pods, 0 to 1000.
	Replicas int `json:"replicas" minimum:"0" maximum:"1000"`
	// Container image of the Pods.
	Image string `json:"image" is:"image"`
}

// Observed state of an Echo.
type Status struct {
	// Number of Pods that exist.
	CurrentReplicas int `json:"currentReplicas" minimum:"0"`
	// Whether the desired number of Pods exists and all of them are Ready.
	IsReady bool `json:"isReady"`
}

//go:embed crd.json
var crd []byte

var plugin = windlass.Plugin[Spec, Status]{
	Name:        "echo",
	Version:     "0.1.0",
	Description: "Runs the desired number of Pods of an image",
	Parent: windlass.CustomResource{
		Group:      "my-operator.dev",
		Version:    "v1",
		Kind:       "Echo",
		ShortNames: []string{"ec"},
		Columns: []windlass.Column{
			{Name: "Desired", Type: "integer", Path: ".spec.replicas"},
			{Name: "Current", Type: "integer", Path: ".status.currentReplicas"},
		},
		// The name is the value of a label, and the Pods' names append up to -999 to it.
		Rules: []windlass.Rule{{Rule: "size(self.metadata.name) <= 59", Message: "name over 59 characters"}},
		CRD:   crd,
	},
	Children: []windlass.ChildRule{{Kind: kinds.Pod}},
	// An Echo is Ready as soon as its Pods are applied: status.isReady says whether they are Ready.
	ReadyMeans: windlass.ReadyMeansApplied,
	Resync:     5 * time.Minute,
	Reconcile:  reconcile,
}

func reconcile(request *windlass.Request[Spec, Status]) (*windlass.Response[Status], error) {
	response := &windlass.Response[Status]{}
	for index := range request.Spec.Replicas {
		response.Children = append(response.Children, windlass.Map{
			"apiVersion": "v1",
			"kind":       "Pod",
			"metadata": windlass.Map{
				"name":   fmt.Sprintf("%s-%d", request.Name, index),
				"labels": windlass.Map{"app": request.Name, "owner": request.UID},
			},
			"spec": windlass.Map{
				"containers": []windlass.Map{{"name": "nginx", "image": request.Spec.Image}},
			},
		})
	}
	pods := request.Children(kinds.Pod)
	ready := 0
	for _, pod := range pods {
		if pod.IsConditionTrue("Ready") {
			ready++
		}
	}
	response.Status = &Status{
		CurrentReplicas: len(pods),
		IsReady:         ready == len(pods) && ready == request.Spec.Replicas,
	}
	return response, nil
}

func init() { windlass.Register(plugin) }

func main() {}
