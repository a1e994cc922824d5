// Package span writes into the span of this call in the host's trace:
//
//	span.Attribute("replicas", 3)
//	span.Event("scaled", "from", 1, "to", 3)
//
// Attributes, events and log lines of one call have at most 64 KiB together (spec.limits.logBytes of the Plugin); the host drops the
// rest.
package span

import "windlass.dev/plugin/internal/host"

// Attribute sets an attribute. Strings, errors and numbers are written as fmt prints them, and structs, lists and maps as JSON.
func Attribute(key string, value any) { host.SpanAttribute(key, host.Text(value)) }

// Event adds an event. attributes are alternating names and values, which are written as those of [Attribute].
func Event(name string, attributes ...any) { host.SpanEvent(name, host.Pairs(attributes)) }
