package nodetest

import "os"

// Releases are the first, a middle and the newest release of each line of Node.js with
// long-term support, the first and the newest of the lines between them, and those on both
// sides of a change of V8 within a line, oldest first.
var Releases = []string{
	"16.20.0", "16.20.2",
	"17.1.0", "17.9.1",
	"18.0.0", "18.12.1", "18.20.8",
	"19.0.0", "19.8.1",
	"20.0.0", "20.11.1", "20.20.2",
	"21.0.0", "21.7.3",
	"22.0.0", "22.12.0", "22.23.3",
	"23.0.0", "23.11.1",
	"24.0.0", "24.11.1", "24.12.0", "24.21.0",
	"25.0.0", "25.4.0", "25.9.0",
	"26.0.0", "26.5.0", "26.10.0",
}

// ReleasesOr returns all Releases under USTACK_RELEASES=1 (make test-releases), and
// the given ones otherwise. Tests that use it are named TestReleases….
func ReleasesOr(few ...string) []string {
	if os.Getenv("USTACK_RELEASES") == "1" {
		return Releases
	}
	return few
}
