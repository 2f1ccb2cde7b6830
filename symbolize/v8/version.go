// Package v8 knows how V8 lays out its frames, functions, scripts and strings in
// memory, and reads them. What a binary's own v8dbg_ metadata says is taken from
// there; what that omits comes from a table of measured values (rows.go).
//
// Supported is V8 9.4 (Node.js 16.20) and newer on x86-64, as Node.js builds it:
// without pointer compression and without the sandbox.
package v8

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// A Version is a V8 version, as 12.4.254.21.
type Version struct {
	Major, Minor, Build, Patch int
}

// ParseVersion reads a version of two to four numbers with dots between. What
// follows the numbers, as in "12.4.254.21-node.56", is left out.
func ParseVersion(s string) (Version, error) {
	number, _, _ := strings.Cut(s, "-")
	parts := strings.Split(number, ".")
	if len(parts) < 2 || len(parts) > 4 {
		return Version{}, fmt.Errorf("parse V8 version %q: want major.minor[.build[.patch]]", s)
	}
	var n [4]int
	for i, part := range parts {
		u, err := strconv.ParseUint(part, 10, 31)
		if err != nil {
			return Version{}, fmt.Errorf("parse V8 version %q: %w", s, err)
		}
		n[i] = int(u)
	}
	return Version{n[0], n[1], n[2], n[3]}, nil
}

// String returns the version with its four numbers.
func (v Version) String() string {
	return fmt.Sprintf("%d.%d.%d.%d", v.Major, v.Minor, v.Build, v.Patch)
}

// Compare returns -1, 0 or 1 as v is older than, the same as, or newer than w.
func (v Version) Compare(w Version) int {
	return cmp.Or(
		cmp.Compare(v.Major, w.Major),
		cmp.Compare(v.Minor, w.Minor),
		cmp.Compare(v.Build, w.Build),
		cmp.Compare(v.Patch, w.Patch),
	)
}
