package windlasstest

import (
	"encoding/json"
	"errors"
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
	one := child(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}}`)
	for message, response := range map[string]windlass.Response[struct{}]{
		"ConfigMap shop/b is twice in the response": {Children: []any{one, one}},
		`child "b" is of kind Pod.v1, which`:        {Children: []any{child(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b"}}`)}},
		"child 0 is not a Kubernetes object":        {Children: []any{5}},
		`"n" is of kind Node.v1`: {
			Requirements: []windlass.Requirement{windlass.Named("n", windlass.Kind{APIVersion: "v1", Kind: "Node"}, "b")},
		},
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
