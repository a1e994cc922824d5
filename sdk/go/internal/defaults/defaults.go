// Package defaults fills in the defaults of a schema. The host does so for the parent of a call; what else has a schema, a
// Plugin's configuration above all, gets its defaults here.
package defaults

import (
	"encoding/json"
	"fmt"
	"strconv"

	"windlass.dev/plugin/internal/jsondoc"
)

// Schema is the part of a structural schema that says what a missing field is.
type Schema struct {
	Nullable             bool               `json:"nullable"`
	Default              json.RawMessage    `json:"default"`
	Items                *Schema            `json:"items"`
	Properties           map[string]*Schema `json:"properties"`
	AdditionalProperties *Schema            `json:"additionalProperties"`
}

// OfCRD reads the schema of the spec from a CRD: that of the stored version. It is nil if the CRD has none.
func OfCRD(crd []byte) (*Schema, error) {
	versions := jsondoc.At(crd, "/spec/versions")
	for index := 0; ; index++ {
		version := jsondoc.At(versions, "/"+strconv.Itoa(index))
		if version == nil {
			return nil, nil
		}
		if string(jsondoc.At(version, "/storage")) == "true" {
			return Parse(jsondoc.At(version, "/schema/openAPIV3Schema/properties/spec"))
		}
	}
}

// Parse reads a schema. It is nil if there is no text.
func Parse(text []byte) (*Schema, error) {
	if text == nil {
		return nil, nil
	}
	schema := new(Schema)
	if err := json.Unmarshal(text, schema); err != nil {
		return nil, fmt.Errorf("the schema: %w", err)
	}
	return schema, nil
}

// Fill returns a document with the defaults of its missing fields. Null in a field that is not nullable counts as missing, as for
// the API server. A document that lacks nothing stays as it is written. A nil schema has no defaults.
func (s *Schema) Fill(document []byte) ([]byte, error) {
	value, err := jsondoc.Tree(document)
	if err != nil || !s.fill(value) {
		return document, err
	}
	return jsondoc.Encode(value)
}

// fill tells whether it changed the value.
func (s *Schema) fill(value any) (isChanged bool) {
	if s == nil {
		return false
	}
	switch value := value.(type) {
	case []any:
		for _, item := range value {
			isChanged = s.Items.fill(item) || isChanged
		}
	case map[string]any:
		for name, property := range s.Properties {
			isChanged = property.complete(value, name) || isChanged
		}
		for name, field := range value {
			if s.Properties[name] == nil {
				isChanged = s.AdditionalProperties.fill(field) || isChanged
			}
		}
	}
	return isChanged
}

// complete fills in a field of this schema.
func (s *Schema) complete(fields map[string]any, name string) (isChanged bool) {
	value, isGiven := fields[name]
	if isGiven && value == nil && !s.Nullable {
		delete(fields, name)
		isChanged, isGiven = true, false
	}
	if !isGiven && s.Default != nil {
		value, _ = jsondoc.Tree(s.Default) // It is part of a document that was parsed.
		fields[name] = value
		isChanged, isGiven = true, true
	}
	return isGiven && s.fill(value) || isChanged
}
