// Package reading reads documents that users wrote, with errors that name the field.
package reading

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"windlass.dev/plugin/internal/defaults"
	"windlass.dev/plugin/internal/jsondoc"
	"windlass.dev/plugin/internal/problem"
)

// Read fills in the defaults of a document, and decodes it.
func Read(of *defaults.Schema, document []byte, root string, into any) error {
	document, err := of.Fill(document)
	if err != nil {
		return problem.At(root, "%w", err)
	}
	return Decode(document, root, into)
}

// Config reads a Plugin's spec.config; without one, {} is read.
func Config(configSchema, config []byte, into any) error {
	of, err := defaults.Parse(configSchema)
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
	if _, isMisuse := errors.AsType[*json.InvalidUnmarshalError](err); isMisuse || !json.Valid(document) {
		return problem.At(root, "%w", err)
	}
	of := reflect.TypeOf(into).Elem()
	wrong := narrow(culprit{"", document, err}, func(document string) error {
		return Unmarshal([]byte(document), reflect.New(of).Interface())
	})
	field := strings.Trim(root+wrong.path, ".")
	if mismatch, isMismatch := errors.AsType[*json.UnmarshalTypeError](wrong.err); isMismatch {
		return problem.At(field, "%s is not %s", jsondoc.Show(wrong.value), noun(mismatch.Type))
	}
	return problem.At(field, "%w", wrong.err)
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
