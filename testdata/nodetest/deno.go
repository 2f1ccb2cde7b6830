package nodetest

import (
	"context"
	"path/filepath"
	"runtime"
	"testing"
)

// Deno is what tests run of it, as README.md's table calls it; its V8 is 15.0.
const Deno = "Deno " + denoVersion

const denoVersion = "2.9.6"

var denoPackages = map[string]string{"amd64": "@deno/linux-x64-glibc", "arm64": "@deno/linux-arm64-glibc"}

// StartDeno starts a program in Deno, whose V8 has no v8dbg_ symbols. It is fetched from npm
// once, into the cache that Node uses.
func StartDeno(t testing.TB, script string) *Target {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), fetchLimit)
	defer cancel()
	pack := denoPackages[runtime.GOARCH]
	dir, err := cached("deno-"+denoVersion, func(temp string) error { return npmInstall(ctx, temp, pack+"@"+denoVersion) })
	if err != nil {
		t.Fatalf("install Deno %s: %v (is npm's registry reachable?)", denoVersion, err)
	}
	return Start(t, filepath.Join(dir, "node_modules", pack, "deno"), Options{
		Flags: []string{"run", "--no-prompt"}, Script: script,
		Env: []string{"DENO_DIR=" + t.TempDir(), "DENO_NO_UPDATE_CHECK=1"},
	})
}
