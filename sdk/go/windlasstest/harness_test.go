package windlasstest

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	windlass "windlass.dev/plugin"
	"windlass.dev/plugin/kinds"
)

// returning is the plugin with another function.
func returning(reconcile func(*windlass.Request[little, struct{}]) *windlass.Response[struct{}]) *Prepared {
	other := plugin
	other.Related = []windlass.RelatedRule{{Kind: kinds.Deployment}}
	other.Reconcile = func(r *windlass.Request[little, struct{}]) (*windlass.Response[struct{}], error) {
		return reconcile(r), nil
	}
	return Call(other, YAML(`{apiVersion: example.com/v1, kind: Test, metadata: {name: a, namespace: shop}, spec: {replicas: 1}}`))
}

func TestWhatTheHostRefusesIsAnErrorWithItsSentence(t *testing.T) {
	child := func(text string) any { return json.RawMessage(text) }
	for message, response := range map[string]windlass.Response[struct{}]{
		"child 0 is not a Kubernetes object": {Children: []any{5}},
		// The host gets the text that the plugin returned.
		`the key "name" stands twice`: {Children: []any{child(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b", "name": "b"}}`)}},
	} {
		answer, err := returning(func(*windlass.Request[little, struct{}]) *windlass.Response[struct{}] { return &response }).Run()
		refused, isRefused := errors.AsType[*Refused](err)
		if answer != nil || !isRefused || !strings.Contains(refused.Message, message) {
			t.Errorf("%s: %v", message, err)
		}
	}
	_, err := Call(plugin, YAML(`{metadata: {name: a}, spec: {replicas: 1}}`)).Config(map[string]int{"a": 1}).Run()
	if _, isRefused := errors.AsType[*Refused](err); !isRefused {
		t.Errorf("a plugin without a schema takes a config: %v", err)
	}
}

// refusedCase is a response that the host refuses, as host/conformance/refused.json lists it for the tests of all SDKs.
type refusedCase struct {
	Description, Refused string
	Children             []struct {
		Object  windlass.Map
		Options struct {
			Once     string
			Retain   bool
			Replaces reference
		}
	}
	Keep, Requirements []reference
}

// reference is an object by its name, or the requirement of one.
type reference struct {
	ID, APIVersion, Kind, Name string
}

func (r reference) kind() windlass.Kind { return windlass.Kind{APIVersion: r.APIVersion, Kind: r.Kind} }

func (r reference) ref() windlass.ChildRef { return windlass.ChildRef{Kind: r.kind(), Name: r.Name} }

// response is the case's response as a plugin returns it.
func (c refusedCase) response() *windlass.Response[struct{}] {
	response := &windlass.Response[struct{}]{}
	for _, child := range c.Children {
		response.Children = append(response.Children, windlass.ChildWith(child.Object, windlass.ChildOptions{
			Once: child.Options.Once, Retain: child.Options.Retain, Replaces: child.Options.Replaces.ref(),
		}))
	}
	for _, one := range c.Keep {
		response.Keep = append(response.Keep, one.ref())
	}
	for _, one := range c.Requirements {
		response.Requirements = append(response.Requirements, windlass.Named(one.ID, one.kind(), one.Name))
	}
	return response
}

func TestNativeCallRefusesWhatTheHostRefusesWithTheSameSentences(t *testing.T) {
	file, err := os.ReadFile("../../../host/conformance/refused.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []refusedCase
	decoder := json.NewDecoder(bytes.NewReader(file))
	decoder.DisallowUnknownFields() // A part of a response that this test leaves out could be what the host refuses.
	if err := decoder.Decode(&cases); err != nil || len(cases) == 0 {
		t.Fatal(err, len(cases))
	}
	for _, one := range cases {
		echo := windlass.Plugin[struct{}, struct{}]{
			Name: "echo", Version: "0.1.0",
			Parent:   windlass.CustomResource{Group: "example.com", Version: "v1", Kind: "Echo"},
			Children: []windlass.ChildRule{{Kind: kinds.ConfigMap}, {Kind: kinds.Secret}},
			Related:  []windlass.RelatedRule{{Kind: kinds.ConfigMap}},
			Reconcile: func(*windlass.Request[struct{}, struct{}]) (*windlass.Response[struct{}], error) {
				return one.response(), nil
			},
		}
		_, err := Call(echo, YAML(`{apiVersion: example.com/v1, kind: Echo, metadata: {name: web, namespace: shop}}`)).Run()
		if refused, isRefused := errors.AsType[*Refused](err); !isRefused || refused.Message != one.Refused {
			t.Errorf("%s: %v; expected: %s", one.Description, err, one.Refused)
		}
	}
}

func TestReadinessThatTheTestDoesNotSetIsThatOfTheHost(t *testing.T) {
	deployment := func(name string) map[string]any {
		return YAML(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: ` + name + `, generation: 2}, status: {observedGeneration: 1}}`)
	}
	outdated := windlass.Readiness{State: windlass.ReadinessProgressing, Message: "its controller has not seen its latest change yet"}
	see := func(r *windlass.Request[little, struct{}]) *windlass.Response[struct{}] {
		related, _ := r.Related("all")
		for _, seen := range []*windlass.Object{r.Children(kinds.Deployment)[1], related[0]} {
			if seen.Readiness() != outdated {
				t.Errorf("%s: %+v", seen.Name(), seen.Readiness())
			}
		}
		if !r.Children(kinds.Deployment)[0].IsReady() || !r.Children(kinds.ConfigMap)[0].IsReady() {
			t.Error("what exists is not ready, or what the test says")
		}
		return &windlass.Response[struct{}]{}
	}
	_, err := returning(see).Related("all", deployment("d")).Related("none").
		Children(Ready(deployment("a")), deployment("b"), YAML(`{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}`)).Run()
	if err != nil {
		t.Error(err)
	}
}

func TestTestWithoutTheProgramFailsAndSaysHowToGetIt(t *testing.T) {
	empty := returning(func(*windlass.Request[little, struct{}]) *windlass.Response[struct{}] {
		return &windlass.Response[struct{}]{}
	})
	t.Setenv("WINDLASS", "")
	t.Setenv("PATH", t.TempDir())
	_, err := empty.Run()
	if err == nil || !strings.Contains(err.Error(), "run cargo install --locked --path host/cli in the repository of Windlass, or set the environment variable WINDLASS to its path") {
		t.Error(err)
	}
}

// bounded is a spec with bounds and defaults.
type bounded struct {
	Replicas int               `json:"replicas" default:"1" minimum:"1" maximum:"9"`
	Name     string            `json:"name" is:"dns-label"`
	Limits   limits            `json:"limits" default:"{}"`
	Labels   map[string]string `json:"labels,omitempty" maxProperties:"1"`
}

type limits struct {
	CPU   windlass.Quantity `json:"cpu" default:"100m"`
	Ratio json.Number       `json:"ratio,omitempty"`
}

// seeing is a call of a plugin that hands out the spec that it sees.
func seeing(spec string, see func(bounded)) *Prepared {
	of := windlass.Plugin[bounded, struct{}]{
		Name: "test", Version: "1.2.3", Finalizes: true,
		Parent: windlass.CustomResource{Group: "example.com", Version: "v1", Kind: "Test"},
		Reconcile: func(r *windlass.Request[bounded, struct{}]) (*windlass.Response[struct{}], error) {
			see(r.Spec)
			return &windlass.Response[struct{}]{Finalized: r.IsFinalizing()}, nil
		},
	}
	return Call(of, YAML(`{metadata: {name: a}, spec: `+spec+`}`))
}

func TestParentThatDoesNotFitIsInvalidWithTheSentenceOfTheHostAndThePluginIsNotCalled(t *testing.T) {
	for spec, sentence := range map[string]string{
		`{name: a, replicas: 12}`:         "spec.replicas: 12 is more than the maximum 9",
		`{}`:                              "spec.name: required, and missing",
		`{name: a, replicas: three}`:      "spec.replicas: must be of type integer, and is a string",
		`{name: a, labels: {b: c, d: e}}`: "spec.labels: 2 fields, and at most 1 are allowed",
		`{replicas: 12, limits: {cpu: [1]}}`: "spec.name: required, and missing; spec.limits.cpu: must be an integer or a string, and is an array; " +
			"spec.replicas: 12 is more than the maximum 9",
	} {
		prepared := seeing(spec, func(bounded) { t.Errorf("%s: the plugin is called", spec) })
		for range 2 {
			if _, err := prepared.Run(); !windlass.IsInvalid(err) || err.Error() != sentence {
				t.Errorf("%s: %v", spec, err)
			}
		}
	}
	called := false
	answer, err := seeing(`{replicas: 12}`, func(seen bounded) { called = seen.Replicas == 12 }).Finalize().Run()
	if err != nil || !called || !answer.Finalized {
		t.Errorf("a clean-up is not called with any spec: %v", err)
	}
}

func TestPluginSeesTheDefaultsThatTheHostFillsIn(t *testing.T) {
	whole := bounded{Replicas: 1, Name: "a", Limits: limits{CPU: windlass.MustQuantity("100m"), Ratio: "0.10000000000000000000001"}}
	const spec = `{name: a, replicas: null, limits: {ratio: 0.10000000000000000000001}}`
	for name, prepared := range map[string]func(func(bounded)) *Prepared{
		"reconcile": func(see func(bounded)) *Prepared { return seeing(spec, see) },
		"finalize":  func(see func(bounded)) *Prepared { return seeing(spec, see).Finalize() },
	} {
		var seen []bounded
		call := prepared(func(spec bounded) { seen = append(seen, spec) })
		for range 2 {
			if _, err := call.Run(); err != nil {
				t.Fatal(name, err)
			}
		}
		if !reflect.DeepEqual(seen, []bounded{whole, whole}) {
			t.Errorf("%s: %+v", name, seen)
		}
	}
}

func TestGoldenCaseOfAnInvalidParentHasTheSentenceOfTheHost(t *testing.T) {
	folder := t.TempDir()
	write(t, filepath.Join(folder, "one.yaml"), "{description: One, parent: {metadata: {name: a}, spec: {replicas: three}}}")
	write(t, filepath.Join(folder, "one.answer.yaml"), "invalid: 'spec.replicas: must be of type integer, and is a string'\n")
	never := plugin
	never.Reconcile = func(*windlass.Request[little, struct{}]) (*windlass.Response[struct{}], error) {
		t.Error("the plugin is called")
		return &windlass.Response[struct{}]{}, nil
	}
	Golden(t, never, folder)
}
