package jsprof

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ustack/symbolize"
	"ustack/testdata/nodetest"
	"ustack/tools/profile"
	"ustack/tools/sourcemaps"
	"ustack/tools/trace"
)

// written are the functions of busy.ts that use the processor, and how they begin there.
var written = map[string]string{
	"spinInMethod":   "  spinInMethod(): number",
	"spinInFunction": "export function spinInFunction",
	"spinInArrow":    "export const spinInArrow",
	"turn":           "  const turn = ",
}

// busyProfile profiles a script made of busy.ts, until there are some samples.
func busyProfile(t *testing.T, version, script string, o Options) *profile.Profile {
	t.Helper()
	target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{Flags: nodetest.NoInlining(version), Script: script})
	o.Selection, o.Hz, o.Duration = trace.Selection{PIDs: []int{target.PID}}, 1997, time.Minute
	return profileUntil(t, o, 400)
}

// TestFunctionsAreShownAsTheyWereWritten profiles scripts that the usual tools made of a
// program in TypeScript: minified and bundled, or with their map inside.
func TestFunctionsAreShownAsTheyWereWritten(t *testing.T) {
	nodetest.Root(t)
	folder := nodetest.SourceMaps(t)
	scripts := []string{"tsc/src/busy.js", "tsc-es5/src/busy.js", "esbuild/busy.js", "inline/busy.mjs", "swc/busy.js"}
	versions := []string{"18.20.8", "24.21.0"}
	if matrix() {
		versions = nodetest.Versions
	}
	for _, version := range versions {
		for _, script := range scripts {
			t.Run(fmt.Sprintf("node%d/%s", nodetest.Major(version), script), func(t *testing.T) {
				nodetest.NothingLeft(t, programs...)
				p := busyProfile(t, version, filepath.Join(folder, script), Options{})
				for name, start := range written {
					checkWritten(t, p, name, filepath.Join(folder, script), filepath.Join(folder, "src", "busy.ts"), start)
				}
			})
		}
	}
}

// checkWritten checks that a function of a script has samples, all with its place in the
// source.
func checkWritten(t *testing.T, p *profile.Profile, name, script, source, start string) {
	t.Helper()
	want := nodetest.LineOf(t, source, start)
	const longest = 6 // lines of a function
	var samples, executing uint64
	for _, s := range p.Stacks {
		at := slices.IndexFunc(s.Frames, func(f symbolize.Frame) bool { return strings.TrimPrefix(f.Name, "Worker.") == name })
		if at < 0 {
			continue
		}
		samples += s.Value
		f := s.Frames[at]
		if file := strings.TrimPrefix(f.File, "file://"); file != source || f.Line != want {
			t.Errorf("%s is at %s:%d, want %s:%d", name, f.File, f.Line, source, want)
		}
		if f.ExecutingLine > 0 {
			executing += s.Value
			if f.ExecutingLine < want || f.ExecutingLine > want+longest || f.GeneratedExecutingLine == 0 {
				t.Errorf("%s executes line %d, want one from %d to %d", name, f.ExecutingLine, want, want+longest)
			}
		}
		if file := strings.TrimPrefix(f.GeneratedFile, "file://"); file != script || f.GeneratedLine == 0 || f.GeneratedColumn == 0 {
			t.Errorf("%s was generated at %s:%d:%d, want in %s", name, f.GeneratedFile, f.GeneratedLine, f.GeneratedColumn, script)
		}
	}
	if samples == 0 || executing < samples/2 {
		t.Errorf("%s has %d samples, %d with executing lines", name, samples, executing)
	}
}

// TestInlinedFunctionsAreShownAsTheyWereWritten profiles minified code that V8 has inlined.
func TestInlinedFunctionsAreShownAsTheyWereWritten(t *testing.T) {
	nodetest.Root(t)
	nodetest.NothingLeft(t, programs...)
	folder := nodetest.SourceMaps(t)
	script := filepath.Join(folder, "esbuild", "busy.js")
	target := nodetest.Start(t, nodetest.Node(t, "24.21.0"), nodetest.Options{Script: script})
	p := profileUntil(t, Options{Selection: trace.Selection{PIDs: []int{target.PID}}, Hz: 499, Duration: time.Minute}, 1000)
	var inlined uint64
	for _, s := range p.Stacks {
		for _, f := range s.Frames {
			if f.File == script {
				t.Errorf("%s is at %s:%d:%d, want its place in the source", f.Name, f.File, f.Line, f.Column)
			}
			if f.Inlined && written[f.Name] != "" {
				inlined += s.Value
			}
		}
	}
	if inlined < p.Total/4 {
		t.Errorf("%d of %d samples are in inlined functions", inlined, p.Total)
	}
}

