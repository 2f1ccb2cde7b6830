package profile

import (
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ustack/symbolize"
	"ustack/testdata/nodetest"
)

// packages are other people's readers of what this package writes.
var packages = []string{"stackvis@0.5.0", "speedscope@1.25.0", "ajv@8.20.0"}

// readers returns a folder that packages are installed in. It lies in the
// user's cache, so that they are fetched once.
func readers(t *testing.T) string {
	t.Helper()
	npm := need(t, "npm")
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "ustack", "readers", strings.Join(packages, "+"))
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	partial, err := os.MkdirTemp(filepath.Dir(dir), "partial-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(partial)
	args := append([]string{"install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", partial}, packages...)
	if out, err := exec.CommandContext(t.Context(), npm, args...).CombinedOutput(); err != nil {
		nodetest.MustRun(t, fmt.Sprintf("needs %q from npm: %v\n%s", packages, err, out))
	}
	if err := os.Rename(partial, dir); err != nil && !errors.Is(err, os.ErrExist) {
		t.Fatal(err)
	}
	return dir
}

// run returns what a command prints for that input.
func run(t *testing.T, input, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), need(t, program), args...)
	cmd.Stdin = strings.NewReader(input)
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", program, args, err, complaints.String())
	}
	if strings.Contains(complaints.String(), `"level":40`) { // a warning of bunyan's
		t.Errorf("%s %q complains: %s", program, args, complaints.String())
	}
	return string(out)
}

// stackvis converts input from one of its formats to another.
func stackvis(t *testing.T, from, to, input string) string {
	t.Helper()
	command := filepath.Join(readers(t), "node_modules", "stackvis", "cmd", "stackvis")
	return run(t, input, "node", command, from, to)
}

func sortedLines(s string) []string {
	return slices.Sorted(strings.Lines(s))
}

func TestStackvisReadsDTrace(t *testing.T) {
	for name, p := range fixtures() {
		var total uint64
		got := stackvis(t, "dtrace", "collapsed", write(t, "dtrace", p, Options{}))
		for line := range strings.Lines(got) {
			line = strings.TrimSpace(line)
			n, err := strconv.ParseUint(line[strings.LastIndexByte(line, ' ')+1:], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			total += n
		}
		if total != p.Total {
			t.Errorf("%s: stackvis reads %d samples, want %d", name, total, p.Total)
		}
	}
}

func TestStackvisKeepsJavaScriptFramesWhole(t *testing.T) {
	got := stackvis(t, "dtrace", "collapsed", write(t, "dtrace", awkward(), Options{}))
	for _, s := range awkward().Stacks {
		if f := s.Frames[0]; f.Kind == symbolize.JS {
			want := fmt.Sprintf("node`main,%s %d\n", strings.TrimSpace(dtraceFrame(f)), s.Value)
			if !strings.Contains(got, want) {
				t.Errorf("stackvis does not read %.200q", want)
			}
		}
	}
}

func TestStackvisReadsItsCollapsedStacks(t *testing.T) {
	for name, p := range fixtures() {
		want := write(t, "stackvis", p, Options{})
		got := stackvis(t, "collapsed", "collapsed", want)
		if diff := cmp.Diff(sortedLines(want), sortedLines(got)); diff != "" {
			t.Errorf("%s: stackvis reads other stacks (-written +read):\n%s", name, diff)
		}
	}
}

func TestStackvisCountsCollapsedLines(t *testing.T) {
	want := write(t, "collapsed", fixtures()["server"], Options{})
	// It splits at commas, of which C++ has many, and joins with them again.
	if diff := cmp.Diff(sortedLines(want), sortedLines(stackvis(t, "collapsed", "collapsed", want))); diff != "" {
		t.Errorf("stackvis reads other lines (-written +read):\n%s", diff)
	}
}

func TestStackvisDrawsFlameGraphs(t *testing.T) {
	input := write(t, "dtrace", fixtures()["server"], Options{})
	d := xml.NewDecoder(strings.NewReader(stackvis(t, "dtrace", "flamegraph-svg", input)))
	var texts []string
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := token.(xml.StartElement); ok {
			for _, a := range s.Attr {
				texts = append(texts, a.Value)
			}
		}
	}
	want := "escapeHtml at /srv/shop/lib/escape.js line 3 (355 samples, 40.25%)"
	if !strings.Contains(strings.Join(texts, "\n"), want) {
		t.Errorf("stackvis' SVG has no box %q", want)
	}

	page := stackvis(t, "dtrace", "flamegraph-d3", input)
	if want := fmt.Sprintf(`"svTotal": %d`, server().Total); !strings.Contains(page, want) {
		t.Errorf("stackvis' page has no %s", want)
	}
}

