//go:build !wasip1

package host

import (
	"sync"
	"time"
)

// Line is a call of Log.
type Line struct {
	Level   Level
	Message string
	Fields  []Pair
}

// SpanPoint is a call of SpanEvent.
type SpanPoint struct {
	Name       string
	Attributes []Pair
}

// Measurement is a call of Measure.
type Measurement struct {
	Metric string
	Value  float64
	Labels []Pair
}

// Calls are the calls of the host's functions during one call of a plugin.
type Calls struct {
	Logs           []Line
	SpanAttributes []Pair
	SpanEvents     []SpanPoint
	Measurements   []Measurement
}

// Input is what a call gets from the host in addition to its request.
type Input struct {
	Now time.Time
	// Random has the bytes that the plugin reads; nil stands for the same bytes in every call.
	Random []byte
}

// DefaultNow is the first second of 2026.
var DefaultNow = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

var (
	running sync.Mutex // Tests may run in parallel, and the functions of a plugin do not know their call.
	input   = Input{Now: DefaultNow}
	calls   Calls
)

// Run runs a call of a plugin with an input, and returns what it called.
func Run(of Input, call func()) Calls {
	running.Lock()
	defer running.Unlock()
	input, calls = of, Calls{}
	defer func() { input = Input{Now: DefaultNow} }()
	call()
	return calls
}

// Log records a line.
func Log(level Level, message string, fields []Pair) {
	calls.Logs = append(calls.Logs, Line{level, message, fields})
}

// SpanAttribute records an attribute.
func SpanAttribute(key, value string) {
	calls.SpanAttributes = append(calls.SpanAttributes, Pair{key, value})
}

// SpanEvent records an event of the span.
func SpanEvent(name string, attributes []Pair) {
	calls.SpanEvents = append(calls.SpanEvents, SpanPoint{name, attributes})
}

// Measure records a value.
func Measure(metric string, value float64, labels []Pair) {
	calls.Measurements = append(calls.Measurements, Measurement{metric, value, labels})
}

// Now returns the time of the test.
func Now() time.Time {
	return input.Now
}

// Random returns the next bytes of the test: fewer than asked for if these run out.
func Random(count int) []byte {
	if input.Random != nil {
		count = min(count, len(input.Random))
		bytes := input.Random[:count]
		input.Random = input.Random[count:]
		return bytes
	}
	bytes := make([]byte, count)
	for index := range bytes {
		bytes[index] = byte(index * 151)
	}
	return bytes
}
