// Package host has the functions of the host that a plugin may call. Outside of a component, a test is the host.
package host

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Level is the level of a log line.
type Level uint8

// The levels.
const (
	Trace Level = iota
	Debug
	Info
	Warn
	Error
)

// ScheduleProblem is why a schedule has no time.
type ScheduleProblem struct {
	// Message is the sentence for the user.
	Message string
	// OfTimeZone tells that the time zone is wrong, and not the schedule.
	OfTimeZone bool
}

// Pair is a name and a value.
type Pair struct{ Name, Value string }

// Pairs makes pairs of alternating names and values, as in log/slog.
func Pairs(arguments []any) []Pair {
	pairs := make([]Pair, 0, (len(arguments)+1)/2)
	for len(arguments) > 1 {
		pairs = append(pairs, Pair{Text(arguments[0]), Text(arguments[1])})
		arguments = arguments[2:]
	}
	if len(arguments) == 1 {
		pairs = append(pairs, Pair{"!BADKEY", Text(arguments[0])})
	}
	return pairs
}

// UTF8 is a text in which U+FFFD replaces bytes that are not UTF-8: a component that passes such bytes to the host traps.
func UTF8(text string) string {
	return strings.ToValidUTF8(text, "\uFFFD")
}

// Text is a value as text: strings, errors and numbers as fmt prints them, and structs, lists and maps as JSON.
func Text(value any) string {
	switch value := value.(type) {
	case string:
		return value
	case error, fmt.Stringer, bool, int, int32, int64, uint, uint32, uint64, float64:
		return fmt.Sprint(value)
	}
	if text, err := json.Marshal(value); err == nil {
		return string(text)
	}
	return fmt.Sprint(value)
}
