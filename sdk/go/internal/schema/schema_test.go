package schema

import (
	"testing"
)

func parse(t *testing.T, text string) *Schema {
	t.Helper()
	of, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return of
}

const spec = `{
	"type": "object",
	"required": ["replicas"],
	"properties": {
		"replicas": {"type": "integer", "format": "int64", "minimum": 0, "maximum": 1000},
		"small": {"type": "integer", "format": "int32"},
		"ratio": {"type": "number", "minimum": 0, "exclusiveMinimum": true},
		"text": {"type": "string", "minLength": 1, "maxLength": 5, "pattern": "^[a-z]+$"},
		"image": {"type": "string", "minLength": 1, "pattern": "^\\S+$"},
		"mode": {"type": "string", "enum": ["Fast", "Slow"], "default": "Fast"},
		"isOn": {"type": "boolean"},
		"amount": {"x-kubernetes-int-or-string": true, "maxLength": 64, "pattern": "^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?[0-9]+))?$"},
		"maybe": {"type": "string", "nullable": true},
		"list": {"type": "array", "maxItems": 3, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": {
			"type": "object", "required": ["name"], "properties": {
				"name": {"type": "string"}, "value": {"type": "string", "default": ""}
			}
		}},
		"set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
		"labels": {"type": "object", "additionalProperties": {"type": "string"}},
		"nested": {"type": "object", "default": {}, "properties": {"cpu": {"type": "string", "default": "100m"}}},
		"any": {"x-kubernetes-preserve-unknown-fields": true}
	}
}`

func TestViolationNamesTheField(t *testing.T) {
	for document, message := range map[string]string{
		`{}`:                                                      "spec.replicas: is required",
		`{"replicas": null}`:                                      "spec.replicas: is required",
		`{"replicas": "three"}`:                                   `spec.replicas: "three" is not a whole number`,
		`{"replicas": 1.5}`:                                       "spec.replicas: 1.5 is not a whole number",
		`{"replicas": true}`:                                      "spec.replicas: true is not a whole number",
		`{"replicas": {}}`:                                        "spec.replicas: an object is not a whole number",
		`{"replicas": 1001}`:                                      "spec.replicas: 1001 is not between 0 and 1000",
		`{"replicas": -1}`:                                        "spec.replicas: -1 is not between 0 and 1000",
		`{"replicas": 99999999999999999999}`:                      "spec.replicas: 99999999999999999999 is not between 0 and 1000",
		`{"replicas": 1, "small": 2147483648}`:                    "spec.small: 2147483648 is not between -2147483648 and 2147483647",
		`{"replicas": 1, "ratio": 0}`:                             "spec.ratio: 0 is not more than 0",
		`{"replicas": 1, "ratio": "a"}`:                           `spec.ratio: "a" is not a number`,
		`{"replicas": 1, "text": ""}`:                             `spec.text: "" does not match ^[a-z]+$`,
		`{"replicas": 1, "text": "abcdef"}`:                       "spec.text: has 6 characters, more than 5",
		`{"replicas": 1, "text": 5}`:                              "spec.text: 5 is not a string",
		`{"replicas": 1, "image": "a b"}`:                         `spec.image: "a b" is not the name of an image`,
		`{"replicas": 1, "mode": "Other"}`:                        `spec.mode: "Other" is not one of "Fast", "Slow"`,
		`{"replicas": 1, "isOn": "yes"}`:                          `spec.isOn: "yes" is not a boolean`,
		`{"replicas": 1, "amount": "128MB"}`:                      `spec.amount: "128MB" is not a quantity like 100m, 2 or 128Mi`,
		`{"replicas": 1, "amount": []}`:                           "spec.amount: a list is not a quantity like 100m, 2 or 128Mi",
		`{"replicas": 1, "list": {}}`:                             "spec.list: an object is not a list",
		`{"replicas": 1, "list": ["a"]}`:                          `spec.list[0]: "a" is not an object`,
		`{"replicas": 1, "list": [{"name": "a"}, {}]}`:            "spec.list[1].name: is required",
		`{"replicas": 1, "list": [{"name": "a"}, {"name": "a"}]}`: `spec.list[1].name: "a" is given twice`,
		`{"replicas": 1, "set": ["a", "b", "a"]}`:                 `spec.set[2]: "a" is given twice`,
		`{"replicas": 1, "labels": {"a": "b", "c": 1}}`:           "spec.labels.c: 1 is not a string",
		`{"replicas": 1, "list": [{"name":"a"},{"name":"b"},{"name":"c"},{"name":"d"}]}`: "spec.list: has 4 items, more than 3",
		`{"replicas": 1, "nested": {"cpu": 1}}`:                                          "spec.nested.cpu: 1 is not a string",
		`[]`:                                                                             "spec: a list is not an object",
	} {
		if _, err := parse(t, spec).Complete([]byte(document), "spec"); err == nil || err.Error() != message {
			t.Errorf("%s: %v, expected %s", document, err, message)
		}
	}
}

func TestDefaultsAreFilledInAndTheRestStays(t *testing.T) {
	for document, expected := range map[string]string{
		`{"replicas": 1}`: `{"mode":"Fast","nested":{"cpu":"100m"},"replicas":1}`,
		`{"replicas": 1, "unknown": 12345678901234567890.10, "list": [{"name": "a"}], "any": {"x": null}, "maybe": null, "text": null, "mode": null}`: `{"any":{"x":null},"list":[{"name":"a","value":""}],"maybe":null,"mode":"Fast","nested":{"cpu":"100m"},` +
			`"replicas":1,"unknown":12345678901234567890.10}`,
		`{"replicas": 9, "amount": 5, "nested": {}, "mode": "Slow"}`: `{"amount":5,"mode":"Slow","nested":{"cpu":"100m"},"replicas":9}`,
	} {
		document, err := parse(t, spec).Complete([]byte(document), "spec")
		if err != nil || string(document) != expected {
			t.Errorf("%s (%v), expected %s", document, err, expected)
		}
	}
	whole := `{ "replicas": 1, "mode": "Slow", "nested": {"cpu": "1"} }`
	if document, err := parse(t, spec).Complete([]byte(whole), "spec"); err != nil || string(document) != whole {
		t.Errorf("a whole document is changed: %s (%v)", document, err)
	}
}

func TestSchemaOfTheStoredVersionIsFound(t *testing.T) {
	crd := `{"spec":{"versions":[{"name":"v1","storage":false},{"name":"v2","storage":true,"schema":{"openAPIV3Schema":{"properties":{"spec":{"type":"object"}}}}}]}}`
	of, err := OfCRD([]byte(crd))
	if err != nil || of == nil || of.Type != "object" {
		t.Error(of, err)
	}
	if of, err := OfCRD([]byte("{}")); of != nil || err != nil {
		t.Error(of, err)
	}
}
