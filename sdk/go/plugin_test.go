package windlass_test

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	windlass "windlass.dev/plugin"
	"windlass.dev/plugin/contract"
	"windlass.dev/plugin/kinds"
	"windlass.dev/plugin/log"
	"windlass.dev/plugin/span"
	"windlass.dev/plugin/windlasstest"
)

type spec struct {
	// Desired number of Pods.
	Replicas int `json:"replicas" minimum:"0" maximum:"1000"`
	Ports    []struct {
		Name string `json:"name"`
	} `json:"ports,omitempty"`
	Large json.Number `json:"large,omitempty"`
	Whole int64       `json:"whole,omitempty"`
	Any   any         `json:"any,omitempty"`
	// Of a type with a method UnmarshalJSON.
	Memory   windlass.Quantity `json:"memory" optional:"true"`
	Backends []struct {
		Port windlass.IntOrString `json:"port"`
	} `json:"backends,omitempty"`
}

type status struct {
	Phase windlass.Phase `json:"phase"`
	Count int            `json:"count,omitempty"`
	Time  *string        `json:"time"`
}

func (s status) CurrentPhase() windlass.StatusPhase { return s.Phase }

type (
	request  = windlass.Request[spec, status]
	response = windlass.Response[status]
)

func plugin(reconcile func(*request) (*response, error)) windlass.Plugin[spec, status] {
	return windlass.Plugin[spec, status]{
		Name:         "test",
		Version:      "1.2.3",
		Description:  "Tests",
		Parent:       windlass.CustomResource{Group: "example.com", Version: "v1", Kind: "Test"},
		Children:     []windlass.ChildRule{{Kind: kinds.ConfigMap}, {Kind: kinds.PersistentVolumeClaim}, {Kind: kinds.Service}},
		Related:      []windlass.RelatedRule{{Kind: kinds.Pod}, {Kind: kinds.Secret}},
		Reconcile:    reconcile,
		ConfigSchema: []byte(`{"type": "object", "properties": {"zone": {"type": "string", "default": "a"}}}`),
	}
}

func call(reconcile func(*request) (*response, error), parent string) *windlasstest.Prepared {
	return windlasstest.Call(plugin(reconcile), windlasstest.YAML(parent))
}

const parent = `{apiVersion: example.com/v1, kind: Test, metadata: {name: web, namespace: shop, generation: 2, labels: {a: b}}, spec: {replicas: 2}}`

