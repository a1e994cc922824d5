package windlass

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"syscall"

	"windlass.dev/plugin/contract"
	"windlass.dev/plugin/internal/problem"
)

// Failure is an error that tells the host what to do: [Invalid] or [Failed] makes one. After a failure the host writes and
// deletes no child. Every other error that Reconcile returns is handled as [Failed] with its text. A plugin that only waits returns
// a response ([Wait]).
type Failure struct {
	kind  contract.FailureKind
	cause error
}

// Error returns the message, which users read in the parent's condition.
func (f *Failure) Error() string { return f.cause.Error() }

// Unwrap returns the error that has the message.
func (f *Failure) Unwrap() error { return f.cause }

// Invalid is the failure of a parent whose spec is invalid. It names the field from the root, and what would be valid: users
// read "spec.ports[1].name: is required" in the parent's condition (Stalled=True, reason InvalidSpec). An empty field stands for
// the parent as a whole. The host does not call again before the parent changes; in a call to clean up, it calls again with
// backoff.
func Invalid(field, format string, arguments ...any) *Failure {
	return &Failure{contract.Invalid, problem.At(field, format, arguments...)}
}

// Failed is any other failure. The host calls again with exponential backoff.
func Failed(format string, arguments ...any) *Failure {
	return &Failure{contract.Failed, fmt.Errorf(format, arguments...)}
}

// IsInvalid tells whether an error is a failure made by [Invalid].
func IsInvalid(err error) bool {
	failure, isFailure := errors.AsType[*Failure](err)
	return isFailure && failure.kind == contract.Invalid
}

// rawFailure is a failure as the host gets it. An error that wraps a failure keeps its kind.
func rawFailure(err error) *contract.Failure {
	raw := &contract.Failure{Kind: contract.Failed, Message: err.Error()}
	if IsInvalid(err) {
		raw.Kind = contract.Invalid
		raw.Field, raw.Message = problem.Split(err)
	}
	switch {
	case isOutside(err):
		raw.Message += ": a plugin has no network and no files"
	case strings.Contains(raw.Message, "unknown time zone "): // The error of time.LoadLocation has no type.
		raw.Message += `: a component has time zones if the plugin imports _ "time/tzdata"`
	}
	return raw
}

// isOutside tells whether an error comes from a file or the network. Go's messages, like "Bad file number" and "Connection refused",
// do not say that a plugin has neither. Errors of files that are embedded in the component come from no system call.
func isOutside(err error) bool {
	if _, isSystem := errors.AsType[syscall.Errno](err); isSystem {
		return true
	}
	for ; err != nil; err = errors.Unwrap(err) {
		// Not by its type: package net would be a part of every component.
		if kind := reflect.TypeOf(err); kind.Kind() == reflect.Pointer && kind.Elem().PkgPath() == "net" {
			return true
		}
	}
	return false
}
