package windlasstest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// YAML parses an object, for tests. It panics if the text is not an object in YAML.
func YAML(text string) map[string]any {
	value, err := parseYAML([]byte(text))
	if err != nil {
		panic(err)
	}
	fields, isObject := value.(map[string]any)
	if !isObject {
		panic(fmt.Sprintf("%q is not an object", text))
	}
	return fields
}

// parseYAML parses a document as JSON would be: numbers are json.Number, and a time is text.
func parseYAML(text []byte) (any, error) {
	var node yaml.Node
	if err := yaml.Unmarshal(text, &node); err != nil {
		return nil, err
	}
	if len(node.Content) == 0 {
		return nil, nil
	}
	return valueOf(node.Content[0])
}

func valueOf(node *yaml.Node) (any, error) {
	switch node.Kind {
	case yaml.AliasNode:
		return valueOf(node.Alias)
	case yaml.SequenceNode:
		items := make([]any, 0, len(node.Content))
		for _, item := range node.Content {
			value, err := valueOf(item)
			if err != nil {
				return nil, err
			}
			items = append(items, value)
		}
		return items, nil
	case yaml.MappingNode:
		fields := make(map[string]any, len(node.Content)/2)
		for index := 0; index < len(node.Content); index += 2 {
			value, err := valueOf(node.Content[index+1])
			if err != nil {
				return nil, err
			}
			fields[node.Content[index].Value] = value
		}
		return fields, nil
	}
	switch node.ShortTag() {
	case "!!null":
		return nil, nil
	case "!!bool":
		return strings.EqualFold(node.Value, "true"), nil
	case "!!int":
		if json.Valid([]byte(node.Value)) {
			return json.Number(node.Value), nil
		}
		whole, err := strconv.ParseInt(strings.ReplaceAll(node.Value, "_", ""), 0, 64)
		return json.Number(strconv.FormatInt(whole, 10)), err
	case "!!float":
		if json.Valid([]byte(node.Value)) {
			return json.Number(node.Value), nil
		}
		number, err := strconv.ParseFloat(strings.ReplaceAll(node.Value, "_", ""), 64)
		if err != nil || math.IsInf(number, 0) || math.IsNaN(number) {
			return nil, fmt.Errorf("line %d: %s is not a number of JSON", node.Line, node.Value)
		}
		return json.Number(strconv.FormatFloat(number, 'g', -1, 64)), nil
	}
	return node.Value, nil
}

// formatYAML writes a document for review.
func formatYAML(value any) ([]byte, error) {
	document, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	// JSON is YAML. Read as a node, it keeps its numbers.
	var node yaml.Node
	if err := yaml.Unmarshal(document, &node); err != nil {
		return nil, err
	}
	plain(&node)
	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	if err := encoder.Encode(&node); err != nil {
		return nil, err
	}
	return text.Bytes(), encoder.Close()
}

// plain removes the style of JSON. Text that would be read as another type keeps its quotes.
func plain(node *yaml.Node) {
	if node.Kind != yaml.ScalarNode {
		node.Style = 0
	} else if node.Style == yaml.DoubleQuotedStyle {
		bare := yaml.Node{Kind: yaml.ScalarNode, Value: node.Value}
		if bare.ShortTag() == "!!str" {
			node.Style = 0
		}
	}
	for _, inner := range node.Content {
		plain(inner)
	}
}