var pprofLine = regexp.MustCompile(`^\s*(\d+)\s+[\d.]+%\s+[\d.]+%\s+(\d+)\s+[\d.]+%\s+(.*)$`)

func TestGoToolPprofReads(t *testing.T) {
	for name, p := range fixtures() {
		file := filepath.Join(t.TempDir(), "cpu.pb.gz")
		if err := os.WriteFile(file, []byte(write(t, "pprof", p, Options{})), 0o644); err != nil {
			t.Fatal(err)
		}
		top := run(t, "", "go", "tool", "pprof", "-top", "-sample_index=samples", "-nodecount=10000", "-nodefraction=0", file)
		got := map[string][2]string{}
		for line := range strings.Lines(top) {
			if m := pprofLine.FindStringSubmatch(strings.TrimRight(line, "\n")); m != nil {
				got[m[3]] = [2]string{m[1], m[2]}
			}
		}
		if name != "server" {
			continue
		}
		for _, f := range []struct {
			name        string
			self, total string
		}{
			{"escapeHtml", "294", "355"},
			{"compare", "113", "210"},
			{"walk", "3", "3"},
			{"(anonymous) server.js:41:31", "0", "720"},
			{"libz.so.1+0x7a1c", "29", "29"},
		} {
			if want := [2]string{f.self, f.total}; got[f.name] != want {
				t.Errorf("pprof gives %s %v, want %v", f.name, got[f.name], want)
			}
		}
		if !strings.Contains(top, "File: node") {
			t.Errorf("pprof names no program:\n%s", top)
		}
	}
}

// validate checks JSON documents, one a line of its input, against a schema in
// which no object may have a property that the schema does not name.
const validate = `
const Ajv = require("ajv"), fs = require("fs");
const schema = JSON.parse(fs.readFileSync(process.argv[1]));
const close = (s) => {
	if (s && typeof s === "object") {
		if (s.type === "object" && s.properties) s.additionalProperties = false;
		Object.values(s).forEach(close);
	}
};
close(schema);
const check = new Ajv({strict: false, allErrors: true}).compile(schema);
for (const line of fs.readFileSync(0, "utf8").trim().split("\n")) {
	if (!check(JSON.parse(line))) {
		console.error(check.errors);
		process.exit(1);
	}
}
`

func TestSpeedscopeSchema(t *testing.T) {
	modules := filepath.Join(readers(t), "node_modules")
	schema := filepath.Join(modules, "speedscope", "dist", "release", "file-format-schema.json")
	t.Setenv("NODE_PATH", modules)
	for _, p := range fixtures() {
		run(t, write(t, "speedscope", p, Options{}), "node", "-e", validate, schema)
	}
	run(t, write(t, "speedscope", inlining(), Options{Lines: true}), "node", "-e", validate, schema)
	wrong := exec.CommandContext(t.Context(), need(t, "node"), "-e", validate, schema)
	wrong.Stdin = strings.NewReader(strings.Replace(write(t, "speedscope", one(), Options{}), `"unit"`, `"units"`, 1))
	if err := wrong.Run(); err == nil {
		t.Error("the check lets a wrong file pass")
	}
}

