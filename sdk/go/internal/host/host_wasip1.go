package host

import (
	"time"
	"unsafe"

	bindings "windlass.dev/plugin/internal/wit/plugin/windlass_plugin_host"
	schedules "windlass.dev/plugin/internal/wit/plugin/windlass_plugin_schedule"
	types "windlass.dev/plugin/internal/wit/types"
)

func tuples(pairs []Pair) []types.Tuple2[string, string] {
	tuples := make([]types.Tuple2[string, string], len(pairs))
	for index, pair := range pairs {
		tuples[index] = types.Tuple2[string, string]{F0: UTF8(pair.Name), F1: UTF8(pair.Value)}
	}
	return tuples
}

// Log writes a line into the host's log.
func Log(level Level, message string, fields []Pair) {
	bindings.Log(bindings.Level(level), UTF8(message), tuples(fields))
}

// SpanAttribute sets an attribute of the call's span.
func SpanAttribute(key, value string) {
	bindings.SpanAttribute(UTF8(key), UTF8(value))
}

// SpanEvent adds an event to the call's span.
func SpanEvent(name string, attributes []Pair) {
	bindings.SpanEvent(UTF8(name), tuples(attributes))
}

// Measure reports a value of a metric.
func Measure(metric string, value float64, labels []Pair) {
	bindings.Measure(UTF8(metric), value, tuples(labels))
}

// Now reads the wall clock.
func Now() time.Time {
	return time.Now()
}

// Not crypto/rand: its self-tests and algorithms are a large part of a component.
//
//go:wasmimport wasi_snapshot_preview1 random_get
func randomGet(buffer unsafe.Pointer, length uint32) uint32

// Random returns bytes from the host's generator.
func Random(count int) []byte {
	bytes := make([]byte, count)
	if count > 0 && randomGet(unsafe.Pointer(unsafe.SliceData(bytes)), uint32(count)) != 0 {
		panic("the host gives no random bytes")
	}
	return bytes
}

// ScheduleNext returns the first time of a schedule after this one.
func ScheduleNext(schedule, timeZone string, after uint64) (uint64, *ScheduleProblem) {
	result := schedules.Next(UTF8(schedule), UTF8(timeZone), after)
	if result.Tag() == types.ResultErr {
		return 0, problemOf(result.Err())
	}
	return result.Ok(), nil
}

// SchedulePrevious returns the last time of a schedule until this one, and whether there is one.
func SchedulePrevious(schedule, timeZone string, at uint64) (uint64, bool, *ScheduleProblem) {
	result := schedules.Previous(UTF8(schedule), UTF8(timeZone), at)
	if result.Tag() == types.ResultErr {
		return 0, false, problemOf(result.Err())
	}
	time := result.Ok()
	return time.Some(), time.Tag() == types.OptionSome, nil
}

func problemOf(problem schedules.Problem) *ScheduleProblem {
	if problem.Tag() == schedules.ProblemTimeZone {
		return &ScheduleProblem{Message: problem.TimeZone(), OfTimeZone: true}
	}
	return &ScheduleProblem{Message: problem.Schedule()}
}
