package kernels

import (
	_ "embed"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ustack/testdata/nodetest"
)

//go:embed init
var guestInit []byte

// versions of Node.js that the groups use.
var versions = []string{"22.23.3", "24.21.0", "26.10.0"}

// TestKernels runs the groups on each kernel of USTACK_KERNELS: names or paths; all if it is
// "all".
func TestKernels(t *testing.T) {
	asked := os.Getenv("USTACK_KERNELS")
	if asked == "" {
		t.Skip("takes a quarter of an hour for each kernel: make test-kernels")
	}
	if asked == "all" {
		asked = usual
	}
	for _, program := range []string{"qemu-system-x86_64", "busybox"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%v (apt-get install qemu-system-x86 busybox-static)", err)
		}
	}
	var images []string
	for _, name := range strings.Fields(asked) {
		images = append(images, image(t, name))
	}
	archive := pack(t)
	for _, path := range images {
		t.Run(filepath.Base(path), func(t *testing.T) { testKernel(t, path, archive) })
	}
}

// pack returns the archive of a machine's files.
func pack(t *testing.T) string {
	t.Helper()
	o := Options{Module: filepath.Join(filepath.Dir(nodetest.Program("")), "..")}
	for _, version := range versions {
		node := nodetest.Node(t, version)
		o.Nodes = append(o.Nodes, node)
		o.Cache = filepath.Join(node, "../../../../..")
		o.Files = append(o.Files, filepath.Join(node, "../../include/node/node_version.h"))
	}
	for _, source := range nodetest.Addons {
		for _, flag := range []string{nodetest.FramePointers, nodetest.NoFramePointers} {
			o.Files = append(o.Files, nodetest.Addon(t, o.Nodes[0], source, flag))
		}
	}
	o.Files = append(o.Files, nodetest.Loggers(t, o.Nodes[0]), filepath.Join(o.Module, "npm"))
	dir := filepath.Join(t.TempDir(), "root")
	r, err := Fill(t.Context(), dir, guestInit, o)
	if err != nil {
		t.Fatal(err)
	}
	archive := dir + ".cpio"
	if err := errors.Join(r.archive(t.Context(), archive), os.RemoveAll(dir)); err != nil {
		t.Fatal(err)
	}
	return archive
}

// testKernel has a test for each group, after the machine has run them all.
func testKernel(t *testing.T, path, archive string) {
	var r Report
	err := boot(t.Context(), path, archive, func(line string) {
		t.Log(line)
		r.Line(line)
	})
	if err != nil {
		t.Error(err)
	}
	name, err := row(r.Release)
	if err != nil {
		t.Fatal(err)
	}
	nodetest.About(t, "kernel", name, r.Release)
	for i, g := range Groups {
		if !g.Kernels.runsOn(r.Release) {
			continue
		}
		t.Run(g.Package, func(t *testing.T) {
			for _, column := range g.Columns {
				if g.Kernels == TooOld {
					nodetest.Refuses(t, "kernel", name, column)
				} else {
					nodetest.Works(t, "kernel", name, column)
				}
			}
			if err := r.Groups[i].Err(); err != nil {
				t.Errorf("%s: %v", g.Run, err)
			}
		})
	}
}

