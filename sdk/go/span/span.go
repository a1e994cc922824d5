// Package span writes into the span of this call in the host's trace.
package span

import "windlass.dev/plugin/internal/host"

// Attribute sets an attribute.
func Attribute(key string, value any) { host.SpanAttribute(key, host.Text(value)) }

// Event adds an event. Attributes are alternating names and values.
func Event(name string, attributes ...any) { host.SpanEvent(name, host.Pairs(attributes)) }
