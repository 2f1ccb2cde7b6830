package release

import (
	"cmp"
	"fmt"
)

// A Version is a V8 version, such as 12.4.254.21.
type Version struct {
	Major, Minor, Build, Patch int
}

// String returns the version with its four numbers.
func (v Version) String() string {
	return fmt.Sprintf("%d.%d.%d.%d", v.Major, v.Minor, v.Build, v.Patch)
}

// compare returns -1, 0 or 1 if v is older than, the same as, or newer than w.
func (v Version) compare(w Version) int {
	return cmp.Or(
		cmp.Compare(v.Major, w.Major),
		cmp.Compare(v.Minor, w.Minor),
		cmp.Compare(v.Build, w.Build),
		cmp.Compare(v.Patch, w.Patch),
	)
}
