package nodetest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestARM64IsPrepared makes what the tests of "make test-arm64" run, on a machine that may be
// of another architecture, for the versions that match USTACK_ARM64, and writes a list of the
// files to USTACK_FILES.
func TestARM64IsPrepared(t *testing.T) {
	const goarch = "arm64"
	pattern := os.Getenv("USTACK_ARM64")
	if pattern == "" {
		t.Skip("USTACK_ARM64=PATTERN makes what arm64 is tested with, of versions that match")
	}
	versions, err := regexp.Compile(pattern)
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, version := range VersionsFor(goarch) {
		if !versions.MatchString(version) {
			continue
		}
		node := NodeFor(t, version, goarch)
		files = append(files, node, filepath.Join(node, "../../include/node/node_version.h"), StrippedNodeFor(t, version, goarch))
		files = append(files, AddonFor(t, goarch, node, "leaks.cc"))
		for _, source := range Addons {
			for _, flag := range []string{FramePointers, NoFramePointers} {
				files = append(files, AddonFor(t, goarch, node, source, flag))
			}
		}
	}
	if err := os.WriteFile(os.Getenv("USTACK_FILES"), []byte(strings.Join(files, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}
