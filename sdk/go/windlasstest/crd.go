package windlasstest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	windlass "windlass.dev/plugin"
	"windlass.dev/plugin/internal/jsondoc"
)

// CRD compares the CRD that follows from a plugin's types and its [windlass.CustomResource] with a file: the one that the plugin
// embeds. With UPDATE_EXPECT=1 it writes the file. An empty file is enough to begin.
//
// The description of a field is its comment. Its json tag is its name; it is required unless that tag has omitempty or omitzero,
// it is a pointer, or it has a default or the tag optional:"true"; in a status, slices and maps are optional too, as nil is left
// out. A pointer may be null. Other tags are keywords of the schema:
//
//	default:"8080"                    JSON, or the text itself for strings; {} for a struct has the defaults of its fields
//	minimum:"1" maximum:"65535"       also exclusiveMinimum, exclusiveMaximum, multipleOf
//	minLength:"1" maxLength:"63"      also minItems, maxItems, minProperties, maxProperties
//	pattern:"^[a-z]+$"
//	is:"dns-label"                    a name that users know, instead of a pattern: also dns-subdomain, image
//	enum:"Small,Large"                or a type with a method Enum() []string
//	format:"date-time"
//	listMapKeys:"name"                a list with one item for each name; listType:"set" is a list without duplicates
//	preserveUnknown:"true"
//	description:"…"                   instead of the comment
//
// A type with a method Rules() []windlass.Rule has CEL rules, and one with a method Schema() map[string]any has that schema.
func CRD[Spec, Status any](t testing.TB, plugin windlass.Plugin[Spec, Status], file string) {
	t.Helper()
	resource, isCustom := plugin.Parent.(windlass.CustomResource)
	if !isCustom {
		t.Fatal("the plugin's parent is not a windlass.CustomResource")
	}
	crd, err := crdOf[Spec, Status](resource, newGenerator())
	if err != nil {
		t.Fatal(err)
	}
	same(t, file, crd)
}

// ConfigSchema compares the JSON Schema of a type of configurations with a file: the one that the plugin embeds as
// ConfigSchema. With UPDATE_EXPECT=1 it writes the file. The tags of fields are those of [CRD].
func ConfigSchema[Config any](t testing.TB, file string) {
	t.Helper()
	of, err := newGenerator().of(reflect.TypeFor[Config]())
	if err != nil {
		t.Fatal(err)
	}
	same(t, file, of)
}

// same compares a file with a JSON document, or writes it.
func same(t testing.TB, file string, document any) {
	t.Helper()
	expected, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	actual, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if isSameJSON(expected, actual) {
		return
	}
	if !isUpdate() {
		t.Fatalf("%s is not what the types say. Write it with UPDATE_EXPECT=1 go test ./...", file)
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(document); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func isUpdate() bool {
	return os.Getenv("UPDATE_EXPECT") != ""
}

func isSameJSON(a, b []byte) bool {
	one, errOne := jsondoc.Tree(a)
	other, errOther := jsondoc.Tree(b)
	return errOne == nil && errOther == nil && reflect.DeepEqual(one, other)
}

// crdOf is the CRD of a custom resource.
func crdOf[Spec, Status any](resource windlass.CustomResource, generator *generator) (object, error) {
	spec, err := generator.of(reflect.TypeFor[Spec]())
	if err != nil {
		return nil, err
	}
	generator.isWritten = true
	status, err := generator.of(reflect.TypeFor[Status]())
	if err != nil {
		return nil, err
	}
	root := object{
		"type":       "object",
		"properties": object{"spec": spec, "status": withHostFields(status)},
	}
	// A spec without required fields is optional.
	if spec["required"] != nil {
		root["required"] = []string{"spec"}
	}
	if len(resource.Rules) > 0 {
		root["x-kubernetes-validations"] = rules(resource.Rules)
	}
	singular := strings.ToLower(resource.Kind)
	plural := resource.Plural
	if plural == "" {
		plural = pluralOf(singular)
	}
	names := object{"kind": resource.Kind, "listKind": resource.Kind + "List", "plural": plural, "singular": singular}
	if len(resource.ShortNames) > 0 {
		names["shortNames"] = resource.ShortNames
	}
	if len(resource.Categories) > 0 {
		names["categories"] = resource.Categories
	}
	scope := "Namespaced"
	if resource.ClusterScoped {
		scope = "Cluster"
	}
	return object{
		"apiVersion": "apiextensions.k8s.io/v1",
		"kind":       "CustomResourceDefinition",
		"metadata":   object{"name": plural + "." + resource.Group},
		"spec": object{
			"group": resource.Group,
			"names": names,
			"scope": scope,
			"versions": []object{{
				"name": resource.Version, "served": true, "storage": true,
				"subresources":             object{"status": object{}},
				"additionalPrinterColumns": columns(resource.Columns),
				"schema":                   object{"openAPIV3Schema": root},
			}},
		},
	}, nil
}

func columns(given []windlass.Column) []object {
	is := func(name string) func(windlass.Column) bool {
		return func(column windlass.Column) bool { return column.Name == name }
	}
	all := slices.Clone(given)
	if !slices.ContainsFunc(all, is("Ready")) {
		path := `.status.conditions[?(@.type=="Ready")].status`
		all = slices.Insert(all, 0, windlass.Column{Name: "Ready", Type: "string", Path: path})
	}
	if !slices.ContainsFunc(all, is("Age")) {
		all = append(all, windlass.Column{Name: "Age", Type: "date", Path: ".metadata.creationTimestamp"})
	}
	columns := make([]object, 0, len(all))
	for _, column := range all {
		columns = append(columns, object{"name": column.Name, "type": column.Type, "jsonPath": column.Path})
	}
	return columns
}

// withHostFields is the plugin's status and the host's. No field is required: after a failed first call, the status has only the
// host's fields.
func withHostFields(status object) object {
	status = maps.Clone(status)
	delete(status, "required")
	delete(status, "nullable")
	status["type"] = "object"
	properties, _ := status["properties"].(object)
	properties = maps.Clone(properties)
	if properties == nil {
		properties = object{}
	}
	generation := object{"type": "integer", "format": "int64", "minimum": 0}
	properties["observedGeneration"] = generation
	// With the bounds of metav1.Condition.
	properties["conditions"] = object{
		"type":                       "array",
		"x-kubernetes-list-type":     "map",
		"x-kubernetes-list-map-keys": []string{"type"},
		"items": object{
			"type":     "object",
			"required": []string{"lastTransitionTime", "message", "reason", "status", "type"},
			"properties": object{
				"type":               object{"type": "string", "maxLength": 316},
				"status":             object{"type": "string", "enum": []string{"True", "False", "Unknown"}},
				"observedGeneration": generation,
				"lastTransitionTime": moment(),
				"reason": object{
					"type": "string", "minLength": 1, "maxLength": 1024, "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
				},
				"message": object{"type": "string", "maxLength": 32768},
			},
		},
	}
	status["properties"] = properties
	return status
}

// pluralOf is the English plural of a kind.
func pluralOf(singular string) string {
	if stem, isY := strings.CutSuffix(singular, "y"); isY && !strings.HasSuffix(stem, "a") && !strings.HasSuffix(stem, "e") &&
		!strings.HasSuffix(stem, "o") && !strings.HasSuffix(stem, "u") {
		return stem + "ies"
	}
	for _, ending := range []string{"s", "x", "z", "o", "ch", "sh"} {
		if strings.HasSuffix(singular, ending) {
			return singular + "es"
		}
	}
	return singular + "s"
}
