package windlasstest

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	windlass "windlass.dev/plugin"
	"windlass.dev/plugin/internal/defaults"
	"windlass.dev/plugin/internal/jsondoc"
	"windlass.dev/plugin/internal/reading"
)

type object = map[string]any

const (
	preserve    = "x-kubernetes-preserve-unknown-fields"
	intOrString = "x-kubernetes-int-or-string"
)

// custom is a type with a schema of its own.
type custom interface {
	Schema() map[string]any
}

// enumeration is a type of strings with few values.
type enumeration interface {
	Enum() []string
}

// generator makes structural schemas of types.
type generator struct {
	packages map[string]map[string]*ast.TypeSpec
	docs     map[*ast.TypeSpec]string
	// withoutDocs: descriptions are not needed, and source is not read.
	withoutDocs bool
	// isWritten: the plugin writes values of the type. Nil is encoded as null, which is left out.
	isWritten bool
	// open are the types around the present one: a structural schema cannot be recursive.
	open []reflect.Type
}

func newGenerator() *generator {
	return &generator{packages: map[string]map[string]*ast.TypeSpec{}, docs: map[*ast.TypeSpec]string{}}
}

// known are the types of Kubernetes' modules that have methods of their own for JSON.
var known = map[string]func() object{
	"k8s.io/apimachinery/pkg/api/resource.Quantity":   quantity,
	"k8s.io/apimachinery/pkg/util/intstr.IntOrString": func() object { return object{intOrString: true} },
	"k8s.io/apimachinery/pkg/apis/meta/v1.Time":       moment,
	"k8s.io/apimachinery/pkg/apis/meta/v1.MicroTime":  moment,
	"k8s.io/apimachinery/pkg/apis/meta/v1.Duration":   func() object { return object{"type": "string"} },
	"windlass.dev/plugin.Quantity":                    quantity,
	"windlass.dev/plugin.IntOrString":                 func() object { return object{intOrString: true} },
	"time.Time":                                       moment,
	"encoding/json.Number":                            func() object { return object{"type": "number"} },
	"encoding/json.RawMessage":                        func() object { return object{preserve: true} },
}

// quantity is the schema that controller-gen writes. The API server estimates the cost of CEL rules by maxLength: without it, a
// rule on a list of quantities is rejected.
func quantity() object {
	return object{intOrString: true, "maxLength": 64, "pattern": quantityPattern}
}

func moment() object {
	return object{"type": "string", "format": "date-time"}
}

// of is the schema of a type.
func (g *generator) of(t reflect.Type) (object, error) {
	if make := known[t.PkgPath()+"."+t.Name()]; make != nil {
		return make(), nil
	}
	if t.Kind() == reflect.Pointer {
		of, err := g.of(t.Elem())
		if err == nil {
			of["nullable"] = true
		}
		return of, err
	}
	value := reflect.Zero(t).Interface()
	if custom, isCustom := value.(custom); isCustom {
		return custom.Schema(), nil
	}
	if enumeration, isEnumeration := value.(enumeration); isEnumeration {
		return object{"type": "string", "enum": enumeration.Enum()}, nil
	}
	if _, isEncoder := value.(json.Marshaler); isEncoder {
		return nil, fmt.Errorf("%s encodes itself: give it a method Schema() map[string]any", t)
	}
	switch t.Kind() {
	case reflect.Bool:
		return object{"type": "boolean"}, nil
	case reflect.String:
		return object{"type": "string"}, nil
	case reflect.Float32, reflect.Float64:
		return object{"type": "number"}, nil
	case reflect.Int, reflect.Int64:
		return object{"type": "integer", "format": "int64"}, nil
	case reflect.Int32:
		return object{"type": "integer", "format": "int32"}, nil
	case reflect.Int8:
		return object{"type": "integer", "format": "int32", "minimum": -128, "maximum": 127}, nil
	case reflect.Int16:
		return object{"type": "integer", "format": "int32", "minimum": -32768, "maximum": 32767}, nil
	case reflect.Uint8:
		return object{"type": "integer", "format": "int32", "minimum": 0, "maximum": 255}, nil
	case reflect.Uint16:
		return object{"type": "integer", "format": "int32", "minimum": 0, "maximum": 65535}, nil
	case reflect.Uint32:
		return object{"type": "integer", "format": "int64", "minimum": 0, "maximum": 4294967295}, nil
	case reflect.Uint, reflect.Uint64:
		return object{"type": "integer", "format": "int64", "minimum": 0}, nil
	case reflect.Interface:
		return object{preserve: true}, nil
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return object{"type": "string", "format": "byte"}, nil
		}
		items, err := g.of(t.Elem())
		return object{"type": "array", "items": items}, err
	case reflect.Map:
		if t.Key().Kind() != reflect.String {
			return nil, fmt.Errorf("%s: the keys of a map must be strings", t)
		}
		values, err := g.of(t.Elem())
		if values[preserve] == true && len(values) == 1 {
			return object{"type": "object", preserve: true}, err
		}
		return object{"type": "object", "additionalProperties": values}, err
	case reflect.Struct:
		return g.ofStruct(t)
	}
	return nil, fmt.Errorf("%s has no JSON", t)
}

