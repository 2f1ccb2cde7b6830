package kernels

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"ustack/testdata/nodetest"
)

//go:embed init
var guestInit []byte

// versions of Node.js that the groups use.
var versions = []string{"22.23.3", "24.21.0", "26.10.0"}

// TestKernels runs the groups on each kernel of USTACK_KERNELS: names or paths; all if it is
// "all". With USTACK_COLUMN, it runs those of one column of the table only.
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
	column := os.Getenv("USTACK_COLUMN")
	if column != "" && !slices.ContainsFunc(Groups, func(g Group) bool { return slices.Contains(g.Columns, column) }) {
		t.Fatalf("no group has the column %q", column)
	}
	var images []string
	for _, name := range strings.Fields(asked) {
		images = append(images, image(t, name))
	}
	archive := pack(t)
	for _, path := range images {
		t.Run(filepath.Base(path), func(t *testing.T) { testKernel(t, path, archive, column) })
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

// testKernel has a test for each group, after the machines have run them all.
func testKernel(t *testing.T, path, archive, column string) {
	release, err := releaseOf(path)
	if err != nil {
		t.Fatal(err)
	}
	version, err := versionOf(release)
	if err != nil {
		t.Fatal(err)
	}
	row := fmt.Sprintf("%d.%d", version[0], version[1])
	nodetest.About(t, "kernel", row, release)
	reports := run(t, path, archive, version, column)
	for i, g := range Groups {
		if !g.runsFor(version, column) {
			continue
		}
		t.Run(g.Package, func(t *testing.T) {
			for _, column := range g.Columns {
				if g.Kernels == tooOld {
					nodetest.Refuses(t, "kernel", row, column)
				} else {
					nodetest.Works(t, "kernel", row, column)
				}
			}
			if err := reports[g.Machine].Groups[i].Err(); err != nil {
				t.Errorf("%s: %v", g.Run, err)
			}
		})
	}
}

// run runs the machines of a kernel side by side, and returns what each has printed.
func run(t *testing.T, path, archive string, version [2]int, column string) (reports [machines]Report) {
	t.Helper()
	var groups [machines][]string
	for i, g := range Groups {
		if g.runsFor(version, column) {
			groups[g.Machine] = append(groups[g.Machine], strconv.Itoa(i))
		}
	}
	var all sync.WaitGroup
	for i := range reports {
		if len(groups[i]) == 0 {
			continue
		}
		all.Go(func() {
			err := boot(t.Context(), path, archive, groups[i], func(line string) {
				t.Logf("%d: %s", i, line)
				reports[i].Line(line)
			})
			if err != nil {
				t.Errorf("machine %d: %v", i, err)
			}
		})
	}
	all.Wait()
	return reports
}

func TestReportsAreRead(t *testing.T) {
	for name, tt := range map[string]struct {
		lines string
		want  string // the error of group 0
	}{
		"passed":   {"@ begin 0\n=== RUN   TestA\n--- PASS: TestA (0.1s)\nPASS\n@ end 0 0", ""},
		"failed":   {"@ begin 0\n--- FAIL: TestA (0.1s)\n    --- FAIL: TestA/b (0.1s)\n    --- PASS: TestA/c (0.1s)\n@ end 0 1", "failed: TestA, TestA/b"},
		"none":     {"@ begin 0\ntesting: warning: no tests to run\nPASS\n@ end 0 0", "no test ran"},
		"skipped":  {"@ begin 0\n--- PASS: TestA (0.1s)\n--- SKIP: TestB (0.1s)\n@ end 0 0", "skipped: TestB"},
		"too old":  {"@ begin 0\n--- PASS: TestA (0.1s)\n    a_test.go:1: x: the kernel has that since Linux 6.7, and this is 6.1\n--- SKIP: TestB (0.1s)\n@ end 0 0", ""},
		"crashed":  {"@ begin 0\n--- PASS: TestA (0.1s)\npanic: x\n@ end 0 2", "it ended with status 2"},
		"died":     {"@ begin 0\n--- PASS: TestA (0.1s)\n", "it did not end: 1 tests passed before"},
		"never":    {"@ begin 1\n--- PASS: TestA (0.1s)\n@ end 1 0", "it did not begin"},
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

func TestLongLinesAreCutOff(t *testing.T) {
	long := strings.Repeat("x", 2*longestLine)
	var got []string
	err := eachLine(strings.NewReader("a\r\n"+long+"y\nb\n\n"+long), func(line string) { got = append(got, line) })
	if want := []string{"a", long[:longestLine], "b", "", long[:longestLine]}; err != nil || !slices.Equal(got, want) {
		t.Errorf("lines = %.20q, %v, want %.20q", got, err, want)
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
		"5.10.0-35-cloud-amd64": true, "5.15.0-1-generic": false, "5.9.0": true, "4.19.0": true, "6.1.0": false, "7.2.3+deb14": false, "7.3-rc1": false,
	} {
		version, err := versionOf(release)
		if err != nil || tooOld.has(version) != old || (Range{}).has(version) == old || !every.has(version) {
			t.Errorf("%s is %v, %v, too old: %t, want %t", release, version, err, tooOld.has(version), old)
		}
	}
	if _, err := versionOf(""); err == nil {
		t.Error("a machine without a release has a version, want an error")
	}
}

func TestReleaseIsInTheBootImage(t *testing.T) {
	image := make([]byte, 2<<10)
	copy(image[0x202:], "HdrS")
	copy(image[0x20e:], "\x10\x01") // 0x110
	copy(image[0x310:], "6.1.0-50-cloud-amd64 (someone@host) #1")
	none := slices.Clone(image)
	copy(none[0x202:], "none")
	path := filepath.Join(t.TempDir(), "vmlinuz")
	for name, tt := range map[string]struct {
		image   []byte
		release string
	}{
		"an image": {image, "6.1.0-50-cloud-amd64"}, "another file": {none, ""}, "cut short": {image[:0x318], ""}, "empty": {nil, ""},
	} {
		if err := os.WriteFile(path, tt.image, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := releaseOf(path); got != tt.release || (err == nil) != (tt.release != "") {
			t.Errorf("release of %s = %q, %v, want %q", name, got, err, tt.release)
		}
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
