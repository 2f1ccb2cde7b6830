// Package nodejs reads what Node.js itself keeps in a process's memory: the queues of its
// event loop, its timers, the process object, and what it said when it aborted.
//
// It finds them by the constants that Node.js has for debuggers, by the classes of its
// own scripts' objects, and by the offsets of libuv. All that it reads is the process's own
// claim: lists are bounded, and what cannot be read is left out or reported.
package nodejs

import (
	"ustack/symbolize/space"
	"ustack/symbolize/v8/stack"
)

// A Process is a Node.js process. It is not safe for concurrent use.
type Process struct {
	space  *space.Space
	stacks *stack.Unwinder
	v8     stack.V8
}

// New returns the process with that address space and those stacks.
func New(s *space.Space, u *stack.Unwinder) *Process { return &Process{s, u, u.V8()} }
