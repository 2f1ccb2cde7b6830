package nodetest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// transpilers are npm's packages that make source maps, one that reads them, and a
// library in TypeScript for them to work on.
var transpilers = []string{
	"typescript@5.9.3", "esbuild@0.28.2", "@swc/core@1.16.22", "swc-loader@0.2.7", "webpack@5.112.2",
	"source-map@0.8.0", "rxjs@7.8.2",
}

// SourceMaps returns the folder of programs in TypeScript, in src, and of the scripts with
// source maps that the usual tools make of them, each in a folder with the tool's name.
// testdata/sourcemaps says how. They are made once, in the cache that Node uses.
func SourceMaps(t testing.TB) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), fetchLimit)
	defer cancel()
	_, file, _, _ := runtime.Caller(0)
	from := filepath.Join(filepath.Dir(file), "..", "sourcemaps")
	build, err := os.ReadFile(filepath.Join(from, "build.js"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := digest(filepath.Join(from, "src"), append([]string{string(build)}, transpilers...))
	if err != nil {
		t.Fatal(err)
	}
	dir, err := cached("sourcemaps-"+key, func(temp string) error {
		if err := npmInstall(ctx, temp, transpilers...); err != nil {
			return err
		}
		if err := os.CopyFS(filepath.Join(temp, "src"), os.DirFS(filepath.Join(from, "src"))); err != nil {
			return err
		}
		return run(exec.CommandContext(ctx, "node", filepath.Join(from, "build.js"), temp))
	})
	if err != nil {
		t.Fatalf("make scripts with source maps: %v (is npm's registry reachable?)", err)
	}
	return dir
}

// LineOf returns the line, from 1, of a file that begins with start.
func LineOf(t testing.TB, file, start string) int {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(strings.Split(string(text), "\n"), func(line string) bool { return strings.HasPrefix(line, start) })
	if at < 0 {
		t.Fatalf("no line of %s begins with %q", file, start)
	}
	return at + 1
}
