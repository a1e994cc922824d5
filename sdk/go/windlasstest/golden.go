package windlasstest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	windlass "windlass.dev/plugin"
	"windlass.dev/plugin/contract"
	"windlass.dev/plugin/internal/schema"
)

// Option is an option of [Golden].
type Option uint8

// Shared is for a folder of cases that plugins in several languages share. Each language phrases an invalid value differently,
// so of an invalid response only the field is compared. Expected responses are not written, not even with UPDATE_EXPECT=1.
const Shared Option = 1

// caseFile is a request.
type caseFile struct {
	parent   any
	children []any
	related  map[string]any
	config   any
	finalize bool
	at       string
}

// Golden calls the plugin with every case of a folder, each in a test of its own. It compares the responses with the expected
// ones, and checks that a second call has the same response.
//
// scale-up.yaml is a request: a parent and what exists.
//
//	description: The second Pod is missing
//	parent: {metadata: {name: web}, spec: {replicas: 2, image: nginx}}
//	children:                       # live ones; optional, as related (by requirement), config, finalize and at (the time)
//	  - {apiVersion: v1, kind: Pod, metadata: {name: web-0}}
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
			response := call.document()
			if again := call.document(); !reflect.DeepEqual(response, again) {
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
	fields, isObject := value.(map[string]any)
	if !isObject {
		return nil, errors.New("is not an object")
	}
	content := caseFile{}
	for name, value := range fields {
		isFit := true
		switch name {
		case "description":
			_, isFit = value.(string)
		case "parent":
			content.parent = value
		case "children":
			content.children, isFit = value.([]any)
		case "related":
			content.related, isFit = value.(map[string]any)
		case "config":
			content.config = value
		case "finalize":
			content.finalize, isFit = value.(bool)
		case "at":
			content.at, isFit = value.(string)
		default:
			return nil, fmt.Errorf("unknown field %q", name)
		}
		if !isFit {
			return nil, fmt.Errorf("%s is of another type", name)
		}
	}
	if content.parent == nil {
		return nil, errors.New("has no parent")
	}
	// `windlass test` and the other SDKs require it too, and the same files serve all of them.
	if fields["description"] == nil {
		return nil, errors.New("has no description")
	}
	call := Call(plugin, content.parent).Children(content.children...)
	// In the order of the requirements' ids.
	for _, id := range sortedKeys(content.related) {
		objects, isList := content.related[id].([]any)
		if !isList {
			return nil, fmt.Errorf("related.%s is not a list", id)
		}
		call.Related(id, objects...)
	}
	if content.config != nil {
		call.Config(content.config)
	}
	if content.finalize {
		call.Finalize()
	}
	if content.at != "" {
		at, err := time.Parse(time.RFC3339, content.at)
		if err != nil {
			return nil, err
		}
		call.At(at)
	}
	return call, nil
}

func sortedKeys(fields map[string]any) []string {
	keys := make([]string, 0, len(fields))
	for key := range fields {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
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

// document is the response of a call for review, without empty fields.
func (p *Prepared) document() map[string]any {
	fields := map[string]any{}
	put := func(name string, value any) {
		if of := reflect.ValueOf(value); !of.IsZero() && (of.Kind() != reflect.Slice && of.Kind() != reflect.Map || of.Len() > 0) {
			fields[name] = value
		}
	}
	raw, failure, calls := p.RunRaw()
	switch {
	case failure == nil:
		put("children", list(raw.Children, func(child []byte) any { return parsed(child) }))
		if raw.Status != nil {
			put("status", parsed(raw.Status))
		}
		if raw.Requeue != nil {
			put("requeueMs", *raw.Requeue)
		}
		put("events", list(raw.Events, eventOf))
		put("requirements", list(raw.Requirements, requirementOf))
		put("finalized", raw.Finalized)
		put("logs", list(calls.Logs, func(line LogLine) any { return line.Message }))
		put("spanAttributes", calls.SpanAttributes)
		put("spanEvents", calls.SpanEvents)
		put("measurements", list(calls.Measurements, func(one Measurement) any {
			return map[string]any{"metric": one.Metric, "value": one.Value, "labels": one.Labels}
		}))
	case failure.Kind == contract.Invalid:
		put("invalid", failure.Message)
	case failure.Kind == contract.Retry:
		put("retry", map[string]any{"message": failure.Message, "afterMs": failure.After})
	default:
		put("failed", failure.Message)
	}
	document, err := schema.Encode(fields)
	if err != nil {
		panic(err)
	}
	return parsed(document)
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
	fields := map[string]any{"id": one.ID, "apiVersion": one.Kind.APIVersion, "kind": one.Kind.Name}
	if one.ByLabels {
		fields["labels"] = one.Labels
	} else {
		fields["name"] = one.Name
	}
	if one.Namespace != "" {
		fields["namespace"] = one.Namespace
	}
	return fields
}