func TestReportsAreRead(t *testing.T) {
	for name, tt := range map[string]struct {
		lines string
		want  string // the error of group 0
	}{
		"passed":   {"@ Linux 6.1.0\n@ begin 0\n=== RUN   TestA\n--- PASS: TestA (0.1s)\nPASS\n@ end 0 0", ""},
		"failed":   {"@ begin 0\n--- FAIL: TestA (0.1s)\n    --- FAIL: TestA/b (0.1s)\n    --- PASS: TestA/c (0.1s)\n@ end 0 1", "failed: TestA, TestA/b"},
		"none":     {"@ begin 0\ntesting: warning: no tests to run\nPASS\n@ end 0 0", "no test ran"},
		"skipped":  {"@ begin 0\n--- PASS: TestA (0.1s)\n--- SKIP: TestB (0.1s)\n@ end 0 0", "skipped: TestB"},
		"too old":  {"@ begin 0\n--- PASS: TestA (0.1s)\n    a_test.go:1: x: the kernel has that since Linux 6.7, and this is 6.1\n--- SKIP: TestB (0.1s)\n@ end 0 0", ""},
		"crashed":  {"@ begin 0\n--- PASS: TestA (0.1s)\npanic: x\n@ end 0 2", "it ended with status 2"},
		"died":     {"@ begin 0\n--- PASS: TestA (0.1s)\n", "it did not end: 1 tests passed before"},
		"never":    {"@ Linux 6.1.0\n@ begin 1\n--- PASS: TestA (0.1s)\n@ end 1 0", "it did not begin"},
		"imitated": {"@ end 0 0\n", "it did not begin"},
	} {
		t.Run(name, func(t *testing.T) {
			var r Report
			for line := range strings.Lines(tt.lines) {
				r.Line(strings.TrimSuffix(line, "\n"))
			}
			got := ""
			if err := r.Groups[0].Err(); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("error = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestGroupsAreTestsThatExist(t *testing.T) {
	for _, g := range Groups {
		files, err := filepath.Glob(filepath.Join("../../..", g.Package, "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Errorf("%s has no tests: %v", g.Package, err)
		}
		first, _, _ := strings.Cut(g.Run, "$/")
		for _, name := range alternatives(first) {
			if !slices.ContainsFunc(files, func(file string) bool {
				text, err := os.ReadFile(file)
				return err == nil && strings.Contains(string(text), "\nfunc "+name)
			}) {
				t.Errorf("%s has no %s", g.Package, name)
			}
		}
	}
}

// alternatives returns what a pattern of a Group begins with: ^A$, ^(A|B)$ or ^A(B|C)$.
func alternatives(pattern string) []string {
	pattern = strings.NewReplacer("^", "", "$", "", ".*", "").Replace(pattern)
	before, rest, ok := strings.Cut(pattern, "(")
	if !ok {
		return []string{pattern}
	}
	var names []string
	for _, name := range strings.Split(strings.TrimSuffix(rest, ")"), "|") {
		names = append(names, before+name)
	}
	return names
}

func TestRangesAreOfReleases(t *testing.T) {
	for release, old := range map[string]bool{
		"5.10.0-35-cloud-amd64": true, "5.15.0-1-generic": false, "5.9.0": true, "4.19.0": true, "6.1.0": false, "7.2.3+deb14": false,
	} {
		if TooOld.runsOn(release) != old || Supported.runsOn(release) == old || !Every.runsOn(release) {
			t.Errorf("%s is too old: %t, want %t", release, TooOld.runsOn(release), old)
		}
		// The machine's shell decides alike.
		out, err := exec.Command("sh", "-c", "case "+release+" in "+oldReleases+") echo old ;; esac").Output()
		if err != nil || (string(out) == "old\n") != old {
			t.Errorf("the shell says of %s: %q, %v, want old: %t", release, out, err, old)
		}
	}
}

func TestRowsAreVersions(t *testing.T) {
	for release, want := range map[string]string{"6.1.0-40-cloud-amd64": "6.1", "6.12.95+deb13-cloud-amd64": "6.12", "7.3-rc1": "7.3"} {
		if got, err := row(release); err != nil || got != want {
			t.Errorf("row of %s = %q, %v, want %s", release, got, err, want)
		}
	}
	if _, err := row(""); err == nil {
		t.Error("a machine without a release has a row, want an error")
	}
}

func TestRootHasProgramsWithTheirLibraries(t *testing.T) {
	r := Root{t.TempDir()}
	if err := r.program(t.Context(), "/bin/sh"); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("chroot", r.dir, "/bin/sh", "-c", "echo $((6*7))").Output(); err != nil || string(out) != "42\n" {
		if os.Geteuid() != 0 {
			nodetest.Root(t)
		}
		t.Errorf("the shell prints %q, %v, want 42", out, err)
	}
	if err := r.program(t.Context(), "/no/such/program"); err == nil {
		t.Error("a program that is not there was added")
	}
	if got, want := quote(`it's`), `'it'\''s'`; got != want {
		t.Errorf("quoted = %s, want %s", got, want)
	}
}
