package windlasstest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	windlass "windlass.dev/plugin"
	"windlass.dev/plugin/kinds"
)

// What a user asks for,
// on two lines.
//
// And a second paragraph.
type wide struct {
	inlined
	// A number.
	Small   int32  `json:"small" minimum:"1"`
	Long    int64  `json:"long,omitempty" exclusiveMaximum:"9"`
	Byte    uint8  `json:"byte,omitempty"`
	Natural uint32 `json:"natural" default:"5"`
	// Of two sizes.
	Size   string                     `json:"size" enum:"Small,Large" default:"Small"`
	Level  int                        `json:"level,omitempty" enum:"1,2"`
	Phase  windlass.Phase             `json:"phase,omitzero"`
	Ratio  *float64                   `json:"ratio"`
	Free   any                        `json:"free,omitempty"`
	Raw    json.RawMessage            `json:"raw,omitempty"`
	Number json.Number                `json:"number,omitempty"`
	Time   time.Time                  `json:"time,omitzero"`
	Port   windlass.IntOrString       `json:"port,omitzero"`
	Memory windlass.Quantity          `json:"memory" default:"1Gi"`
	Data   []byte                     `json:"data,omitempty"`
	Labels map[string]string          `json:"labels,omitempty" maxProperties:"3"`
	Items  map[string]json.RawMessage `json:"items,omitempty"`
	Names  []string                   `json:"names,omitempty" listType:"set" maxItems:"4"`
	Tree   *tree                      `json:"tree"`
	Host   string                     `json:"host" optional:"true" is:"dns-label" description:"From its tag."`
	Ruled  ruled                      `json:"ruled" default:"{}"`
	Own    own                        `json:"own,omitempty"`
	Hidden string                     `json:"-"`
	hidden string
}

type inlined struct {
	// From inside.
	Inside bool `json:"inside"`
}

type tree struct {
	Branches []tree `json:"branches,omitempty"`
}

type ruled struct {
	CPU windlass.Quantity `json:"cpu" default:"1"`
	Min int               `json:"min,omitempty"`
}

func (ruled) Rules() []windlass.Rule {
	return []windlass.Rule{windlass.Positive("cpu"), {Rule: "self.min < 5"}}
}

type own string

func (own) Schema() map[string]any { return map[string]any{"type": "string", "maxLength": 3} }

const expected = `
type: object
description: "What a user asks for, on two lines.\n\nAnd a second paragraph."
required: [inside, small]
properties:
  inside: {type: boolean, description: From inside.}
  small: {type: integer, format: int32, minimum: 1, description: A number.}
  long: {type: integer, format: int64, maximum: 9, exclusiveMaximum: true}
  byte: {type: integer, format: int32, minimum: 0, maximum: 255}
  natural: {type: integer, format: int64, minimum: 0, maximum: 4294967295, default: 5}
  size: {type: string, enum: [Small, Large], default: Small, description: Of two sizes.}
  level: {type: integer, format: int64, enum: [1, 2]}
  phase: {type: string, enum: [Pending, Running, Failed]}
  ratio: {type: number, nullable: true}
  free: {x-kubernetes-preserve-unknown-fields: true}
  raw: {x-kubernetes-preserve-unknown-fields: true}
  number: {type: number}
  time: {type: string, format: date-time}
  port: {x-kubernetes-int-or-string: true}
  memory:
    x-kubernetes-int-or-string: true
    maxLength: 64
    pattern: '^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]+))?$'
    default: 1Gi
  data: {type: string, format: byte}
  labels: {type: object, additionalProperties: {type: string}, maxProperties: 3}
  items: {type: object, x-kubernetes-preserve-unknown-fields: true}
  names: {type: array, items: {type: string}, x-kubernetes-list-type: set, maxItems: 4}
  tree:
    type: object
    nullable: true
    properties: {branches: {type: array, items: {x-kubernetes-preserve-unknown-fields: true}}}
  host: {type: string, maxLength: 63, pattern: '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$', description: From its tag.}
  ruled:
    type: object
    default: {cpu: "1"}
    properties:
      cpu:
        x-kubernetes-int-or-string: true
        maxLength: 64
        pattern: '^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]+))?$'
        default: "1"
      min: {type: integer, format: int64}
    x-kubernetes-validations:
      - {rule: "quantity(string(self.cpu)).isGreaterThan(quantity('0'))", message: cpu must be more than 0, fieldPath: .cpu}
      - {rule: self.min < 5}
  own: {type: string, maxLength: 3}
`

