// Package stdio knows whether the process was started without standard output or
// standard error.
//
// Go's runtime opens /dev/null for those that are closed before any Go code runs
// (Go 1.21), and that looks the same as output that the caller discards. So the
// programs have an entry point of their own, ustack_entry, which asks first: link
// them with -ldflags '-E ustack_entry'. Without that flag nothing counts as closed.
package stdio

// out and err are the results of fcntl(F_GETFD) for descriptors 1 and 2.
var out, err int64

// Closed returns the name of a standard stream for output that was closed when the
// process started, or "".
func Closed() string {
	switch {
	case out < 0:
		return "standard output"
	case err < 0:
		return "standard error"
	}
	return ""
}