func TestRequestHasTheParentAndItsObjects(t *testing.T) {
	pod := func(name string) map[string]any {
		return windlasstest.YAML(fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: shop, annotations: {"a/b": c}}, spec: {big: 12345678901234567890}}`, name))
	}
	deleted := windlasstest.YAML(`{apiVersion: v1, kind: Service, metadata: {name: old, namespace: shop, deletionTimestamp: "2026-01-01T00:00:00Z"}, status: {conditions: [{type: Ready, status: "True", reason: Up}]}}`)
	_, err := call(func(r *request) (*response, error) {
		pods := r.Children(kinds.Pod)
		service := r.Child(kinds.Service, "old")
		var replicas int
		var anything any
		missing := r.Child(kinds.Secret, "none")
		related, isServed := r.Related("secrets")
		_, isOther := r.Related("other")
		for name, holds := range map[string]bool{
			"metadata": r.Name == "web" && r.Namespace == "shop" && r.UID == "uid" && r.Generation == 2 && r.Labels["a"] == "b",
			"spec":     r.Spec.Replicas == 2 && !r.IsFinalizing() && !r.IsSpecApplied() && r.Status() == nil,
			"children": len(pods) == 2 && pods[0].Name() == "a" && pods[1].Name() == "b" && pods[0].Namespace() == "shop",
			"map":      fmt.Sprint(pods[0].Map()["spec"]) == "map[big:12345678901234567890]",
			"any":      pods[0].Get("/spec", &anything) && fmt.Sprint(anything) == "map[big:12345678901234567890]",
			"text":     pods[0].Text("/metadata/annotations/a~1b") == "c" && !pods[0].Get("/metadata/name", &replicas),
			"deleted":  service.IsBeingDeleted() && !pods[0].IsBeingDeleted(),
			"condition": service.IsConditionTrue("Ready") && service.Condition("Ready").Reason == "Up" &&
				service.Condition("Other") == nil && !pods[0].IsConditionTrue("Ready"),
			"missing": missing == nil && missing.Name() == "" && missing.Text("/a") == "" && missing.Map() == nil &&
				!missing.IsConditionTrue("Ready") && missing.Read(nil) == nil && missing.Rollout() == windlass.Rollout{},
			"related": isServed && len(related) == 1 && related[0].Kind() == kinds.Secret && !isOther,
		} {
			if !holds {
				t.Errorf("%s is wrong", name)
			}
		}
		return &response{}, nil
	}, parent).
		Children(pod("b"), deleted, pod("a")).
		Related("secrets", windlasstest.YAML(`{apiVersion: v1, kind: Secret, metadata: {name: s}}`)).
		Run()
	if err != nil {
		t.Error(err)
	}
}

func TestSpecThatDoesNotFitItsTypesNamesTheField(t *testing.T) {
	for text, message := range map[string]string{
		`{"replicas": "three"}`:                               `spec.replicas: "three" is not a whole number of 64 bits`,
		`{"replicas": 1, "ports": [{"name": "a"}, "b"]}`:      `spec.ports[1]: "b" is not an object`,
		`{"replicas": 1, "whole": 9223372036854775808}`:       "spec.whole: 9223372036854775808 is not a whole number of 64 bits",
		`{"replicas": 1, "memory": "128MB"}`:                  `spec.memory: "128MB" is not a quantity like 100m, 2 or 128Mi`,
		`{"replicas": 1, "backends": [{"port": [{"a": 1}]}]}`: "spec.backends[0].port: a list is not a whole number or a string",
	} {
		// The host has checked the spec of a request; that of an existing kind, and of a clean-up, it has not.
		raw := contract.Request{Parent: []byte(`{"metadata": {"name": "a"}, "spec": ` + text + `}`)}
		_, failure := plugin(func(*request) (*response, error) { panic("not called") }).Contract().Reconcile(raw)
		if failure == nil || failure.Kind != contract.Invalid || failure.Field+": "+failure.Message != message {
			t.Errorf("%s: %+v", text, failure)
		}
	}
}

func TestNumbersStayExact(t *testing.T) {
	_, err := call(func(r *request) (*response, error) {
		if r.Spec.Large != "0.10000000000000000000001" || r.Spec.Whole != 9007199254740993 {
			t.Error(r.Spec)
		}
		return &response{}, nil
	}, `{metadata: {name: a}, spec: {replicas: 1, large: 0.10000000000000000000001, whole: 9007199254740993}}`).Run()
	if err != nil {
		t.Error(err)
	}
}

func TestSpecOfAnExistingKindIsReadWithoutSchema(t *testing.T) {
	existing := plugin(func(r *request) (*response, error) { return &response{}, nil })
	existing.Parent = windlass.Existing{Kind: kinds.Namespace, Selector: windlass.Selector{Labels: "a=b"}}
	run := func(spec string) error {
		_, err := windlasstest.Call(existing, windlasstest.YAML(`{metadata: {name: a}, spec: `+spec+`}`)).Run()
		return err
	}
	if err := run(`{}`); err != nil {
		t.Error(err)
	}
	err := run(`{replicas: 1, ports: [{name: a}, {name: 5}]}`)
	if !windlass.IsInvalid(err) || err.Error() != "spec.ports[1].name: 5 is not a string" {
		t.Error(err)
	}
	described := windlasstest.Describe(existing)
	if described.Parent.Existing == nil || described.Parent.Selector.Labels != "a=b" || described.Parent.CRD != nil {
		t.Error(described.Parent)
	}
}

func TestStatusOfAnotherTypeIsNone(t *testing.T) {
	for text, isStatus := range map[string]bool{`{phase: Running}`: true, `{count: x}`: false, `null`: false} {
		_, err := call(func(r *request) (*response, error) {
			if (r.Status() != nil) != isStatus {
				t.Errorf("%s: %v", text, r.Status())
			}
			return &response{}, nil
		}, `{metadata: {name: a}, spec: {replicas: 1}, status: `+text+`}`).Run()
		if err != nil {
			t.Error(err)
		}
	}
}

func TestSpecIsAppliedWhenTheGenerationIsObservedWithoutStall(t *testing.T) {
	for status, isApplied := range map[string]bool{
		`{}`:                      false,
		`{observedGeneration: 1}`: false,
		`{observedGeneration: 2}`: true,
		`{observedGeneration: 2, conditions: [{type: Stalled, status: "True"}]}`:                      false,
		`{observedGeneration: 2, conditions: [{type: Stalled, status: "False"}]}`:                     true,
		`{observedGeneration: 2, conditions: [{type: Stalled, status: "True", reason: ChildFailed}]}`: true,
	} {
		_, err := call(func(r *request) (*response, error) {
			if r.IsSpecApplied() != isApplied {
				t.Errorf("%s: %v", status, !isApplied)
			}
			return &response{}, nil
		}, `{metadata: {name: a, generation: 2}, spec: {replicas: 1}, status: `+status+`}`).Run()
		if err != nil {
			t.Error(err)
		}
	}
}

// typed is as a type of k8s.io/api: parts that are not pointers are never left out.
type typed struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name    string  `json:"name"`
		Created *string `json:"creationTimestamp"`
	} `json:"metadata"`
	Status struct {
		LoadBalancer struct{} `json:"loadBalancer"`
	} `json:"status"`
}

func TestResponseHasEverything(t *testing.T) {
	child := typed{APIVersion: "v1", Kind: "Service"}
	child.Metadata.Name = "web"
	text := windlass.Map{"apiVersion": "v1", "kind": "ConfigMap", "metadata": windlass.Map{"name": "text"}, "text": "<a> & b"}
	retain := windlass.ChildOptions{Stage: 2, Retain: true, TakeOver: true, Ready: new(false), Update: windlass.OnDelete}
	replace := windlass.ChildOptions{Once: "a", Replaces: windlass.ChildRef{Kind: kinds.Service, Namespace: "shop", Name: "old"}}
	answer, err := call(func(r *request) (*response, error) {
		volume := windlass.Map{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": windlass.Map{"name": "data"}, "none": nil}
		return &response{
			Children:   []any{windlass.ChildWith(child, replace), windlass.ChildWith(volume, retain), text},
			Keep:       windlass.Refs(r.Children(kinds.ConfigMap)),
			Waiting:    "for Godot",
			Status:     &status{Phase: windlass.PhaseRunning},
			Conditions: []windlass.Condition{{Type: "Ready", Status: windlass.True, Reason: "Up", Message: "is up"}},
			Requeue:    1500 * time.Millisecond,
			Events:     []windlass.Event{windlass.Normal("Scaled", "to %d", 2), windlass.Warning("Lost", "100%%")},
			Requirements: []windlass.Requirement{
				windlass.Named("a", kinds.Secret, "b"), windlass.Labelled("c", kinds.Pod, "e=f").InNamespaces("d"),
				windlass.Selected("g", kinds.Pod, windlass.Map{"matchLabels": windlass.Map{"h": "i"}}).InAllNamespaces().MetadataOnly(),
			},
		}, nil
	}, parent).Children(windlasstest.YAML(`{apiVersion: v1, kind: ConfigMap, metadata: {name: old, namespace: shop}}`)).Run()
	if err != nil {
		t.Fatal(err)
	}
	expected := []map[string]any{
		windlasstest.YAML(`{apiVersion: v1, kind: Service, metadata: {name: web}}`),
		windlasstest.YAML(`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}}`),
		windlasstest.YAML(`{apiVersion: v1, kind: ConfigMap, metadata: {name: text}, text: "<a> & b"}`),
	}
	if !reflect.DeepEqual(answer.Children, expected) {
		t.Errorf("children: %v", answer.Children)
	}
	if answer.Child(kinds.Service, "web") == nil || answer.Child(kinds.Pod, "web") != nil {
		t.Error("Child finds another")
	}
	if expected := windlasstest.YAML(`{phase: Running, conditions: [{type: Ready, status: "True", reason: Up, message: is up}]}`); !reflect.DeepEqual(answer.Status, expected) {
		t.Errorf("status: %v", answer.Status)
	}
	events := []windlass.Event{{Reason: "Scaled", Message: "to 2"}, {Warning: true, Reason: "Lost", Message: "100%"}}
	requirements := []contract.Requirement{
		{ID: "a", Kind: kinds.Secret, Select: contract.Selection{Text: "b"}},
		{ID: "c", Kind: kinds.Pod, Namespaces: []string{"d"}, Select: contract.Selection{By: contract.ByLabels, Text: "e=f"}},
		{
			ID: "g", Kind: kinds.Pod, AllNamespaces: true, MetadataOnly: true,
			Select: contract.Selection{By: contract.ByLabelSelector, LabelSelector: []byte(`{"matchLabels":{"h":"i"}}`)},
		},
	}
	if !reflect.DeepEqual(answer.Options, []windlass.ChildOptions{replace, retain, {}}) {
		t.Errorf("options: %+v", answer.Options)
	}
	kept := []windlass.ChildRef{{Kind: kinds.ConfigMap, Namespace: "shop", Name: "old"}}
	if !reflect.DeepEqual(answer.Keep, kept) || answer.KeepAll || answer.Waiting != "for Godot" {
		t.Errorf("%+v", answer)
	}
	if answer.Requeue != 1500*time.Millisecond || answer.Finalized || !reflect.DeepEqual(answer.Events, events) ||
		!reflect.DeepEqual(answer.Requirements, requirements) {
		t.Errorf("%+v", answer)
	}
}

func TestErrorsBecomeFailures(t *testing.T) {
	cause := errors.New("no route")
	_, noFile := os.ReadFile("testdata/no-such-file")
	_, notEmbedded := embed.FS{}.ReadFile("template.yaml")
	noRoute := &net.OpError{Op: "dial", Net: "tcp", Err: cause}
	for _, one := range []struct {
		response *response
		err      error
		failure  contract.Failure
	}{
		{nil, windlass.Invalid("spec.replicas", "is %d", 5), contract.Failure{Kind: contract.Invalid, Field: "spec.replicas", Message: "is 5"}},
		{nil, windlass.Invalid("", "no %s", "name"), contract.Failure{Kind: contract.Invalid, Message: "no name"}},
		{nil, windlass.Failed("lost: %w", cause), contract.Failure{Kind: contract.Failed, Message: "lost: no route"}},
		{nil, cause, contract.Failure{Kind: contract.Failed, Message: "no route"}},
		{nil, fmt.Errorf("zone: %w", windlass.Invalid("spec.a", "b")), contract.Failure{Kind: contract.Invalid, Message: "zone: spec.a: b"}},
		{nil, nil, contract.Failure{Kind: contract.Failed, Message: "the plugin returned neither a response nor an error"}},
		{nil, errors.New("unknown time zone Mars/Base"), contract.Failure{
			Kind: contract.Failed, Message: `unknown time zone Mars/Base: a component has time zones if the plugin imports _ "time/tzdata"`,
		}},
		{nil, noFile, contract.Failure{Kind: contract.Failed, Message: noFile.Error() + ": a plugin has no network and no files"}},
		{nil, notEmbedded, contract.Failure{Kind: contract.Failed, Message: "open template.yaml: file does not exist"}},
		{nil, windlass.Invalid("spec.host", "%w", noRoute), contract.Failure{
			Kind: contract.Invalid, Field: "spec.host", Message: "dial tcp: no route: a plugin has no network and no files",
		}},
		{nil, syscall.EBADF, contract.Failure{Kind: contract.Failed, Message: syscall.EBADF.Error() + ": a plugin has no network and no files"}},
		{&response{Children: []any{func() {}}}, nil, contract.Failure{Kind: contract.Failed, Message: "child 0: json: unsupported type: func()"}},
	} {
		raw := call(nil, parent).Request()
		_, failure := plugin(func(*request) (*response, error) { return one.response, one.err }).Contract().Reconcile(raw)
		if failure == nil || *failure != one.failure {
			t.Errorf("%v: %+v", one.err, failure)
		}
	}
	if !errors.Is(windlass.Failed("lost: %w", cause), cause) {
		t.Error("a failure does not wrap its cause")
	}
}

func TestPanicGivesItsMessageAndPlaceAndLogsItsStack(t *testing.T) {
	var none *response
	_, calls, err := call(func(*request) (*response, error) { return none, fmt.Errorf("%d", none.Requeue) }, parent).RunRaw()
	if _, isFailure := errors.AsType[*windlass.Failure](err); !isFailure || windlass.IsInvalid(err) {
		t.Fatal(err)
	}
	message, place, _ := strings.Cut(err.Error(), " (at ")
	if !strings.HasPrefix(message, "panic: runtime error: invalid memory address") || !strings.Contains(place, "TestPanicGivesItsMessageAndPlaceAndLogsItsStack") ||
		!strings.Contains(place, "plugin_test.go:") || strings.Contains(place, "\n") {
		t.Error(err)
	}
	if len(calls.Logs) != 1 || calls.Logs[0].Level != "error" || calls.Logs[0].Message != message || !strings.Contains(calls.Logs[0].Fields["stack"], "plugin_test.go:") {
		t.Errorf("%+v", calls.Logs)
	}
}

func TestConfigHasDefaultsAndOneThatDoesNotFitItsTypeNamesTheField(t *testing.T) {
	var config struct {
		Zone string `json:"zone"`
	}
	read := func(r *request) (*response, error) { return &response{}, r.Config(&config) }
	if _, err := call(read, parent).Run(); err != nil || config.Zone != "a" {
		t.Error(err, config)
	}
	if _, err := call(read, parent).Config(map[string]string{"zone": "b"}).Run(); err != nil || config.Zone != "b" {
		t.Error(err, config)
	}
	raw := call(read, parent).Config(map[string]int{"zone": 5}).Request()
	_, failure := plugin(read).Contract().Reconcile(raw)
	if failure == nil || *failure != (contract.Failure{Kind: contract.Failed, Message: "the Plugin's spec.config.zone: 5 is not a string"}) {
		t.Errorf("%+v", failure)
	}
}

func TestPhaseIsWrittenWithAllThatFollowsFromIt(t *testing.T) {
	reconcile := func(r *request) (*response, error) {
		now := status{Phase: windlass.PhaseRunning, Count: r.Spec.Replicas}
		if r.Spec.Replicas == 0 {
			now.Phase = windlass.PhaseFailed
		}
		now.Time = windlass.LastChange(r, now, func(s *status) **string { return &s.Time })
		answer := &response{}
		windlass.SetPhase(answer, r, now, "message")
		return answer, nil
	}
	run := func(replicas int, before string) *windlasstest.Response {
		answer, err := call(reconcile, fmt.Sprintf(`{metadata: {name: a}, spec: {replicas: %d}, status: %s}`, replicas, before)).Run()
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	const now, old = "2026-01-01T00:00:00Z", "2020-01-01T00:00:00Z"
	first := run(1, "null")
	if len(first.Events) != 0 || first.Status["time"] != now || first.Requeue != 0 {
		t.Errorf("%+v", first)
	}
	if event := run(1, `{observedGeneration: 1, conditions: [{type: Ready, status: "False"}]}`).Events; len(event) != 0 {
		t.Errorf("an event about the first status after a failure: %+v", event)
	}
	same := run(1, fmt.Sprintf(`{phase: Running, count: 1, time: "%s"}`, old))
	if same.Status["time"] != old || len(same.Events) != 0 {
		t.Errorf("%+v", same)
	}
	failed := run(0, fmt.Sprintf(`{phase: Running, count: 0, time: "%s"}`, old))
	warning := []windlass.Event{{Warning: true, Reason: "Failed", Message: "message"}}
	if failed.Status["time"] != now || failed.Requeue != windlass.RequeueFailed || !reflect.DeepEqual(failed.Events, warning) {
		t.Errorf("%+v", failed)
	}
}

func TestTimeOfTheLastChangeStaysWhileTheStatusIsTheSameDocument(t *testing.T) {
	type timed struct {
		Names []string  `json:"names,omitempty"`
		Nodes []string  `json:"nodes"`
		Any   any       `json:"any"`
		Since time.Time `json:"since"`
		Time  *string   `json:"time"`
	}
	steady := windlass.Plugin[struct{}, timed]{
		Name:    "steady",
		Version: "1.2.3",
		Parent:  windlass.Existing{Kind: kinds.ConfigMap},
		Reconcile: func(r *windlass.Request[struct{}, timed]) (*windlass.Response[timed], error) {
			status := timed{
				Names: []string{}, Any: struct {
					B, A any
				}{1, 0.5},
				Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600)),
			}
			status.Time = windlass.LastChange(r, status, func(s *timed) **string { return &s.Time })
			return &windlass.Response[timed]{Status: &status}, nil
		},
	}
	parent := windlasstest.YAML(`{metadata: {name: a}}`)
	for year := 2026; year < 2028; year++ {
		answer, err := windlasstest.Call(steady, parent).At(time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)).Run()
		if err != nil || answer.Status["time"] != "2026-01-01T00:00:00Z" {
			t.Error(err, answer)
		}
		parent["status"] = answer.Status
	}
}

func TestRolloutsAreThoseThatEverySDKSees(t *testing.T) {
	file, err := os.ReadFile("../../host/conformance/rollouts.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Description string
		Object      json.RawMessage
		Rollout     struct {
			Desired, Replicas, Updated, Ready, Available uint32
			IsOutdated                                   bool
			State, Failure                               string
		}
	}
	if err := json.Unmarshal(file, &cases); err != nil || len(cases) == 0 {
		t.Fatal(err, len(cases))
	}
	states := map[string]windlass.RolloutState{
		"Progressing": windlass.RolloutProgressing, "Complete": windlass.RolloutComplete, "Failed": windlass.RolloutFailed,
	}
	for _, one := range cases {
		var seen windlass.Rollout
		object := windlasstest.YAML(string(one.Object))
		_, err := call(func(r *request) (*response, error) {
			for _, kind := range []windlass.Kind{kinds.Deployment, kinds.StatefulSet, kinds.DaemonSet} {
				for _, live := range r.Children(kind) {
					seen = live.Rollout()
				}
			}
			return &response{}, nil
		}, parent).Children(object).Run()
		expected := windlass.Rollout{
			Desired: one.Rollout.Desired, Replicas: one.Rollout.Replicas, Updated: one.Rollout.Updated, Ready: one.Rollout.Ready,
			Available: one.Rollout.Available, IsOutdated: one.Rollout.IsOutdated, State: states[one.Rollout.State], Failure: one.Rollout.Failure,
		}
		if err != nil || seen != expected {
			t.Errorf("%s: %+v %v", one.Description, seen, err)
		}
	}
	failed := windlass.Rollout{Ready: 2, State: windlass.RolloutFailed, Failure: "quota"}
	if failed.Message(3) != "2/3 replicas ready: quota" || (windlass.Rollout{}).Message(3) != "0/3 replicas ready" {
		t.Error(failed.Message(3))
	}
	if none := (*windlass.Object)(nil).Rollout(); none != (windlass.Rollout{}) {
		t.Error(none)
	}
}

func TestHostGetsLogsSpansAndMeasurements(t *testing.T) {
	answer, err := call(func(r *request) (*response, error) {
		log.Info("scaled", "to", 2, "ports", []int{1}, "alone")
		log.Warn("slow")
		span.Attribute("pods", 3)
		span.Event("seen", "pod", "a")
		windlass.Measure("pods", 2.5, "zone", "a")
		return &response{}, errors.Join()
	}, parent).Run()
	expected := windlasstest.HostCalls{
		Logs: []windlasstest.LogLine{
			{Level: "info", Message: "scaled", Fields: map[string]string{"to": "2", "ports": "[1]", "!BADKEY": "alone"}},
			{Level: "warn", Message: "slow", Fields: map[string]string{}},
		},
		Measurements:   []windlasstest.Measurement{{Metric: "pods", Value: 2.5, Labels: map[string]string{"zone": "a"}}},
		SpanAttributes: map[string]string{"pods": "3"},
		SpanEvents:     []string{"seen"},
	}
	if err != nil || !reflect.DeepEqual(answer.HostCalls, expected) {
		t.Errorf("%v %+v", err, answer)
	}
}

func TestTimeAndRandomBytesAreThoseOfTheTest(t *testing.T) {
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	read := func(r *request) (*response, error) {
		text := fmt.Sprintf("%s %x", windlass.Timestamp(windlass.Now()), windlass.RandomBytes(3))
		child := windlass.Map{"apiVersion": "v1", "kind": "ConfigMap", "metadata": windlass.Map{"name": "a"}, "text": text}
		return &response{Children: []any{child}}, nil
	}
	for expected, prepared := range map[string]*windlasstest.Prepared{
		"2030-01-02T03:04:05Z 010203": call(read, parent).At(at).Random([]byte{1, 2, 3, 4}),
		"2026-01-01T00:00:00Z 00972e": call(read, parent),
	} {
		for range 2 {
			if answer, err := prepared.Run(); err != nil || answer.Children[0]["text"] != expected {
				t.Error(err, answer)
			}
		}
	}
}

func TestSpecOfOtherTypesFailsACleanUpOnlyIfItReadsTheSpec(t *testing.T) {
	type unread = windlass.Request[windlass.Unread[spec], status]
	for name, finalize := range map[string]func(*unread) (*response, error){
		"by the name": func(r *unread) (*response, error) {
			return &response{Events: []windlass.Event{windlass.Normal("Gone", "%s", r.Name)}, Finalized: r.IsFinalizing()}, nil
		},
		"by the spec": func(r *unread) (*response, error) {
			read, err := windlass.ReadSpec(r)
			if err != nil {
				return nil, err
			}
			return &response{Finalized: read.Spec.Replicas == 2}, nil
		},
		"by Reconcile": nil,
	} {
		cleaner := plugin(func(r *request) (*response, error) { return &response{Finalized: r.Spec.Replicas == 2}, nil })
		cleaner.Finalizes, cleaner.Finalize = true, finalize
		run := func(spec string) (*windlasstest.Response, error) {
			return windlasstest.Call(cleaner, windlasstest.YAML(`{metadata: {name: web}, spec: `+spec+`}`)).Finalize().Run()
		}
		if answer, err := run(`{replicas: 2}`); err != nil || !answer.Finalized {
			t.Errorf("%s: %v", name, err)
		}
		answer, err := run(`{replicas: two}`)
		if name == "by the name" {
			if err != nil || !answer.Finalized || answer.Events[0].Message != "web" {
				t.Errorf("%s: %v", name, err)
			}
		} else if !windlass.IsInvalid(err) || err.Error() != `spec.replicas: "two" is not a whole number of 64 bits` {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPluginWithAFinalizeThatIsNeverCalledIsRefused(t *testing.T) {
	defer func() {
		if cause := recover(); cause != "the plugin has Finalize, which is never called: set Finalizes" {
			t.Error(cause)
		}
	}()
	cleaner := plugin(func(*request) (*response, error) { return nil, nil })
	cleaner.Finalize = func(*windlass.Request[windlass.Unread[spec], status]) (*response, error) { return nil, nil }
	cleaner.Contract()
}
