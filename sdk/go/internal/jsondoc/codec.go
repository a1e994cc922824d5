package jsondoc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
)

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

// Show is a value as a message quotes it.
func Show(document []byte) string {
	switch text := strings.TrimSpace(string(document)); {
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
