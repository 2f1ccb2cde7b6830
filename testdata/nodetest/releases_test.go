package nodetest

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
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
	numbers := func(release string) []int {
		n := make([]int, 3)
		if _, err := fmt.Sscanf(release, "%d.%d.%d", &n[0], &n[1], &n[2]); err != nil {
			t.Fatalf("release %q: %v", release, err)
		}
		return n
	}
	if !slices.IsSortedFunc(Releases, func(a, b string) int { return slices.Compare(numbers(a), numbers(b)) }) {
		t.Errorf("releases = %v, want the oldest first", Releases)
	}
	for _, newest := range Versions {
		if !slices.Contains(Releases, newest) {
			t.Errorf("releases lack %s", newest)
		}
	}
}