func TestSpeedscopeWeights(t *testing.T) {
	var file speedscopeFile
	if err := json.Unmarshal([]byte(write(t, "speedscope", server(), Options{})), &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Profiles) != 3 || file.Active != 0 {
		t.Fatalf("%d profiles, %d shown first, want 3 and 0", len(file.Profiles), file.Active)
	}
	for _, p := range file.Profiles {
		var sum int64
		for _, w := range p.Weights {
			sum += w
		}
		if sum != p.EndValue || len(p.Weights) != len(p.Samples) {
			t.Errorf("%s: %d weights of %d samples sum to %d, want %d", p.Name, len(p.Weights), len(p.Samples), sum, p.EndValue)
		}
	}
}

// TestSpeedscopeImports lets speedscope's own importers read four formats.
func TestSpeedscopeImports(t *testing.T) {
	release := filepath.Join(readers(t), "node_modules", "speedscope", "dist", "release")
	for _, tt := range []struct{ format, file string }{
		{"speedscope", "a.speedscope.json"}, {"pprof", "a.pb.gz"}, {"cpuprofile", "a.cpuprofile"}, {"collapsed", "a.folded"},
	} {
		b := open(t, "blank.html", "<p>")
		load := fmt.Sprintf("speedscope.loadFileFromBase64(%q, %q)", tt.file,
			base64.StdEncoding.EncodeToString([]byte(write(t, tt.format, fixtures()["server"], Options{}))))
		script := filepath.Join(t.TempDir(), "load.js")
		if err := os.WriteFile(script, []byte(load), 0o644); err != nil {
			t.Fatal(err)
		}
		b.Visit("file://" + release + "/index.html#localProfilePath=" + script)
		b.Wait(`document.title !== "speedscope" || /wrong|Unrecognized/.test(document.body.innerText)`)
		b.Screenshot("speedscope-" + tt.format)
		if title := eval[string](b, "document.title"); title == "speedscope" {
			t.Errorf("speedscope does not read %s: %s", tt.format, eval[string](b, "document.body.innerText"))
		}
	}
}

func TestCPUProfileShape(t *testing.T) {
	for name, p := range fixtures() {
		var got cpuProfile
		d := json.NewDecoder(strings.NewReader(write(t, "cpuprofile", p, Options{})))
		d.DisallowUnknownFields()
		if err := d.Decode(&got); err != nil {
			t.Fatal(err)
		}
		var hits uint64
		parents := map[int]int{}
		listed := map[int]uint64{}
		for _, id := range got.Samples {
			listed[id]++
		}
		for _, n := range got.Nodes {
			hits += n.HitCount
			if listed[n.ID] != n.HitCount {
				t.Errorf("%s: node %d is listed %d times, want %d", name, n.ID, listed[n.ID], n.HitCount)
			}
			for _, c := range n.Children {
				parents[c]++
			}
		}
		if hits != p.Total || len(got.Samples) != len(got.TimeDeltas) {
			t.Errorf("%s: %d hits, %d samples, %d deltas, want %d of each", name, hits, len(got.Samples), len(got.TimeDeltas), p.Total)
		}
		if len(parents) != len(got.Nodes)-1 || got.Nodes[0].CallFrame.FunctionName != "(root)" {
			t.Errorf("%s: %d of %d nodes have a parent; the first is %q", name, len(parents), len(got.Nodes), got.Nodes[0].CallFrame.FunctionName)
		}
		if span := got.EndTime - got.StartTime; p.Hz > 0 && span != int64(p.Total)*10101 {
			t.Errorf("%s: spans %d µs, want %d", name, span, p.Total*10101)
		}
	}
}

func TestCPUProfileOfDaysIsBounded(t *testing.T) {
	p := one()
	p.Stacks[0].Value, p.Total = 1<<39, 1<<39
	var got cpuProfile
	if err := json.Unmarshal([]byte(write(t, "cpuprofile", p, Options{})), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Samples) > maxCPUSamples || got.Nodes[1].HitCount != 1<<39 {
		t.Errorf("%d samples listed, %d hits, want at most %d, and all", len(got.Samples), got.Nodes[1].HitCount, maxCPUSamples)
	}
}
