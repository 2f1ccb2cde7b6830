// Package contain keeps a fault in one unit of work, such as reading one file or
// one process, from ending the program. Everything read from a target is hostile:
// a panic in our code or in a library becomes an error about that unit.
package contain

import (
	"fmt"
	"runtime/debug"
)

// A Fault is a panic that was contained.
type Fault struct {
	Doing string // what was being done: "read symbols of /tmp/x.node"
	Cause any    // the value passed to panic
	Stack []byte // of the goroutine at the panic
}

func (f *Fault) Error() string {
	return fmt.Sprintf("%s: internal error: %v (please report it with what --verbose prints)", f.Doing, f.Cause)
}

// Unwrap returns the cause if it is an error, nil if not.
func (f *Fault) Unwrap() error {
	err, _ := f.Cause.(error)
	return err
}

// Panic makes a panic the error of the function that defers it:
//
//	defer contain.Panic(&err, "read symbols of %s", path)
func Panic(err *error, format string, args ...any) {
	if cause := recover(); cause != nil {
		*err = &Fault{Doing: fmt.Sprintf(format, args...), Cause: cause, Stack: debug.Stack()}
	}
}
