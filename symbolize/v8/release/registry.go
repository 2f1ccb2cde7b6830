package release

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// registry has the releases in no particular order: each release's file adds its
// own.
var registry []*Release

// Register adds a release and returns a function that removes it again. It must
// not be called while versions are looked up.
func Register(r Release) (remove func()) {
	registry = append(registry, &r)
	return func() {
		registry = slices.DeleteFunc(registry, func(other *Release) bool { return other == &r })
	}
}

// An UnknownVersionError means that the layout of this V8 has not been measured:
// offsets would be guesses, and names read with them fabricated.
type UnknownVersionError struct {
	Version Version
	// Assumed is the newest release if the V8 is newer than all known ones, and
	// nil otherwise. It may be used for a process on which it was verified.
	Assumed *Release
}

func (e *UnknownVersionError) Error() string {
	var nodes []string
	for _, r := range All() {
		nodes = append(nodes, r.Node)
	}
	nodes = slices.Compact(nodes)
	last := len(nodes) - 1
	return fmt.Sprintf("V8 %v has a layout not known here (known: Node.js %s and %s)", e.Version, strings.Join(nodes[:last], ", "), nodes[last])
}

// For returns the layout of a version of V8, with that Version set, or an
// *UnknownVersionError.
func For(v Version) (*Release, error) {
	for _, r := range registry {
		if r.Version.Major == v.Major && r.Version.Minor == v.Minor {
			return r.at(v), nil
		}
	}
	unknown := &UnknownVersionError{Version: v}
	if all := All(); v.compare(all[len(all)-1].Version) > 0 {
		unknown.Assumed = all[len(all)-1]
	}
	return nil, unknown
}

// All returns the known releases, oldest first, each at its newest patch level.
func All() []*Release {
	return slices.SortedFunc(slices.Values(registry), func(a, b *Release) int { return a.Version.compare(b.Version) })
}

// at returns the layout of a patch level of r.
func (r *Release) at(v Version) *Release {
	old := *r
	old.Version = v
	old.Types, old.Fields = maps.Clone(r.Types), maps.Clone(r.Fields)
	for _, c := range r.Before {
		if v.compare(c.Version) < 0 {
			c.Apply(&old)
		}
	}
	return &old
}
