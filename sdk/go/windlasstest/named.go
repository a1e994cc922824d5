package windlasstest

// named is a rule for text with a name, which the tag `is` of a field has.
type named struct {
	minLength, maxLength int
	pattern              string
}

const label = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"

// namedRules has the rules by their names.
var namedRules = map[string]named{
	"image":         {minLength: 1, pattern: `^\S+$`},
	"dns-label":     {maxLength: 63, pattern: "^" + label + "$"},
	"dns-subdomain": {maxLength: 253, pattern: "^" + label + `(\.` + label + ")*$"},
}

// quantityPattern is the pattern of a quantity (resource.Quantity), as controller-gen writes it.
const quantityPattern = `^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]+))?$`
