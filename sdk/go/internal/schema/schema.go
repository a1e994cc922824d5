// Package schema checks JSON against the schema of a CRD, and fills in its defaults. The API server does the same when an
// object is written; but an object may be older than the schema, and a golden case never was on an API server.
package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"windlass.dev/plugin/internal/jsondoc"
)

// Quantity is the pattern of a quantity (resource.Quantity), as controller-gen writes it.
const Quantity = `^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]+))?$`

// Schema is the part of a structural schema that is checked.
type Schema struct {
	Type                 string             `json:"type"`
	Format               string             `json:"format"`
	Nullable             bool               `json:"nullable"`
	Default              json.RawMessage    `json:"default"`
	Enum                 []json.RawMessage  `json:"enum"`
	Minimum              json.Number        `json:"minimum"`
	Maximum              json.Number        `json:"maximum"`
	ExclusiveMinimum     bool               `json:"exclusiveMinimum"`
	ExclusiveMaximum     bool               `json:"exclusiveMaximum"`
	MinLength            *int               `json:"minLength"`
	MaxLength            *int               `json:"maxLength"`
	Pattern              string             `json:"pattern"`
	MinItems             *int               `json:"minItems"`
	MaxItems             *int               `json:"maxItems"`
	MinProperties        *int               `json:"minProperties"`
	MaxProperties        *int               `json:"maxProperties"`
	Items                *Schema            `json:"items"`
	Properties           map[string]*Schema `json:"properties"`
	AdditionalProperties *Schema            `json:"additionalProperties"`
	Required             []string           `json:"required"`
	IntOrString          bool               `json:"x-kubernetes-int-or-string"`
	ListType             string             `json:"x-kubernetes-list-type"`
	ListMapKeys          []string           `json:"x-kubernetes-list-map-keys"`
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

// Complete checks a document, and returns it with its defaults. The error names the field, below root.
func (s *Schema) Complete(document []byte, root string) ([]byte, error) {
	value, err := Tree(document)
	if err != nil {
		return nil, At(root, "%w", err)
	}
	check := check{}
	value, err = check.value(s, value, root)
	if err != nil || !check.isChanged {
		return document, err
	}
	return Encode(value)
}

// Tree parses a document. Numbers stay as they are written.
func Tree(document []byte) (value any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, fmt.Errorf("invalid JSON: more than one value")
	}
	return value, nil
}

