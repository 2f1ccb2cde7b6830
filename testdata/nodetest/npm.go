package nodetest

import (
	"context"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// NPMPrograms are the programs that testdata/npm/work.js makes of npm's packages.
var NPMPrograms = []string{"tsc", "prettier", "terser", "webpack", "express", "fastify", "handlebars", "json", "regexp", "jest"}

// npmPackages are what those programs need, in versions that run on all of Versions, and
// two libraries for them to work on.
var npmPackages = []string{
	"typescript@5.9.3", "prettier@3.10.1", "terser@5.51.2", "webpack@5.112.2", "express@4.22.3", "fastify@4.29.1",
	"handlebars@4.7.10", "json5@2.2.3", "highlight.js@11.12.0", "jest@29.7.0", "rxjs@7.8.2", "lodash@4.17.21",
}

// StartNPM starts one of NPMPrograms and returns when it has done its work once. If it
// is a server, a second process, load, keeps it busy; else load is nil. It ends at SIGTERM.
func StartNPM(t testing.TB, node, program string, flags ...string) (target, load *Target) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), fetchLimit)
	defer cancel()
	key, err := digest(t.TempDir(), npmPackages)
	if err != nil {
		t.Fatal(err)
	}
	packages, err := cached("npm-"+key, func(temp string) error { return npmInstall(ctx, temp, npmPackages...) })
	if err != nil {
		t.Fatalf("install %s: %v (is npm's registry reachable?)", strings.Join(npmPackages, ", "), err)
	}
	_, file, _, _ := runtime.Caller(0)
	script := filepath.Join(filepath.Dir(file), "..", "npm", "work.js")
	target = Start(t, node, Options{Flags: flags, Script: script, Args: []string{packages, program}})
	var facts struct{ Port string }
	target.Facts(&facts)
	if facts.Port != "" {
		load = Start(t, node, Options{Script: script, Args: []string{packages, "load", facts.Port}})
	}
	return target, load
}
