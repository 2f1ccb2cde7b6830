// Package libuv finds, by reading machine code of x86-64 and arm64, what addonlat probes in libuv and
// has no symbol for. It is used where symbols do not suffice:
//
//   - In a libuv that is stripped, as Debian's, Functions finds the internal functions
//     through which every job goes: the exported ones that call them are still named.
//   - Every libuv calls a job, and sometimes completes it, in the middle of a function:
//     FindCall and FindCompletion find these places, Entry the cheapest place at a
//     function's beginning.
//   - An add-on's function that submits a job by a tail call is not on the stack:
//     Submitter finds it.
//
// Whatever is not certain is not found; the caller then reports what it cannot measure.
// The code is read from the file, and hostile: what is decoded is bounded.
package libuv