func (g *generator) ofStruct(t reflect.Type) (object, error) {
	if slices.Contains(g.open, t) {
		return object{preserve: true}, nil
	}
	g.open = append(g.open, t)
	defer func() { g.open = g.open[:len(g.open)-1] }()

	of := object{"type": "object"}
	if text := g.doc(t); text != "" {
		of["description"] = text
	}
	if ruled, isRuled := reflect.Zero(t).Interface().(windlass.Ruled); isRuled {
		of["x-kubernetes-validations"] = rules(ruled.Rules())
	}
	properties, required := object{}, []string{}
	if err := g.fields(t, properties, &required); err != nil {
		return nil, err
	}
	if len(properties) > 0 {
		of["properties"] = properties
	}
	if len(required) > 0 {
		of["required"] = required
	}
	return of, nil
}

func (g *generator) fields(t reflect.Type, properties object, required *[]string) error {
	for index := range t.NumField() {
		field := t.Field(index)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		embedded := field.Type
		if embedded.Kind() == reflect.Pointer {
			embedded = embedded.Elem()
		}
		switch {
		case name == "-" && options == "":
			continue
		case field.Anonymous && name == "" && embedded.Kind() == reflect.Struct:
			if err := g.fields(embedded, properties, required); err != nil {
				return err
			}
			continue
		case !field.IsExported():
			continue
		case name == "":
			return fmt.Errorf("%s.%s needs a json tag with its name", t, field.Name)
		}
		property, err := g.of(field.Type)
		if err == nil {
			err = keywords(property, field)
		}
		if err != nil {
			return fmt.Errorf("%s.%s: %w", t, field.Name, err)
		}
		if text := g.fieldDoc(t, field); text != "" {
			property["description"] = text
		}
		properties[name] = property
		_, hasDefault := property["default"]
		isOptional := hasDefault || field.Type.Kind() == reflect.Pointer || field.Tag.Get("optional") == "true"
		if kind := field.Type.Kind(); kind == reflect.Slice || kind == reflect.Map || kind == reflect.Interface {
			isOptional = isOptional || g.isWritten
		}
		for option := range strings.SplitSeq(options, ",") {
			isOptional = isOptional || option == "omitempty" || option == "omitzero"
		}
		if !isOptional {
			*required = append(*required, name)
		}
	}
	return nil
}

// keywords adds the tags of a field to its schema.
func keywords(property object, field reflect.StructField) error {
	tag := field.Tag
	for _, keyword := range []string{
		"minimum", "maximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties",
	} {
		if text, isSet := tag.Lookup(keyword); isSet {
			if _, err := strconv.ParseFloat(text, 64); err != nil {
				return fmt.Errorf("%s: %q is not a number", keyword, text)
			}
			property[keyword] = json.Number(text)
		}
	}
	for keyword, bound := range map[string]string{"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"} {
		if text, isSet := tag.Lookup(keyword); isSet {
			property[bound], property[keyword] = json.Number(text), true
		}
	}
	if name, isSet := tag.Lookup("is"); isSet {
		rule, isKnown := namedRules[name]
		if !isKnown {
			return fmt.Errorf("is: %q is neither image nor dns-label nor dns-subdomain", name)
		}
		property["pattern"] = rule.pattern
		if rule.minLength > 0 {
			property["minLength"] = rule.minLength
		}
		if _, isSet := property["maxLength"]; rule.maxLength > 0 && !isSet {
			property["maxLength"] = rule.maxLength
		}
	}
	if pattern, isSet := tag.Lookup("pattern"); isSet {
		if _, err := regexp.Compile(pattern); err != nil {
			return err
		}
		property["pattern"] = pattern
	}
	if format, isSet := tag.Lookup("format"); isSet {
		property["format"] = format
	}
	if values, isSet := tag.Lookup("enum"); isSet {
		enum := []any{}
		for text := range strings.SplitSeq(values, ",") {
			value, err := literal(property, text)
			if err != nil {
				return fmt.Errorf("enum: %w", err)
			}
			enum = append(enum, value)
		}
		property["enum"] = enum
	}
	if listType, isSet := tag.Lookup("listType"); isSet {
		property["x-kubernetes-list-type"] = listType
	}
	if keys, isSet := tag.Lookup("listMapKeys"); isSet {
		property["x-kubernetes-list-type"] = "map"
		property["x-kubernetes-list-map-keys"] = strings.Split(keys, ",")
	}
	if tag.Get("preserveUnknown") == "true" {
		property[preserve] = true
	}
	if text, isSet := tag.Lookup("default"); isSet {
		value, err := literal(property, text)
		if err != nil {
			return fmt.Errorf("default: %w", err)
		}
		if property["default"], err = whole(property, value, field.Type); err != nil {
			return fmt.Errorf("default: %w", err)
		}
	}
	return nil
}

