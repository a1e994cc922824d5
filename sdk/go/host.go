package windlass

import (
	"time"

	"windlass.dev/plugin/internal/host"
)

// Measure adds to a counter, sets a gauge or records in a histogram of [Plugin.Metrics]. value is in the unit of the metric, and
// labels are alternating names and values. The host drops metrics and labels that the plugin does not declare.
//
//	windlass.Measure("pods_restarted", 1, "reason", "crash")
func Measure(metric string, value float64, labels ...any) {
	host.Measure(metric, value, host.Pairs(labels))
}

// Now reads the wall clock. The host does not reuse the response of a call that reads it, and a response that contains the time
// differs in every call: [LastChange] reads it only when something changed. A plugin whose response depends on the time uses
// [Request.Now]. In a test the clock stands still (windlasstest.Prepared.At).
func Now() time.Time {
	return host.Now()
}

// Timestamp is a time as Kubernetes writes it: RFC 3339 in UTC, to the second.
func Timestamp(at time.Time) string {
	return at.UTC().Format(time.RFC3339)
}

// RandomBytes returns count bytes from the host, at most 1 MiB: the call fails if it asks for more at once. The bytes are
// the same in every call with the same request as long as the Secret windlass-rng-key in the host's namespace exists, and secret, so
// fit for a generated password. Another request gets other bytes: [Request.Generated] keeps a generated value. A test sets them
// (windlasstest.Prepared.Random).
func RandomBytes(count int) []byte {
	return host.Random(count)
}