func TestEveryTypeHasItsSchema(t *testing.T) {
	of, err := newGenerator().of(reflect.TypeFor[wide]())
	if err != nil {
		t.Fatal(err)
	}
	all := YAML(expected)["properties"].(map[string]any)
	for name, schema := range parsed(encode(of))["properties"].(map[string]any) {
		if !reflect.DeepEqual(schema, all[name]) {
			t.Errorf("%s:\n%s\nexpected\n%s", name, show(schema), show(all[name]))
		}
	}
	if !isSameJSON(encode(of), encode(YAML(expected))) {
		t.Errorf("%s", show(of))
	}
}

type encoder struct{}

func (encoder) MarshalJSON() ([]byte, error) { return nil, nil }

func TestTypeWithoutSchemaIsAnError(t *testing.T) {
	for message, of := range map[string]reflect.Type{
		"needs a json tag": reflect.TypeFor[struct{ Name string }](),
		"must be strings":  reflect.TypeFor[map[int]string](),
		"has no JSON":      reflect.TypeFor[chan int](),
		"encodes itself":   reflect.TypeFor[encoder](),
		"is not a number": reflect.TypeFor[struct {
			A int `json:"a" minimum:"one"`
		}](),
		"missing closing": reflect.TypeFor[struct {
			A string `json:"a" pattern:"(a"`
		}](),
		"neither image": reflect.TypeFor[struct {
			A string `json:"a" is:"url"`
		}](),
		"default": reflect.TypeFor[struct {
			A int `json:"a" default:"one"`
		}](),
		"default: the value.b: 5 is not a string": reflect.TypeFor[struct {
			A struct {
				B string `json:"b"`
			} `json:"a" default:"{\"b\": 5}"`
		}](),
	} {
		if schema, err := newGenerator().of(of); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%s: %v %v", message, schema, err)
		}
	}
}

