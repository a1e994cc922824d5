package main

import (
	"encoding/json"
	"reflect"
	"testing"

	"windlass.dev/plugin/admission"
	"windlass.dev/plugin/windlasstest"
)

func TestResponsesAreTheExpectedOnes(t *testing.T) {
	windlasstest.Golden(t, plugin, "../cases", windlasstest.Shared)
}

func TestCRDIsThatOfTheTypes(t *testing.T) {
	windlasstest.CRD(t, plugin, "crd.json")
}

func TestCRDIsThatOfTheOtherLanguages(t *testing.T) {
	windlasstest.CRD(t, plugin, "../crd.json")
}

func app(spec string) map[string]any {
	app := windlasstest.YAML(`{apiVersion: example.com/v1, kind: MyApp, metadata: {name: shop}}`)
	app["spec"] = windlasstest.YAML(spec)
	return app
}

func create(spec string) windlasstest.Verdict {
	return windlasstest.Review(plugin, review, admission.Create, app(spec), nil)
}

func TestMissingFieldsGetDefaultsAndOthersStay(t *testing.T) {
	verdict := create(`{image: "shop:1", resources: {cpu: 2}, other: true}`)
	expected := app(`
image: shop:1
replicas: 1
port: 8080
resources: {cpu: 2, memory: 128Mi}
env: []
other: true
`)
	if verdict.Denied || !reflect.DeepEqual(verdict.Object, expected) {
		t.Fatalf("%+v", verdict)
	}
	whole := windlasstest.Review(plugin, review, admission.Update, verdict.Object, verdict.Object)
	if whole.Denied || whole.Object != nil {
		t.Errorf("a complete object is not allowed unchanged: %+v", whole)
	}
}

func TestInvalidObjectIsDeniedAndTheFieldIsNamed(t *testing.T) {
	for spec, message := range map[string]string{
		`{image: "shop:1", port: http}`:             `spec.port: "http" is not a whole number of 64 bits`,
		`{image: "shop:1", resources: {cpu: many}}`: `spec.resources.cpu: "many" is not a quantity like 100m, 2 or 128Mi`,
		`{image: "shop:1", resources: {cpu: "0"}}`:  "spec.resources.cpu: 0 is not more than 0",
	} {
		if verdict := create(spec); !verdict.Denied || verdict.Message != message {
			t.Errorf("%s: %+v", spec, verdict)
		}
	}
}

func TestDeletionIsAllowedEvenIfTheObjectIsInvalid(t *testing.T) {
	invalid := app(`{image: ""}`)
	deleted := app(`{image: ""}`)
	deleted["metadata"].(map[string]any)["deletionTimestamp"] = json.RawMessage(`"2026-01-01T00:00:00Z"`)
	for _, verdict := range []windlasstest.Verdict{
		windlasstest.Review(plugin, review, admission.Delete, nil, invalid),
		windlasstest.Review(plugin, review, admission.Update, deleted, invalid),
	} {
		if verdict.Denied || verdict.Object != nil {
			t.Errorf("%+v", verdict)
		}
	}
}
