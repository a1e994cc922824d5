package windlass

import (
	"fmt"

	"windlass.dev/plugin/contract"
)

// Parent is the kind that a plugin reconciles: a [CustomResource] or an [Existing] kind.
type Parent interface {
	raw() contract.Parent
}

// CustomResource is a custom kind, whose CRD the component contains. The CRD is made from this declaration and from the
// plugin's types of spec and status: windlasstest.CRD writes it into a file in a test, and go:embed embeds the file.
//
// The CRD has the status subresource, observedGeneration and conditions in the status, and the columns Ready and Age.
type CustomResource struct {
	// Group is the API group: "example.com".
	Group string
	// Version is the only version: "v1".
	Version string
	// Kind is the name of the kind: "Greeting".
	Kind string
	// Plural is the name in URLs. Empty is the English plural of the kind ("echoes", "policies").
	Plural string
	// ClusterScoped: objects have no namespace.
	ClusterScoped bool
	// ShortNames are short names for kubectl.
	ShortNames []string
	// Categories: with category "all", kubectl get all shows objects of this kind.
	Categories []string
	// Columns are columns of kubectl get, between Ready and Age. A column named Ready or Age replaces that one.
	Columns []Column
	// Rules are CEL rules on the whole object. Rules on a type are returned by its method Rules ([Ruled]).
	Rules []Rule
	// Selector selects the objects that the plugin reconciles. Empty: all objects.
	Selector Selector
	// CRD is the file that windlasstest.CRD writes.
	CRD []byte
}

func (c CustomResource) raw() contract.Parent {
	return contract.Parent{CRD: c.CRD, Selector: c.Selector}
}

// Selector selects parents by their labels and annotations.
type Selector = contract.Selector

// Column is a column of kubectl get.
type Column struct {
	// Name is the title.
	Name string
	// Type is integer, number, string, boolean or date.
	Type string
	// Path is the JSON path of the value: ".spec.replicas".
	Path string
}

// Rule is a CEL rule of a schema.
type Rule struct {
	// Rule is an expression that must be true. self is the value, and oldSelf the value before the write.
	Rule string
	// Message is for the user whose object violates the rule.
	Message string
	// FieldPath is the field that the error names, below the value: ".cpu". Empty for the value itself.
	FieldPath string
}

// Ruled is a type of a spec with CEL rules. The API server evaluates them; the SDK does not.
type Ruled interface {
	// Rules returns the rules of a value of this type. The receiver is a zero value.
	Rules() []Rule
}

// RFC1035Name is the rule that an object's name is a label by RFC 1035 of at most this many characters (63 or less): for a kind
// whose objects share their name with a Service. A plugin that appends to the name subtracts the length of what it appends.
func RFC1035Name(maxLength int) Rule {
	return Rule{
		Rule:    fmt.Sprintf("self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= %d", maxLength),
		Message: fmt.Sprintf("name must be a label of DNS that begins with a letter (a-z, 0-9, -), at most %d characters", maxLength),
	}
}

// Positive is the rule that a field, a [Quantity], is greater than zero. [Quantity.IsPositive] checks the same.
func Positive(field string) Rule {
	return Rule{
		Rule:      fmt.Sprintf("quantity(string(self.%s)).isGreaterThan(quantity('0'))", field),
		Message:   field + " must be more than 0",
		FieldPath: "." + field,
	}
}

// Existing is a kind that the plugin does not define: a built-in kind, or a custom kind of another operator. There is no schema
// of it here, so Spec is read as encoding/json does: fields that are missing are zero.
type Existing struct {
	// Kind is the kind.
	Kind Kind
	// Selector selects the objects that the plugin reconciles. Empty: all objects.
	Selector Selector
}

func (e Existing) raw() contract.Parent {
	return contract.Parent{Existing: &e.Kind, Selector: e.Selector}
}
