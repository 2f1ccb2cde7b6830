package kernels

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"ustack/testdata/nodetest"
)

// suites are the releases of Debian that have the kernels.
var suites = map[string]string{"5.10": "bullseye", "6.1": "bookworm", "6.12": "trixie", "newest": "sid"}

// usual are the kernels that are tested unless others are asked for.
const usual = "5.10 6.1 6.12 newest"

// image returns the path of a kernel, given by its name or its path.
func image(t testing.TB, name string) string {
	t.Helper()
	if filepath.IsAbs(name) {
		return name
	}
	suite, ok := suites[name]
	if !ok {
		t.Fatalf("no kernel %q: there are %s, and paths of vmlinuz", name, usual)
	}
	return nodetest.Kernel(t, suite)
}

// row returns the name of a kernel's row in the table: the first two numbers of its release.
func row(release string) (string, error) {
	numbers := strings.SplitN(release, ".", 3)
	if len(numbers) < 2 {
		return "", fmt.Errorf("%q is no release of Linux", release)
	}
	minor, _, _ := strings.Cut(numbers[1], "-")
	minor, _, _ = strings.Cut(minor, "+")
	return numbers[0] + "." + minor, nil
}
