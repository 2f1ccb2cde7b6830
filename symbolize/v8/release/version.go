package release

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

// compare returns -1, 0 or 1 as v is older than, the same as, or newer than w.
func (v Version) compare(w Version) int {
	return cmp.Or(
		cmp.Compare(v.Major, w.Major),
		cmp.Compare(v.Minor, w.Minor),
		cmp.Compare(v.Build, w.Build),
		cmp.Compare(v.Patch, w.Patch),
	)
}
