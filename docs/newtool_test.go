// Package docs tests what the documents say.
package docs

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/testdata/nodetest"
)

// maxToolLines is what the example may have in Go and C together.
const maxToolLines = 150

// TestExampleToolCountsSystemCalls compiles the tool of new-tool.md and has it count
// calls of which the program states the number.
func TestExampleToolCountsSystemCalls(t *testing.T) {
	nodetest.Root(t)
	if _, err := exec.LookPath("clang-14"); err != nil {
		nodetest.MustRun(t, "no clang-14")
	}
	nodetest.NothingLeft(t, "on_call")
	tool := build(t, files(t))
	const calls = 1009
	script := filepath.Join(t.TempDir(), "guilty.js")
	program := `const fs = require('fs');
process.once('SIGUSR2', function guilty() {
  for (let i = 0; i < ` + strconv.Itoa(calls) + `; i++) fs.existsSync('/nonexistent/' + i);
  process.exit(0);
});
setInterval(() => {}, 1e6);
console.log('ready');
`
	if err := os.WriteFile(script, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	target := nodetest.Start(t, nodetest.Node(t, "22.23.3"), nodetest.Options{Script: script})
	cmd := exec.Command(tool, strconv.Itoa(target.PID))
	messages, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(messages); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "Counting") {
			target.Signal(unix.SIGUSR2)
		} else {
			t.Errorf("message: %s", lines.Text())
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if got := callsBelow(t, out.String(), "guilty", script); got < calls || got > calls+calls/10 {
		t.Errorf("calls below guilty = %d, want %d or a few more\n%s", got, calls, out.String())
	}
}

// callsBelow sums the counts of the stacks with that function.
func callsBelow(t *testing.T, out, function, file string) (sum int) {
	t.Helper()
	count, frame := 0, "    "+strconv.Quote(function)+" "+strconv.Quote(file)+":2"
	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		switch n, err := strconv.Atoi(line); {
		case err == nil:
			count = n
		case !strings.HasPrefix(line, "    "):
			t.Errorf("line %q is neither a count nor a frame", line)
		case line == frame:
			sum += count
		}
	}
	return sum
}

// files returns the files in new-tool.md, by path.
func files(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("new-tool.md")
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]string)
	lines := 0
	for _, block := range regexp.MustCompile("(?ms)^```(?:c|go) (\\S+)\n(.*?)^```$").FindAllSubmatch(text, -1) {
		found[string(block[1])] = string(block[2])
		lines += strings.Count(string(block[2]), "\n")
	}
	if len(found) != 2 || lines >= maxToolLines {
		t.Fatalf("%d files with %d lines, want 2 with fewer than %d", len(found), lines, maxToolLines)
	}
	return found
}

// build compiles the tool as if its files were in the module, and returns the binary.
func build(t *testing.T, files map[string]string) string {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	overlay := struct{ Replace map[string]string }{make(map[string]string)}
	for path, text := range files {
		file := filepath.Join(dir, filepath.Base(path))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay.Replace[filepath.Join(root, path)] = file
	}
	// The overlay is for Go; clang reads the headers in place.
	command(t, "go", "tool", "bpf2go", "-cc", "clang-14", "-strip", "llvm-strip-14", "-target", "amd64", "-go-package", "bpf",
		"-no-global-types", "-output-dir", dir, "Syscount", filepath.Join(dir, "syscount.bpf.c"),
		"--", "-O2", "-g", "-mcpu=v3", "-Wall", "-Werror", "-I"+filepath.Join(root, "bpf"))
	for _, name := range []string{"syscount_x86_bpfel.go", "syscount_x86_bpfel.o"} {
		overlay.Replace[filepath.Join(root, "bpf", name)] = filepath.Join(dir, name)
	}
	text, err := json.Marshal(overlay)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "overlay.json"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "syscount")
	command(t, "go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", binary, "ustack/cmd/syscount")
	return binary
}

func command(t *testing.T, name string, args ...string) {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	if err != nil {
		t.Fatal(err)
	}
}
