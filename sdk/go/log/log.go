// Package log writes lines into the host's log, with the plugin and the parent. The host keeps at most 64 KiB of one call
// (spec.limits.logBytes of the Plugin), with the attributes and events of the span, and drops the rest.
//
// Fields are alternating names and values, as in log/slog:
//
//	log.Info("scaled up", "from", 1, "to", 3)
//
// log/slog itself, and the standard package log with times, read the wall clock for every line, and the host repeats a call
// that reads the wall clock instead of reusing its response.
//
// When a call fails by a panic, more users read its message than a log: neither the message of a panic nor an error line may
// contain the value of a Secret.
package log

import "windlass.dev/plugin/internal/host"

// Trace writes a line about a single step.
func Trace(message string, fields ...any) { host.Log(host.Trace, message, host.Pairs(fields)) }

// Debug writes a line for debugging the plugin.
func Debug(message string, fields ...any) { host.Log(host.Debug, message, host.Pairs(fields)) }

// Info writes a line that is useful in production.
func Info(message string, fields ...any) { host.Log(host.Info, message, host.Pairs(fields)) }

// Warn writes a line about something unexpected that the plugin handles.
func Warn(message string, fields ...any) { host.Log(host.Warn, message, host.Pairs(fields)) }

// Error writes a line about an error.
func Error(message string, fields ...any) { host.Log(host.Error, message, host.Pairs(fields)) }