// TestScriptsAreShownThemselves profiles minified scripts without their maps: because
// they are not wanted, are not there, are broken, or are not where a process may say.
func TestScriptsAreShownThemselves(t *testing.T) {
	nodetest.Root(t)
	folder := nodetest.SourceMaps(t)
	text, err := os.ReadFile(filepath.Join(folder, "esbuild", "busy.js"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, url, content string
		off                bool
		want               string // of the warning
	}{
		{name: "not wanted", url: "busy.js.map", content: "{", off: true},
		{name: "not there", url: "gone.map", want: "no such file"},
		{name: "broken", url: "busy.js.map", content: `{"version":3,`, want: "not a source map"},
		{name: "on a server", url: "http://localhost:9/busy.js.map", want: "only files and data URLs"},
		{name: "a device", url: "/dev/zero", want: "not a regular file"},
		{name: "inline and broken", url: "data:application/json;base64,e30=", want: "version 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			nodetest.NothingLeft(t, programs...)
			script := filepath.Join(t.TempDir(), "busy.js")
			made := strings.ReplaceAll(string(text), "sourceMappingURL=busy.js.map", "sourceMappingURL="+tt.url)
			err := errors.Join(os.WriteFile(script, []byte(made), 0o600), os.WriteFile(script+".map", []byte(tt.content), 0o600))
			if err != nil {
				t.Fatal(err)
			}
			var warned []string
			p := busyProfile(t, "24.21.0", script, Options{
				Maps: sourcemaps.Options{Off: tt.off},
				Warn: func(err error) { warned = append(warned, err.Error()) },
			})
			if got := strings.Join(warned, "\n"); tt.want == "" && got != "" || !strings.Contains(got, tt.want) || len(warned) > 1 {
				t.Errorf("warnings = %q, want %q once", warned, tt.want)
			}
			checkScript(t, p, script)
		})
	}
}

// checkScript checks that most samples are in functions of a script, at their places there.
func checkScript(t *testing.T, p *profile.Profile, script string) {
	t.Helper()
	var samples uint64
	for _, s := range p.Stacks {
		if slices.ContainsFunc(s.Frames, func(f symbolize.Frame) bool {
			return f.File == script && f.Line > 0 && f.GeneratedFile == "" && f.GeneratedLine == 0
		}) {
			samples += s.Value
		}
	}
	if samples < p.Total/2 {
		t.Errorf("%d of %d samples are in %s", samples, p.Total, script)
	}
}

// TestMapsAreFoundInAFolder profiles a script that names no map, with a directory of maps.
func TestMapsAreFoundInAFolder(t *testing.T) {
	nodetest.Root(t)
	nodetest.NothingLeft(t, programs...)
	folder, temp := nodetest.SourceMaps(t), t.TempDir()
	text, err := os.ReadFile(filepath.Join(folder, "esbuild", "busy.js"))
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(temp, "dist", "busy.js")
	made, _, _ := strings.Cut(string(text), "//# sourceMappingURL")
	maps := t.TempDir()
	err = errors.Join(os.Mkdir(filepath.Dir(script), 0o755), os.WriteFile(script, []byte(made), 0o600),
		os.CopyFS(maps, only{os.DirFS(filepath.Join(folder, "esbuild")), "busy.js.map"}),
		os.CopyFS(filepath.Join(temp, "src"), os.DirFS(filepath.Join(folder, "src"))))
	if err != nil {
		t.Fatal(err)
	}
	p := busyProfile(t, "20.20.2", script, Options{Maps: sourcemaps.Options{Folder: maps}})
	for name, start := range written {
		checkWritten(t, p, name, script, filepath.Join(temp, "src", "busy.ts"), start)
	}
}

// only is a directory with one of the files of another.
type only struct {
	fs.FS
	name string
}

// ReadDir lists the file.
func (o only) ReadDir(name string) ([]fs.DirEntry, error) {
	all, err := fs.ReadDir(o.FS, name)
	return slices.DeleteFunc(all, func(d fs.DirEntry) bool { return d.Name() != o.name }), err
}
