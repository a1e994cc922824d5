// Package problem has errors that name a field.
package problem

import (
	"errors"
	"fmt"
	"strings"
)

// Problem is an error in a field of a document. Its text is "FIELD: MESSAGE".
type Problem struct {
	field string
	cause error
}

// At makes a problem in the field of this path; empty for the document as a whole.
func At(field, format string, arguments ...any) *Problem {
	return &Problem{field, fmt.Errorf(format, arguments...)}
}

// Error returns the text.
func (p *Problem) Error() string {
	if p.field == "" {
		return p.cause.Error()
	}
	return p.field + ": " + p.cause.Error()
}

// Unwrap returns the cause.
func (p *Problem) Unwrap() error { return p.cause }

// Split returns the field of an error, and its text without it. An error whose text does not begin with the field, as that of an
// error around a [Problem], has none.
func Split(err error) (field, message string) {
	if problem, isProblem := errors.AsType[*Problem](err); isProblem && problem.field != "" {
		if message, isFirst := strings.CutPrefix(err.Error(), problem.field+": "); isFirst {
			return problem.field, message
		}
	}
	return "", err.Error()
}
