package nodetest

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// A Build is a Node.js without symbols other than those that it exports.
type Build struct {
	Name string
	open func(t testing.TB) string
}

// Stripped are all such builds that tests can run: Debian's own, and official
// binaries after strip.
var Stripped = []Build{
	debianBuild("bookworm"), debianBuild("trixie"), debianBuild("sid"),
	strippedBuild("16.20.2"), strippedBuild("18.20.8"), strippedBuild("20.20.2"), strippedBuild("22.23.3"),
	strippedBuild("24.21.0"), strippedBuild("25.9.0"), strippedBuild("26.10.0"),
}

// StrippedFew are those that tests make do with in their short form.
var StrippedFew = []Build{debianBuild("bookworm"), strippedBuild("24.21.0")}

func debianBuild(release string) Build {
	return Build{Name: release, open: func(t testing.TB) string { return Debian(t, release) }}
}

func strippedBuild(version string) Build {
	return Build{
		Name: fmt.Sprintf("stripped%d", Major(version)),
		open: func(t testing.TB) string { return StrippedNode(t, version) },
	}
}

// Node returns the build's path and its version. Debian's needs root.
func (b Build) Node(t testing.TB) (path, version string) {
	t.Helper()
	path = b.open(t)
	out, err := exec.CommandContext(t.Context(), path, "--version").Output()
	if err != nil {
		t.Fatalf("run %s: %v", path, err)
	}
	return path, strings.TrimPrefix(strings.TrimSpace(string(out)), "v")
}

// StrippedNode returns the path of the official binary of version after
// "strip --strip-all", as many images are made. It is in the cache that Node uses.
func StrippedNode(t testing.TB, version string) string {
	t.Helper()
	return StrippedNodeFor(t, version, runtime.GOARCH)
}

// StrippedNodeFor is like StrippedNode for another architecture, by go's name.
func StrippedNodeFor(t testing.TB, version, goarch string) string {
	t.Helper()
	node := NodeFor(t, version, goarch)
	dir, err := cached("stripped-"+version+architectures[goarch].suffix, func(temp string) error {
		return run(exec.CommandContext(t.Context(), tool("strip", goarch), "--strip-all", "-o", filepath.Join(temp, "node"), node))
	})
	if err != nil {
		MustRun(t, fmt.Sprintf("strip node %s: %v", version, err))
	}
	return filepath.Join(dir, "node")
}
