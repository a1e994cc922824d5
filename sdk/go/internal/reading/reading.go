// Package reading reads documents that users wrote, with errors that name the field.
package reading

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"windlass.dev/plugin/internal/jsondoc"
	"windlass.dev/plugin/internal/schema"
)

// Read checks a document, fills in its defaults, and decodes it.
func Read(of *schema.Schema, document []byte, root string, into any) (err error) {
	if of != nil {
		if document, err = of.Complete(document, root); err != nil {
			return err
		}
	}
	return Decode(document, root, into)
}

// Config reads a Plugin's spec.config; without one, {} is read.
func Config(configSchema, config []byte, into any) error {
	of, err := schema.Parse(configSchema)
	if err != nil {
		return fmt.Errorf("ConfigSchema: %w", err)
	}
	if config == nil {
		config = []byte("{}")
	}
	return Read(of, config, "the Plugin's spec.config", into)
}

// Unmarshal reads valid JSON as json.Unmarshal does, except that a number in a value of type any is a json.Number: a float64 would
// lose digits.
func Unmarshal(document []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	return decoder.Decode(into)
}

// Decode reads JSON that a user wrote. The error is a message for users that names the field, below root.
func Decode(document []byte, root string, into any) error {
	err := Unmarshal(document, into)
	if err == nil {
		return nil
	}
	mismatch, isMismatch := errors.AsType[*json.UnmarshalTypeError](err)
	if !isMismatch {
		return schema.At(root, "%w", err)
	}
	field, value := jsondoc.Locate(document, int(mismatch.Offset))
	field = strings.Trim(root+"."+field, ".")
	return schema.At(field, "%s is not %s", quote(value), noun(mismatch.Type))
}

// quote shows a JSON value in a message.
func quote(value []byte) string {
	switch text := strings.TrimSpace(string(value)); {
	case strings.HasPrefix(text, "{"):
		return "an object"
	case strings.HasPrefix(text, "["):
		return "a list"
	case len(text) > 100:
		return "a long text"
	default:
		return text
	}
}

// noun names a type of Go for users.
func noun(of reflect.Type) string {
	switch kind := of.Kind(); {
	case kind >= reflect.Int && kind <= reflect.Int64:
		return fmt.Sprintf("a whole number of %d bits", of.Bits())
	case kind >= reflect.Uint && kind <= reflect.Uint64:
		return fmt.Sprintf("a whole number from 0 of %d bits", of.Bits())
	case kind == reflect.Float32 || kind == reflect.Float64:
		return "a number"
	case kind == reflect.Bool:
		return "a boolean"
	case kind == reflect.String:
		return "a string"
	case kind == reflect.Slice || kind == reflect.Array:
		return "a list"
	}
	return "an object"
}
