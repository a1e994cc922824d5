package windlasstest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	windlass "windlass.dev/plugin"
	"windlass.dev/plugin/contract"
)

// Option is an option of [Golden].
type Option uint8

// Shared is for a folder of cases that plugins in several languages share. Each language phrases differently what the plugin itself
// refuses, so of an invalid response only the field is compared. Expected responses are not written, not even with UPDATE_EXPECT=1.
const Shared Option = 1

// caseFile is a request.
type caseFile struct {
	Description          string
	Parent               any
	Children             []any
	Related              map[string][]any
	Config               any
	Finalize             bool
	Cause                windlass.FinalizeCause
	NamespaceTerminating bool
	Kinds                []windlass.Kind
	ClosedNamespaces     []string
	At                   time.Time
}

// Golden calls the plugin with every case of a folder, each in a test of its own. It compares the responses with the expected
// ones, and checks that a second call has the same response.
//
// scale-up.yaml is a request: a parent and what exists.
//
//	description: The second Pod is missing
//	parent: {metadata: {name: web}, spec: {replicas: 2, image: nginx}}
//	children:                       # live ones; optional, as all that follows
//	  - {apiVersion: v1, kind: Pod, metadata: {name: web-0}}
//	related: {}                     # lists of objects, by requirement
//	config: {}
//	finalize: true
//	cause: deleted                  # or leftSelector, leftNamespaces
//	namespaceTerminating: true
//	kinds:                          # optional kinds that exist; by default, all do
//	  - {apiVersion: v1, kind: Pod}
//	closedNamespaces: [kube-system]
//	at: "2026-01-01T00:00:00Z"      # the time
//
// scale-up.answer.yaml is the response. With UPDATE_EXPECT=1 the test writes it, for review. A relative folder is one of the
// package's. The test fails if the folder has no case, if a file cannot be read, and if a response has no request.
func Golden[Spec, Status any](t *testing.T, plugin windlass.Plugin[Spec, Status], folder string, options ...Option) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	cases := 0
	for _, file := range files {
		base, isResponse := strings.CutSuffix(file, ".answer.yaml")
		if isResponse {
			if !slices.Contains(files, base+".yaml") {
				t.Errorf("%s has no request", file)
			}
			continue
		}
		cases++
		base = strings.TrimSuffix(file, ".yaml")
		t.Run(filepath.Base(base), func(t *testing.T) {
			call, err := readCase(plugin, file)
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			raw, calls, err := call.RunRaw()
			if _, isFailure := errors.AsType[*windlass.Failure](err); err != nil && !isFailure {
				t.Fatal(err)
			}
			response := document(raw, calls, err)
			raw, calls, err = call.call()
			if again := document(raw, calls, err); !reflect.DeepEqual(response, again) {
				t.Fatalf("the same request has two responses:\n%s\n%s", show(response), show(again))
			}
			compare(t, base+".answer.yaml", response, slices.Contains(options, Shared))
		})
	}
	if cases == 0 {
		t.Fatalf("%s has no cases", folder)
	}
}

func readCase[Spec, Status any](plugin windlass.Plugin[Spec, Status], file string) (*Prepared, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	value, err := parseYAML(text)
	if err != nil {
		return nil, err
	}
	content := caseFile{}
	decoder := json.NewDecoder(bytes.NewReader(encode(value)))
	decoder.UseNumber()
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&content); err != nil {
		return nil, err
	}
	// `windlass test` and the other SDKs require both, and the same files serve all of them.
	if content.Parent == nil || content.Description == "" {
		return nil, errors.New("has no parent, or no description")
	}
	call := Call(plugin, content.Parent).Children(content.Children...).ClosedNamespaces(content.ClosedNamespaces...)
	// In the order of the requirements' ids.
	for _, id := range slices.Sorted(maps.Keys(content.Related)) {
		call.Related(id, content.Related[id]...)
	}
	if content.Config != nil {
		call.Config(content.Config)
	}
	if content.Kinds != nil {
		call.Kinds(content.Kinds...)
	}
	if content.Finalize {
		cause := cmp.Or(content.Cause, windlass.Deleted)
		if !slices.Contains([]windlass.FinalizeCause{windlass.Deleted, windlass.LeftSelector, windlass.LeftNamespaces}, cause) {
			return nil, fmt.Errorf("%q is not a cause", cause)
		}
		call.request.Finalizing = &contract.Finalizing{Cause: cause, NamespaceTerminating: content.NamespaceTerminating}
	}
	if !content.At.IsZero() {
		call.At(content.At)
	}
	return call, nil
}