func TestFieldThatMayBeNilIsOptionalInAStatus(t *testing.T) {
	type inner struct {
		Names  []string          `json:"names"`
		Labels map[string]string `json:"labels"`
		Any    any               `json:"any"`
		Count  int               `json:"count"`
	}
	type outer struct {
		Inner inner `json:"inner"`
	}
	crd, err := crdOf[outer, outer](windlass.CustomResource{Kind: "Test"}, newGenerator())
	if err != nil {
		t.Fatal(err)
	}
	version := parsed(encode(crd))["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)
	properties := version["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)["properties"].(map[string]any)
	for name, expected := range map[string]any{
		"spec":   []any{"names", "labels", "any", "count"},
		"status": []any{"count"},
	} {
		inner := properties[name].(map[string]any)["properties"].(map[string]any)["inner"].(map[string]any)
		if required := inner["required"]; !reflect.DeepEqual(required, expected) {
			t.Errorf("%s: %v", name, required)
		}
	}
}

func TestEnumMayHaveCharactersOfHTML(t *testing.T) {
	type team struct {
		Team string `json:"team" enum:"R&D,<Q>" default:"<Q>"`
	}
	teams := windlass.Plugin[team, struct{}]{
		Name:     "test",
		Version:  "1.2.3",
		Parent:   windlass.CustomResource{Group: "example.com", Version: "v1", Kind: "Test"},
		Children: []windlass.ChildRule{{Kind: kinds.ConfigMap}},
		Reconcile: func(r *windlass.Request[team, struct{}]) (*windlass.Response[struct{}], error) {
			child := windlass.Map{"apiVersion": "v1", "kind": "ConfigMap", "metadata": windlass.Map{"name": "a"}, "team": r.Spec.Team}
			return &windlass.Response[struct{}]{Children: []any{child}}, nil
		},
	}
	for spec, expected := range map[string]string{`{team: R&D}`: "R&D", `{}`: "<Q>"} {
		response, err := Call(teams, YAML(`{metadata: {name: a}, spec: `+spec+`}`)).Run()
		if err != nil || response.Children[0]["team"] != expected {
			t.Error(spec, err, response)
		}
	}
	_, err := Call(teams, YAML(`{metadata: {name: a}, spec: {team: Q}}`)).Run()
	if err == nil || err.Error() != `spec.team: unsupported value "Q"; supported are "R&D", "<Q>"` {
		t.Error(err)
	}
}

func TestCRDHasWhatTheHostNeeds(t *testing.T) {
	resource := windlass.CustomResource{
		Group: "example.com", Version: "v1", Kind: "Policy", ClusterScoped: true, Categories: []string{"all"},
		Columns: []windlass.Column{{Name: "Ready", Type: "string", Path: ".a"}, {Name: "B", Type: "date", Path: ".b"}},
	}
	crd, err := crdOf[struct{}, struct{}](resource, newGenerator())
	if err != nil {
		t.Fatal(err)
	}
	got := parsed(encode(crd))
	spec := got["spec"].(map[string]any)
	version := spec["versions"].([]any)[0].(map[string]any)
	columns := YAML(`{all: [{name: Ready, type: string, jsonPath: .a}, {name: B, type: date, jsonPath: .b}, {name: Age, type: date, jsonPath: .metadata.creationTimestamp}]}`)["all"]
	names := YAML(`{kind: Policy, listKind: PolicyList, plural: policies, singular: policy, categories: [all]}`)
	schema := version["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
	if spec["scope"] != "Cluster" || !reflect.DeepEqual(spec["names"], any(names)) || !reflect.DeepEqual(version["additionalPrinterColumns"], columns) ||
		schema["required"] != nil || got["metadata"].(map[string]any)["name"] != "policies.example.com" {
		t.Error(show(got))
	}
	status := schema["properties"].(map[string]any)["status"].(map[string]any)["properties"].(map[string]any)
	if status["observedGeneration"] == nil || status["conditions"] == nil {
		t.Error(show(status))
	}
}

func TestPluralsAreEnglish(t *testing.T) {
	for singular, plural := range map[string]string{
		"echo": "echoes", "myapp": "myapps", "networkpolicy": "networkpolicies", "gateway": "gateways", "ingress": "ingresses",
		"index": "indexes", "switch": "switches", "mysqlcluster": "mysqlclusters",
	} {
		if pluralOf(singular) != plural {
			t.Errorf("%s: %s", singular, pluralOf(singular))
		}
	}
}

type little struct {
	Replicas int `json:"replicas"`
}

var plugin = windlass.Plugin[little, struct{}]{
	Name:     "test",
	Version:  "1.2.3",
	Parent:   windlass.CustomResource{Group: "example.com", Version: "v1", Kind: "Test"},
	Children: []windlass.ChildRule{{Kind: kinds.ConfigMap}},
	Reconcile: func(r *windlass.Request[little, struct{}]) (*windlass.Response[struct{}], error) {
		if r.IsFinalizing() {
			return windlass.Wait[struct{}](time.Second, "waits for the end (%s)", r.Cause()), nil
		}
		related, _ := r.Related("all")
		return &windlass.Response[struct{}]{Children: []any{
			configMap("a", windlass.Map{
				"replicas": r.Spec.Replicas, "version": "1.10", "related": len(related), "at": windlass.Timestamp(windlass.Now()),
			}),
		}}, nil
	},
}

func configMap(name string, data windlass.Map) windlass.Map {
	return windlass.Map{"apiVersion": "v1", "kind": "ConfigMap", "metadata": windlass.Map{"name": name}, "data": data}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestGoldenWritesResponsesAndThenComparesThem(t *testing.T) {
	folder := t.TempDir()
	write(t, filepath.Join(folder, "one.yaml"), `
description: One
parent: {metadata: {name: a}, spec: {replicas: 3}}
related: {all: [{apiVersion: v1, kind: Pod, metadata: {name: b}}]}
at: 2030-01-02T03:04:05Z
`)
	write(t, filepath.Join(folder, "two.yaml"), "{description: Two, parent: {metadata: {name: a}, spec: {replicas: 3}}, finalize: true, cause: leftSelector}")
	write(t, filepath.Join(folder, "three.yaml"), "{description: Three, parent: {metadata: {name: a}, spec: {}}}")
	t.Setenv("UPDATE_EXPECT", "1")
	Golden(t, plugin, folder)
	t.Setenv("UPDATE_EXPECT", "")
	Golden(t, plugin, folder)
	for name, expected := range map[string]string{
		"one": "children:\n  - apiVersion: v1\n    data:\n      at: \"2030-01-02T03:04:05Z\"\n      related: 1\n      replicas: 3\n" +
			"      version: \"1.10\"\n    kind: ConfigMap\n    metadata:\n      name: a\n",
		"two":   "keep: all\nrequeueMs: 1000\nwaiting: waits for the end (leftSelector)\n",
		"three": "invalid: 'spec.replicas: required, and missing'\n",
	} {
		if text, err := os.ReadFile(filepath.Join(folder, name+".answer.yaml")); err != nil || string(text) != expected {
			t.Errorf("%s (%v):\n%s", name, err, text)
		}
	}
	write(t, filepath.Join(folder, "three.answer.yaml"), "invalid: 'spec.replicas: in other words'\n")
	Golden(t, plugin, folder, Shared)
}

func TestGoldenWritesWhatTheHostDoesWithTheChildren(t *testing.T) {
	folder := t.TempDir()
	write(t, filepath.Join(folder, "one.yaml"), `
description: One
parent: {metadata: {name: a}, spec: {replicas: 3}}
children: [{apiVersion: v1, kind: ConfigMap, metadata: {name: kept}}, {apiVersion: v1, kind: ConfigMap, metadata: {name: old}}]
kinds: []
closedNamespaces: [kube-system]
at: 2030-01-02T03:04:05Z
`)
	child := func(name string, options windlass.ChildOptions) any {
		return windlass.ChildWith(windlass.Map{"apiVersion": "v1", "kind": "ConfigMap", "metadata": windlass.Map{"name": name}}, options)
	}
	whole := plugin
	whole.Clock = true
	whole.Children = []windlass.ChildRule{{Kind: kinds.ConfigMap}, {Kind: kinds.Ingress, Optional: true}}
	whole.Related = []windlass.RelatedRule{{Kind: kinds.Pod}}
	whole.Reconcile = func(r *windlass.Request[little, struct{}]) (*windlass.Response[struct{}], error) {
		live := windlass.Refs(r.Children(kinds.ConfigMap))
		selector := YAML(`{matchLabels: {app: web}, matchExpressions: [
			{key: zone, operator: In, values: [a, b]}, {key: old, operator: NotIn, values: ["yes"]},
			{key: kept, operator: Exists}, {key: gone, operator: DoesNotExist}]}`)
		response := &windlass.Response[struct{}]{
			Children: []any{
				configMap("a", windlass.Map{"closed": r.ClosedNamespaces(), "ingress": r.HasKind(kinds.Ingress)}),
				child("b", windlass.ChildOptions{Stage: 1, Retain: true, TakeOver: true, Ready: new(false), Update: windlass.Apply, Replaces: live[1]}),
				child("c", windlass.ChildOptions{Update: windlass.Rolling(), Once: "a"}),
				child("d", windlass.ChildOptions{Update: windlass.RollingRecreate("Ready")}),
			},
			Keep: live[:1],
			Requirements: []windlass.Requirement{
				windlass.Named("a", kinds.Pod, "b").InNamespaces("c"),
				windlass.Labelled("d", kinds.Pod, "").InNamespaces("e", "f"),
				windlass.Selected("g", kinds.Pod, selector).InAllNamespaces().MetadataOnly(),
			},
		}
		response.RequeueAt(r.Now())
		return response, nil
	}
	t.Setenv("UPDATE_EXPECT", "1")
	Golden(t, whole, folder)
	text, err := os.ReadFile(filepath.Join(folder, "one.answer.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	expected := `
children:
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {closed: [kube-system], ingress: false}}
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: b}}
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: c}}
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: d}}
options:
  - {}
  - {stage: 1, retain: true, takeOver: true, ready: false, update: apply, replaces: {apiVersion: v1, kind: ConfigMap, name: old}}
  - {update: {rolling: {recreate: false, until: ready}}, once: a}
  - {update: {rolling: {recreate: true, until: {conditions: [Ready]}}}}
