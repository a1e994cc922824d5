package schema

// Named is a rule for text with a name, which the tag `is` of a field has.
type Named struct {
	MinLength, MaxLength int
	Pattern              string
	// Noun completes the message: "… is not" Noun.
	Noun string
}

const label = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"

// Names has the rules by their names.
var Names = map[string]Named{
	"image": {
		MinLength: 1,
		Pattern:   `^\S+$`,
		Noun:      "the name of an image",
	},
	"dns-label": {
		MaxLength: 63,
		Pattern:   "^" + label + "$",
		Noun:      "a DNS label: at most 63 of a-z, 0-9 and -, not beginning or ending with -",
	},
	"dns-subdomain": {
		MaxLength: 253,
		Pattern:   "^" + label + `(\.` + label + ")*$",
		Noun:      "a DNS name: labels of a-z, 0-9 and - with dots between them, at most 253 characters",
	},
}

// noun is the text of a pattern that users know, or empty.
func noun(pattern string) string {
	if pattern == Quantity {
		return "a quantity like 100m, 2 or 128Mi"
	}
	for _, named := range Names {
		if named.Pattern == pattern {
			return named.Noun
		}
	}
	return ""
}
