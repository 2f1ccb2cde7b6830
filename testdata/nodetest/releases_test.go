package nodetest

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"ustack/symbolize/v8"
)

// TestReleasesRun fetches the releases and checks that each is what its name says.
func TestReleasesRun(t *testing.T) {
	for _, release := range ReleasesOr("24.0.0") {
		out, err := exec.Command(Node(t, release), "--version").Output()
		if got := strings.TrimSpace(string(out)); err != nil || got != "v"+release {
			t.Errorf("node %s says that it is %q, %v", release, got, err)
		}
	}
}

func TestReleasesAreInOrderAndHaveTheNewest(t *testing.T) {
	version := func(release string) v8.Version {
		v, err := v8.ParseVersion(release)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if !slices.IsSortedFunc(Releases, func(a, b string) int { return version(a).Compare(version(b)) }) {
		t.Errorf("releases = %v, want the oldest first", Releases)
	}
	for _, newest := range Versions {
		if !slices.Contains(Releases, newest) {
			t.Errorf("releases lack %s", newest)
		}
	}
}