// buffers are reused: a response has many children, and a component collects no garbage.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// Encode writes a document. Unlike json.Marshal it keeps <, > and &.
func Encode(value any) ([]byte, error) {
	text := buffers.Get().(*bytes.Buffer)
	defer buffers.Put(text)
	text.Reset()
	encoder := json.NewEncoder(text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.Clone(bytes.TrimSuffix(text.Bytes(), []byte("\n"))), nil
}

type check struct {
	// isChanged: a default was filled in, or a null dropped.
	isChanged bool
}

func (c *check) value(s *Schema, value any, path string) (any, error) {
	if s == nil {
		return value, nil
	}
	if value == nil {
		if s.Nullable || s.Type == "" && !s.IntOrString {
			return nil, nil
		}
		return nil, At(path, "is required")
	}
	if len(s.Enum) > 0 && !slices.ContainsFunc(s.Enum, func(one json.RawMessage) bool { return shown(one) == Show(value) }) {
		values := make([]string, 0, len(s.Enum))
		for _, one := range s.Enum {
			values = append(values, shown(one))
		}
		return nil, At(path, "%s is not one of %s", Show(value), strings.Join(values, ", "))
	}
	switch value := value.(type) {
	case json.Number:
		return value, s.number(value, path)
	case string:
		return value, s.text(value, path)
	case bool:
		if s.Type != "" && s.Type != "boolean" || s.IntOrString {
			return nil, s.mismatch(value, path)
		}
		return value, nil
	case []any:
		if s.Type != "" && s.Type != "array" || s.IntOrString {
			return nil, s.mismatch(value, path)
		}
		return value, c.items(s, value, path)
	case map[string]any:
		if s.Type != "" && s.Type != "object" || s.IntOrString {
			return nil, s.mismatch(value, path)
		}
		return value, c.fields(s, value, path)
	}
	return value, nil
}

// Show is a value as a message quotes it.
func Show(value any) string {
	switch value := value.(type) {
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	case json.Number:
		return value.String()
	case nil:
		return "null"
	}
	text, _ := Encode(value) // A string or a bool can be encoded.
	return string(text)
}

// shown is a value of the schema as [Show] quotes it: the text of a schema may have escapes.
func shown(document json.RawMessage) string {
	value, _ := Tree(document) // It is part of a document that was parsed.
	return Show(value)
}

func (s *Schema) mismatch(value any, path string) error {
	expected := "a " + s.Type
	switch {
	case s.Pattern == Quantity:
		expected = noun(Quantity)
	case s.IntOrString:
		expected = "a whole number or a string"
	case s.Type == "integer":
		expected = "a whole number"
	case s.Type == "array":
		expected = "a list"
	case s.Type == "object":
		expected = "an object"
	}
	return At(path, "%s is not %s", Show(value), expected)
}

func (s *Schema) number(value json.Number, path string) error {
	whole, err := value.Int64()
	isWhole := err == nil
	isInteger := !strings.ContainsAny(value.String(), ".eE")
	switch {
	case (s.Type == "integer" || s.IntOrString) && !isInteger, s.Type != "" && s.Type != "integer" && s.Type != "number":
		return s.mismatch(value, path)
	case s.Type == "integer" && s.Format == "int32" && s.Minimum == "" && s.Maximum == "" && (!isWhole || whole != int64(int32(whole))):
		return At(path, "%s is not between %d and %d", value, math.MinInt32, math.MaxInt32)
	}
	below := s.Minimum != "" && (less(value, s.Minimum) || s.ExclusiveMinimum && !less(s.Minimum, value))
	above := s.Maximum != "" && (less(s.Maximum, value) || s.ExclusiveMaximum && !less(value, s.Maximum))
	switch {
	case !below && !above && s.Type == "integer" && !isWhole:
		return At(path, "%s is not between %d and %d", value, math.MinInt64, math.MaxInt64)
	case !below && !above:
		return nil
	case s.Minimum != "" && s.Maximum != "" && !s.ExclusiveMinimum && !s.ExclusiveMaximum:
		return At(path, "%s is not between %s and %s", value, s.Minimum, s.Maximum)
	case below && s.ExclusiveMinimum:
		return At(path, "%s is not more than %s", value, s.Minimum)
	case below:
		return At(path, "%s is less than %s", value, s.Minimum)
	case s.ExclusiveMaximum:
		return At(path, "%s is not less than %s", value, s.Maximum)
	}
	return At(path, "%s is more than %s", value, s.Maximum)
}

// less compares whole numbers exactly, and others as floating point numbers.
func less(a, b json.Number) bool {
	one, errOne := a.Int64()
	other, errOther := b.Int64()
	if errOne == nil && errOther == nil {
		return one < other
	}
	x, _ := a.Float64() // Beyond the range it is infinite, which is right here.
	y, _ := b.Float64()
	return x < y
}

func (s *Schema) text(value, path string) error {
	if s.Type != "" && s.Type != "string" {
		return s.mismatch(value, path)
	}
	if s.Pattern != "" {
		pattern, err := compilePattern(s.Pattern)
		// Syntax beyond that of package schema is left to the API server.
		if err == nil && !pattern.matches(value) {
			if noun := noun(s.Pattern); noun != "" {
				return At(path, "%s is not %s", Show(value), noun)
			}
			return At(path, "%s does not match %s", Show(value), s.Pattern)
		}
	}
	return count(utf8.RuneCountInString(value), s.MinLength, s.MaxLength, "characters", path)
}

func count(number int, least, most *int, unit, path string) error {
	if least != nil && number < *least {
		if *least == 1 {
			return At(path, "is empty")
		}
		return At(path, "has %d %s, less than %d", number, unit, *least)
	}
	if most != nil && number > *most {
		return At(path, "has %d %s, more than %d", number, unit, *most)
	}
	return nil
}

func (c *check) items(s *Schema, items []any, path string) error {
	if err := count(len(items), s.MinItems, s.MaxItems, "items", path); err != nil {
		return err
	}
	seen := map[string]bool{}
	for index, item := range items {
		path := path + "[" + strconv.Itoa(index) + "]"
		item, err := c.value(s.Items, item, path)
		if err != nil {
			return err
		}
		items[index] = item
		if s.ListType != "set" && s.ListType != "map" {
			continue
		}
		key, at := identity(s, item)
		if seen[key] {
			return At(path+at, "%s is given twice", key)
		}
		seen[key] = true
	}
	return nil
}

// identity is what no two items of a list may have in common, and the name of its field.
func identity(s *Schema, item any) (key, field string) {
	if s.ListType == "set" {
		return Show(item), ""
	}
	fields, _ := item.(map[string]any)
	var keys []string
	for _, name := range s.ListMapKeys {
		keys = append(keys, Show(fields[name]))
	}
	if len(keys) == 1 {
		field = "." + s.ListMapKeys[0]
	}
	return strings.Join(keys, ", "), field
}

func (c *check) fields(s *Schema, fields map[string]any, path string) error {
	if err := count(len(fields), s.MinProperties, s.MaxProperties, "fields", path); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		property := s.Properties[name]
		value, isGiven := fields[name]
		if isGiven && value == nil && !property.Nullable && property.Type+property.Format != "" {
			// The API server drops such a null too.
			delete(fields, name)
			c.isChanged, isGiven = true, false
		}
		if !isGiven && property.Default != nil {
			var err error
			if value, err = Tree(property.Default); err != nil {
				return At(path+"."+name, "the default: %w", err)
			}
			c.isChanged, isGiven = true, true
		}
		if !isGiven {
			if slices.Contains(s.Required, name) {
				return At(path+"."+name, "is required")
			}
			continue
		}
		value, err := c.value(property, value, path+"."+name)
		if err != nil {
			return err
		}
		fields[name] = value
	}
	if s.AdditionalProperties == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if s.Properties[name] != nil {
			continue
		}
		value, err := c.value(s.AdditionalProperties, fields[name], path+"."+name)
		if err != nil {
			return err
		}
		fields[name] = value
	}
	return nil
}
