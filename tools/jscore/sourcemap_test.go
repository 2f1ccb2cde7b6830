package jscore

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ustack/symbolize"
	"ustack/testdata/nodetest"
	"ustack/tools/sourcemaps"
)

// TestStacksAreThoseOfTheSource takes cores of scripts made from TypeScript that stand
// still in the middle of their calls. The map is in the script, or in a directory.
func TestStacksAreThoseOfTheSource(t *testing.T) {
	folder := nodetest.SourceMaps(t)
	versions := []string{"16.20.2", anyVersion}
	if matrix() {
		versions = nodetest.Versions
	}
	for _, version := range versions {
		for _, script := range []string{"inline/busy.mjs", "esbuild/busy.js", "tsc/src/busy.js"} {
			t.Run(fmt.Sprintf("node%d/%s", nodetest.Major(version), script), func(t *testing.T) {
				script := filepath.Join(folder, script)
				target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{Script: script, Args: []string{"wait"}})
				var o Options
				if filepath.Ext(script) == ".js" {
					o.Maps.Folder = filepath.Dir(script)
				}
				d := dumped(t, target.PID, o)
				stack := d.JSStack(d.Threads()[0], StackOptions{Verbose: true, Lines: 1})
				checkSource(t, stack, filepath.Join(folder, "src", "busy.ts"), script)
				if warnings := d.Warnings(); len(warnings) > 0 {
					t.Errorf("warnings = %v, want none", warnings)
				}
				like(t, textOf(t, stack, nil), `.*js:     standStill at .*src/busy.ts line \d+
          file: .*src/busy.ts
          posn: line \d+ column \d+
          defined: line \d+ column \d+
          script: .*busy.m?js line \d+ column \d+
.*`)
			})
		}
	}
}

// checkSource checks where the two functions that call Atomics.wait are.
func checkSource(t *testing.T, s *StackText, source, script string) {
	t.Helper()
	for name, lines := range map[string][2]string{
		"standStill":  {"function standStill", "  console.log('ready'), Atomics.wait"},
		"waitForever": {"function waitForever", "  standStill("},
	} {
		at := slices.IndexFunc(s.Frames, func(f *FrameText) bool { return f.Name == name })
		if at < 0 {
			t.Errorf("no frame of %s", name)
			continue
		}
		f := s.Frames[at]
		defined, executing := nodetest.LineOf(t, source, lines[0]), nodetest.LineOf(t, source, lines[1])
		if strings.TrimPrefix(f.File, "file://") != source || f.DefinedLine != defined || f.Line != executing || !f.Executing {
			t.Errorf("%s is defined at %s:%d and executes line %d, want %s:%d and %d", name, f.File, f.DefinedLine, f.Line, source, defined, executing)
		}
		if strings.TrimPrefix(f.GeneratedFile, "file://") != script || f.GeneratedLine == 0 || f.GeneratedExecutingColumn == 0 {
			t.Errorf("%s was generated at %+v, want in %s", name, f.Frame, script)
		}
		if len(f.Source) == 0 || !slices.ContainsFunc(f.Source, func(l Line) bool { return l.Number == f.GeneratedExecutingLine }) {
			t.Errorf("source around %s = %v, want the script's line %d", name, f.Source, f.GeneratedExecutingLine)
		}
	}
}

// TestCoresNameNoFiles opens a core whose scripts say that their map is in a file.
func TestCoresNameNoFiles(t *testing.T) {
	folder := nodetest.SourceMaps(t)
	script := filepath.Join(folder, "esbuild", "busy.js")
	target := nodetest.Start(t, nodetest.Node(t, anyVersion), nodetest.Options{Script: script, Args: []string{"wait"}})
	for _, off := range []bool{false, true} {
		d := dumped(t, target.PID, Options{Maps: sourcemaps.Options{Off: off}})
		stack := d.JSStack(d.Threads()[0], StackOptions{})
		if !slices.ContainsFunc(stack.Frames, func(f *FrameText) bool {
			return f.Kind == symbolize.JS && f.File == script && f.Executing && f.GeneratedFile == ""
		}) {
			t.Errorf("maps off: %v: no frame is in %s", off, script)
		}
		warnings := d.Warnings()
		if off != (len(warnings) == 0) || !off && !strings.Contains(warnings[0].Error(), "--maps DIR") {
			t.Errorf("maps off: %v: warnings = %v", off, warnings)
		}
		if again := d.Warnings(); len(again) > 0 {
			t.Errorf("warnings again: %v", again)
		}
	}
	d, err := Attach(t.Context(), target.PID, Options{}) // the process lives, and has a root directory
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	checkSource(t, d.JSStack(d.Threads()[0], StackOptions{Verbose: true, Lines: 1}), filepath.Join(folder, "src", "busy.ts"), script)
}
