// {{kind}} writes a message into a ConfigMap.
package main

import (
	_ "embed"
	"strings"

	windlass "windlass.dev/plugin"
	"windlass.dev/plugin/kinds"
)

// The desired message.
type Spec struct {
	// The text of the ConfigMap; one line.
	Message string `json:"message" minLength:"1" maxLength:"1000"`
}

// The observed state.
type Status struct {
	// Whether the ConfigMap exists.
	IsWritten bool `json:"isWritten"`
}

// UPDATE_EXPECT=1 go test writes the file from the types.
//
//go:embed crd.json
var crd []byte

var plugin = windlass.Plugin[Spec, Status]{
	Name:        "{{name}}",
	Version:     "0.1.0",
	Description: "Writes a message into a ConfigMap",
	Parent: windlass.CustomResource{
		Group:   "{{group}}",
		Version: "v1",
		Kind:    "{{kind}}",
		Columns: []windlass.Column{{Name: "Message", Type: "string", Path: ".spec.message"}},
		CRD:     crd,
	},
	Children:  []windlass.ChildRule{{Kind: kinds.ConfigMap}},
	Reconcile: reconcile,
}

// reconcile returns the ConfigMap that should exist, and whether it does.
func reconcile(request *windlass.Request[Spec, Status]) (*windlass.Response[Status], error) {
	message := request.Spec.Message
	if strings.Contains(message, "\n") {
		return nil, windlass.Invalid("spec.message", "must be one line")
	}
	configMap := windlass.Map{
		"apiVersion": "v1",
		"kind":       "ConfigMap",
		"metadata":   windlass.Map{"name": request.Name},
		"data":       windlass.Map{"message": message},
	}
	return &windlass.Response[Status]{
		Children: []any{configMap},
		Status:   &Status{IsWritten: request.Child(kinds.ConfigMap, request.Name) != nil},
	}, nil
}

func init() { windlass.Register(plugin) }

func main() {}
