package defaults

import (
	"testing"
)

const spec = `{
	"type": "object",
	"required": ["replicas"],
	"properties": {
		"replicas": {"type": "integer", "minimum": 1},
		"text": {"type": "string"},
		"mode": {"type": "string", "enum": ["Fast", "Slow"], "default": "Fast"},
		"maybe": {"type": "string", "nullable": true},
		"list": {"type": "array", "items": {"type": "object", "properties": {"value": {"type": "string", "default": ""}}}},
		"byName": {"type": "object", "additionalProperties": {"type": "object", "properties": {"size": {"default": 0.10}}}},
		"nested": {"type": "object", "default": {}, "properties": {"cpu": {"type": "string", "default": "100m"}}},
		"any": {"x-kubernetes-preserve-unknown-fields": true}
	}
}`

func TestDefaultsAreFilledInAndTheRestStays(t *testing.T) {
	of, err := Parse([]byte(spec))
	if err != nil {
		t.Fatal(err)
	}
	for document, expected := range map[string]string{
		`{"replicas": 0}`: `{"mode":"Fast","nested":{"cpu":"100m"},"replicas":0}`,
		`{"unknown": 12345678901234567890.10, "list": [{"name": "a"}], "any": {"x": null}}`: `{"any":{"x":null},` +
			`"list":[{"name":"a","value":""}],"mode":"Fast","nested":{"cpu":"100m"},"unknown":12345678901234567890.10}`,
		`{"maybe": null, "text": null, "mode": null}`:             `{"maybe":null,"mode":"Fast","nested":{"cpu":"100m"}}`,
		`{"byName": {"a": {}}, "mode": "<Slow>", "nested": "no"}`: `{"byName":{"a":{"size":0.10}},"mode":"<Slow>","nested":"no"}`,
		`[]`: `[]`,
		`{ "replicas": 1, "mode": "Slow", "nested": {"cpu": "1"} }`: `{ "replicas": 1, "mode": "Slow", "nested": {"cpu": "1"} }`,
	} {
		if filled, err := of.Fill([]byte(document)); err != nil || string(filled) != expected {
			t.Errorf("%s: %s (%v), expected %s", document, filled, err, expected)
		}
	}
	if filled, err := (*Schema)(nil).Fill([]byte(`{"a": null}`)); err != nil || string(filled) != `{"a": null}` {
		t.Errorf("without a schema: %s (%v)", filled, err)
	}
}

func TestSchemaOfTheStoredVersionIsFound(t *testing.T) {
	crd := `{"spec":{"versions":[{"name":"v1","storage":false},{"name":"v2","storage":true,"schema":{"openAPIV3Schema":{"properties":{"spec":{"default":5}}}}}]}}`
	of, err := OfCRD([]byte(crd))
	if err != nil || of == nil || string(of.Default) != "5" {
		t.Error(of, err)
	}
	if of, err := OfCRD([]byte("{}")); of != nil || err != nil {
		t.Error(of, err)
	}
}