keep: {these: [{apiVersion: v1, kind: ConfigMap, name: kept}]}
requeueAtMs: 1893553445000
requirements:
  - {id: a, apiVersion: v1, kind: Pod, namespace: c, name: b}
  - {id: d, apiVersion: v1, kind: Pod, namespaces: [e, f], labels: ""}
  - {id: g, apiVersion: v1, kind: Pod, namespaces: all, labels: "app in (web),zone in (a,b),old notin (yes),kept,!gone", metadataOnly: true}
`
	if !reflect.DeepEqual(YAML(string(text)), YAML(expected)) {
		t.Error(string(text))
	}
}

func TestCaseThatCannotBeReadIsAnErrorThatNamesTheField(t *testing.T) {
	file := filepath.Join(t.TempDir(), "case.yaml")
	for text, expected := range map[string]string{
		"{description: One}":                                          "has no parent",
		"{parent: {}}":                                                "no description",
		"{description: 1, parent: {}}":                                "Description of type string",
		"{description: One, parent: {}, kids: []}":                    `unknown field "kids"`,
		"{description: One, parent: {}, related: 5}":                  "Related of type map",
		"{description: One, parent: {}, finalize: true, cause: gone}": `"gone" is not a cause`,
	} {
		write(t, file, text)
		if _, err := readCase(plugin, file); err == nil || !strings.Contains(err.Error(), expected) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestFileOfTheCRDIsWrittenAndThenCompared(t *testing.T) {
	file := filepath.Join(t.TempDir(), "crd.json")
	write(t, file, "")
	t.Setenv("UPDATE_EXPECT", "1")
	CRD(t, plugin, file)
	ConfigSchema[little](t, file+".config")
	t.Setenv("UPDATE_EXPECT", "")
	CRD(t, plugin, file)
	text, err := os.ReadFile(file + ".config")
	if err != nil || !isSameJSON(text, []byte(`{"type": "object", "required": ["replicas"], "properties": {"replicas": {"type": "integer", "format": "int64"}}}`)) {
		t.Error(string(text), err)
	}
}
