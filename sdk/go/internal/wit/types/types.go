// Package wit_types has the types of the component model that Go lacks, as the generated bindings use them.
package wit_types

// Option is a value or none.
type Option[T any] struct {
	value  T
	isSome bool
}

// The tags of an option.
const (
	OptionNone = 0
	OptionSome = 1
)

// None is no value.
func None[T any]() Option[T] { return Option[T]{} }

// Some is a value.
func Some[T any](value T) Option[T] { return Option[T]{value, true} }

// Tag tells which one it is.
func (o Option[T]) Tag() uint8 {
	if o.isSome {
		return OptionSome
	}
	return OptionNone
}

// Some returns the value; the zero value if there is none.
func (o Option[T]) Some() T { return o.value }

// SomeOr returns the value, or another if there is none.
func (o Option[T]) SomeOr(other T) T {
	if o.isSome {
		return o.value
	}
	return other
}

// Result is a value or an error.
type Result[T, E any] struct {
	value T
	err   E
	isErr bool
}

// The tags of a result.
const (
	ResultOk  = 0
	ResultErr = 1
)

// Ok is a value.
func Ok[T, E any](value T) Result[T, E] { return Result[T, E]{value: value} }

// Err is an error.
func Err[T, E any](err E) Result[T, E] { return Result[T, E]{err: err, isErr: true} }

// Tag tells which one it is.
func (r Result[T, E]) Tag() uint8 {
	if r.isErr {
		return ResultErr
	}
	return ResultOk
}

// Ok returns the value; the zero value if it is an error.
func (r Result[T, E]) Ok() T { return r.value }

// Err returns the error; the zero value if it is a value.
func (r Result[T, E]) Err() E { return r.err }

// Tuple2 is two values.
type Tuple2[A, B any] struct {
	F0 A
	F1 B
}