// literal is the value of a tag: text for strings, and JSON for all others.
func literal(property object, text string) (any, error) {
	if property["type"] == "string" || property[intOrString] == true {
		return text, nil
	}
	value, err := jsondoc.Tree([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("%q is not JSON: %w", text, err)
	}
	return value, nil
}

// whole is a default of a type with the defaults inside it: the API server does not show these in kubectl explain. Whether it is within
// the bounds of its field is told by the host's code, when a test leaves the field out, and by the API server.
func whole(property object, value any, of reflect.Type) (any, error) {
	text, err := json.Marshal(property)
	if err != nil {
		return nil, err
	}
	schema, err := defaults.Parse(text)
	if err != nil {
		return nil, err
	}
	document, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	if document, err = schema.Fill(document); err != nil {
		return nil, err
	}
	if err := reading.Decode(document, "the value", reflect.New(of).Interface()); err != nil {
		return nil, err
	}
	return jsondoc.Tree(document)
}

func rules(rules []windlass.Rule) []object {
	all := make([]object, 0, len(rules))
	for _, rule := range rules {
		one := object{"rule": rule.Rule}
		if rule.Message != "" {
			one["message"] = rule.Message
		}
		if rule.FieldPath != "" {
			one["fieldPath"] = rule.FieldPath
		}
		all = append(all, one)
	}
	return all
}

// doc is the comment on a type, as kubectl explain shows it.
func (g *generator) doc(t reflect.Type) string {
	if spec := g.source(t); spec != nil {
		return g.docs[spec]
	}
	return ""
}

// fieldDoc is the comment on a field, or its tag `description`.
func (g *generator) fieldDoc(t reflect.Type, field reflect.StructField) string {
	if text, isSet := field.Tag.Lookup("description"); isSet {
		return text
	}
	spec := g.source(t)
	if spec == nil {
		return ""
	}
	of, isStruct := spec.Type.(*ast.StructType)
	if !isStruct {
		return ""
	}
	for _, one := range of.Fields.List {
		for _, name := range one.Names {
			if name.Name == field.Name {
				return paragraphs(one.Doc)
			}
		}
	}
	return ""
}

// paragraphs is the text of a comment, a line for each paragraph.
func paragraphs(comment *ast.CommentGroup) string {
	var all []string
	for paragraph := range strings.SplitSeq(strings.TrimSpace(comment.Text()), "\n\n") {
		all = append(all, strings.Join(strings.Fields(paragraph), " "))
	}
	return strings.Join(all, "\n\n")
}

// source is the declaration of a type; nil if its source is not found.
func (g *generator) source(t reflect.Type) *ast.TypeSpec {
	if g.withoutDocs || t.Name() == "" || t.PkgPath() == "" {
		return nil
	}
	types, isRead := g.packages[t.PkgPath()]
	if !isRead {
		types = g.read(t.PkgPath())
		g.packages[t.PkgPath()] = types
	}
	return types[t.Name()]
}

// read reads the types of a package. Tests run in the folder of their own package.
func (g *generator) read(path string) map[string]*ast.TypeSpec {
	folder := "."
	if output, err := exec.Command("go", "list", "-f", "{{.Dir}}", path).Output(); err == nil {
		folder = strings.TrimSpace(string(output))
	}
	types := map[string]*ast.TypeSpec{}
	names, _ := filepath.Glob(filepath.Join(folder, "*.go"))
	for _, name := range names {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			continue // It is not part of this build, or the compiler reports it.
		}
		for _, declaration := range file.Decls {
			general, isGeneral := declaration.(*ast.GenDecl)
			if !isGeneral || general.Tok != token.TYPE {
				continue
			}
			for _, one := range general.Specs {
				spec := one.(*ast.TypeSpec)
				comment := spec.Doc
				if comment == nil {
					comment = general.Doc
				}
				types[spec.Name.Name] = spec
				g.docs[spec] = paragraphs(comment)
			}
		}
	}
	return types
}