func compare(t *testing.T, file string, response map[string]any, isShared bool) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil && !(errors.Is(err, fs.ErrNotExist) && isUpdate() && !isShared) {
		t.Fatalf("%v (UPDATE_EXPECT=1 go test ./... writes it)", err)
	}
	var expected any
	if err == nil {
		if expected, err = parseYAML(text); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	if isShared {
		onlyField(expected)
		onlyField(response)
	}
	if reflect.DeepEqual(expected, any(response)) {
		return
	}
	if isUpdate() && !isShared {
		if err := os.WriteFile(file, []byte(show(response)), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("the response is not that of %s:\n%s\nexpected:\n%s", filepath.Base(file), show(response), show(expected))
}

// onlyField reduces an invalid response to the field.
func onlyField(response any) {
	if fields, isObject := response.(map[string]any); isObject {
		if message, isInvalid := fields["invalid"].(string); isInvalid {
			fields["invalid"], _, _ = strings.Cut(message, ": ")
		}
	}
}

func show(response any) string {
	text, err := formatYAML(response)
	if err != nil {
		return fmt.Sprint(response)
	}
	return string(text)
}

// document is the response or the failure of a call for review, without empty fields.
func document(raw contract.Response, calls HostCalls, failure error) map[string]any {
	fields := map[string]any{}
	switch {
	case failure == nil:
		fields = responseOf(raw)
		if !slices.ContainsFunc(raw.Children, func(child contract.DesiredChild) bool { return len(optionsOf(child)) > 0 }) {
			delete(fields, "options")
		}
		fields["logs"] = list(calls.Logs, func(line LogLine) any { return line.Message })
		fields["spanAttributes"] = calls.SpanAttributes
		fields["spanEvents"] = calls.SpanEvents
		fields["measurements"] = list(calls.Measurements, func(one Measurement) any {
			return map[string]any{"metric": one.Metric, "value": one.Value, "labels": one.Labels}
		})
	case windlass.IsInvalid(failure):
		fields["invalid"] = failure.Error()
	default:
		fields["failed"] = failure.Error()
	}
	maps.DeleteFunc(fields, func(_ string, value any) bool {
		of := reflect.ValueOf(value)
		return of.IsZero() || (of.Kind() == reflect.Slice || of.Kind() == reflect.Map) && of.Len() == 0
	})
	return mapOf(fields)
}

// responseOf is a response as golden cases have it.
func responseOf(raw contract.Response) map[string]any {
	fields := map[string]any{
		"children":     list(raw.Children, func(child contract.DesiredChild) any { return json.RawMessage(child.Object) }),
		"options":      list(raw.Children, func(child contract.DesiredChild) any { return optionsOf(child) }),
		"events":       list(raw.Events, eventOf),
		"requirements": list(raw.Requirements, requirementOf),
		"finalized":    raw.Finalized,
	}
	if raw.KeepAll {
		fields["keep"] = "all"
	} else if len(raw.Keep) > 0 {
		fields["keep"] = map[string]any{"these": list(raw.Keep, refOf)}
	}
	if raw.Waiting != "" {
		fields["waiting"] = raw.Waiting
	}
	if raw.Status != nil {
		fields["status"] = json.RawMessage(raw.Status)
	}
	if raw.Requeue != nil {
		fields["requeueMs"] = *raw.Requeue
	}
	if raw.RequeueAt != nil {
		fields["requeueAtMs"] = max(*raw.RequeueAt, 1) // As the host reads it.
	}
	return fields
}

func list[T any](of []T, each func(T) any) []any {
	all := make([]any, 0, len(of))
	for _, one := range of {
		all = append(all, each(one))
	}
	return all
}

func eventOf(event windlass.Event) any {
	kind := "Normal"
	if event.Warning {
		kind = "Warning"
	}
	return map[string]any{"type": kind, "reason": event.Reason, "message": event.Message}
}

func requirementOf(one contract.Requirement) any {
	fields := kindFields(one.Kind)
	fields["id"] = one.ID
	switch one.Select.By {
	case contract.ByName:
		fields["name"] = one.Select.Text
	case contract.ByLabels:
		fields["labels"] = one.Select.Text
	case contract.ByLabelSelector:
		fields["labels"] = selectorText(one.Select.LabelSelector)
	}
	switch {
	case one.AllNamespaces:
		fields["namespaces"] = "all"
	case len(one.Namespaces) == 1:
		fields["namespace"] = one.Namespaces[0]
	case len(one.Namespaces) > 1:
		fields["namespaces"] = one.Namespaces
	}
	if one.MetadataOnly {
		fields["metadataOnly"] = true
	}
	return fields
}

// selectorText is a LabelSelector in kubectl's syntax, as the host writes it.
func selectorText(document []byte) string {
	var selector struct {
		MatchLabels      map[string]string
		MatchExpressions []struct {
			Key, Operator string
			Values        []string
		}
	}
	if err := json.Unmarshal(document, &selector); err != nil {
		panic(fmt.Sprintf("%s is not a LabelSelector: %v", document, err))
	}
	var terms []string
	for _, key := range slices.Sorted(maps.Keys(selector.MatchLabels)) {
		terms = append(terms, key+" in ("+selector.MatchLabels[key]+")")
	}
	for _, one := range selector.MatchExpressions {
		switch one.Operator {
		case "Exists":
			terms = append(terms, one.Key)
		case "DoesNotExist":
			terms = append(terms, "!"+one.Key)
		default:
			terms = append(terms, one.Key+" "+strings.ToLower(one.Operator)+" ("+strings.Join(one.Values, ",")+")")
		}
	}
	return strings.Join(terms, ",")
}

// optionsOf are the options of a child that are not the default.
func optionsOf(child contract.DesiredChild) map[string]any {
	fields := map[string]any{}
	if child.Stage != 0 {
		fields["stage"] = child.Stage
	}
	if child.Retain {
		fields["retain"] = true
	}
	if child.TakeOver {
		fields["takeOver"] = true
	}
	if child.Ready != nil {
		fields["ready"] = *child.Ready
	}
	if child.Update.Strategy != contract.Unset {
		fields["update"] = updateOf(child.Update)
	}
	if child.Once != "" {
		fields["once"] = child.Once
	}
	if child.Replaces != (windlass.ChildRef{}) {
		fields["replaces"] = refOf(child.Replaces)
	}
	return fields
}

func updateOf(strategy windlass.UpdateStrategy) any {
	switch {
	case strategy.Strategy != contract.Rolling:
		return [...]string{contract.Apply: "apply", contract.Recreate: "recreate", contract.OnDelete: "onDelete"}[strategy.Strategy]
	case len(strategy.Conditions) == 0:
		return map[string]any{"rolling": map[string]any{"recreate": strategy.RollingRecreate, "until": "ready"}}
	}
	until := map[string]any{"conditions": strategy.Conditions}
	return map[string]any{"rolling": map[string]any{"recreate": strategy.RollingRecreate, "until": until}}
}

func refOf(child windlass.ChildRef) any {
	fields := kindFields(child.Kind)
	fields["name"] = child.Name
	if child.Namespace != "" {
		fields["namespace"] = child.Namespace
	}
	return fields
}

func kindFields(kind windlass.Kind) map[string]any {
	return map[string]any{"apiVersion": kind.APIVersion, "kind": kind.Kind}
}
