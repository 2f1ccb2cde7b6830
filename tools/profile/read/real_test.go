package read_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ustack/symbolize"
	"ustack/testdata/nodetest"
	"ustack/tools/profile"
	"ustack/tools/profile/read"
)

// computing is a program that spends its time in one function, for as many rounds as its
// argument says.
const computing = `function spin() { let x = 1; for (let i = 0; i < 1e6; i++) { x ^= x << 13; x ^= x >>> 17; x ^= x << 5; } return x; }
let sum = 0;
for (let i = 0; i < Number(process.argv[2]); i++) sum += spin();
`

// readFile reads a profile, and checks that most of it is in spin, where that is defined.
func readFile(t *testing.T, file, format string) *profile.Profile {
	t.Helper()
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	got, err := read.Profile(in, read.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Format != format {
		t.Errorf("format = %s, want %s", got.Format, format)
	}
	var inside uint64
	for _, s := range got.Profile.Stacks {
		for _, f := range s.Frames {
			if f.Kind == symbolize.JS && f.Name == "spin" && strings.HasSuffix(f.File, "computing.js") && f.Line == 1 {
				inside += s.Value
				break
			}
		}
	}
	if total := got.Profile.Total; 2*inside < total || total == 0 {
		t.Errorf("%d of %d are in spin, want most", inside, total)
	}
	return got.Profile
}

func program(t *testing.T) string {
	t.Helper()
	script := filepath.Join(t.TempDir(), "computing.js")
	if err := os.WriteFile(script, []byte(computing), 0o644); err != nil {
		t.Fatal(err)
	}
	return script
}

func command(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = t.TempDir()
	return cmd
}

func TestPerfOfEachNode(t *testing.T) {
	perf, err := exec.LookPath("perf")
	if err != nil {
		nodetest.MustRun(t, "needs perf")
	}
	nodetest.Root(t)
	nodetest.EachNode(t, func(t *testing.T, node string) {
		data := filepath.Join(t.TempDir(), "perf.data")
		cmd := command(t, perf, "record", "-q", "-F", "499", "-e", "cpu-clock", "-g", "-o", data, node, "--perf-basic-prof", program(t), "300")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("perf record: %v\n%s", err, out)
		}
		text, err := command(t, perf, "script", "-i", data).Output()
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "perf.txt")
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
		if p := readFile(t, file, "perf"); p.Hz != 499 {
			t.Errorf("rate = %d Hz, want 499", p.Hz)
		}
	})
}

func TestCPUProfileOfEachNode(t *testing.T) {
	nodetest.EachNode(t, func(t *testing.T, node string) {
		dir := t.TempDir()
		cmd := command(t, node, "--cpu-prof", "--cpu-prof-dir="+dir, "--cpu-prof-name=a.cpuprofile", program(t), "300")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("node: %v\n%s", err, out)
		}
		readFile(t, filepath.Join(dir, "a.cpuprofile"), "cpuprofile")
	})
}
