package main

import (
	"testing"

	windlass "windlass.dev/plugin"
	"windlass.dev/plugin/windlasstest"
)

// Calls the plugin with each file in cases, and compares the response with the file ….answer.yaml beside it.
func TestResponsesAreTheExpectedOnes(t *testing.T) {
	windlasstest.Golden(t, plugin, "cases")
}

func TestCRDIsThatOfTheTypes(t *testing.T) {
	windlasstest.CRD(t, plugin, "crd.json")
}

func TestMessageOfTwoLinesIsInvalid(t *testing.T) {
	parent := windlasstest.YAML(`{metadata: {name: hello}, spec: {message: "Hello,\nworld"}}`)
	_, err := windlasstest.Call(plugin, parent).Run()
	if !windlass.IsInvalid(err) || err.Error() != "spec.message: must be one line" {
		t.Errorf("%v", err)
	}
}
