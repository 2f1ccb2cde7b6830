// Benchmarks writes BENCHMARKS.md from the tables that benchmarks kept in a directory.
//
//	USTACK_TABLES=DIR go test -run '^$' -bench . PACKAGE...
//	go run ./testdata/nodetest/benchmarks DIR
package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const file = "BENCHMARKS.md"

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: benchmarks DIR")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "benchmarks:", err)
		os.Exit(1)
	}
}

// write writes the file. It fails if there are no tables.
func write(dir string) error {
	names, err := filepath.Glob(filepath.Join(dir, "*.md")) // sorted
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return fmt.Errorf("no tables in %s", dir)
	}
	text := bytes.NewBufferString(header())
	for _, name := range names {
		table, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(text, "\n%s", table)
	}
	return os.WriteFile(file, text.Bytes(), 0o644)
}

func header() string {
	return fmt.Sprintf(`# Benchmarks

%s writes this file. The rows of a table are from one run.

- Date: %s
- Machine: %s, %d CPUs, Linux %s, %s
- Compared with: %s

A and B alternate: each measurement with a tool stands between two without, in the same
process where that is possible, and the figure is its ratio to their mean, so that the
machine's drift is in both. Results are medians; a goal is what the project asks of itself.
`, "`make bench`", time.Now().UTC().Format(time.DateOnly), processor(), runtime.NumCPU(), kernel(), runtime.GOARCH, strings.Join(rivals(), ", "))
}

// processor returns the model of the CPU.
func processor() string {
	info, _ := os.ReadFile("/proc/cpuinfo") // what cannot be read is unknown
	if model := regexp.MustCompile(`(?m)^model name\s*: (.*)$`).FindSubmatch(info); model != nil {
		return string(model[1])
	}
	return "unknown CPU"
}

func kernel() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "unknown"
	}
	release, _, _ := strings.Cut(unix.ByteSliceToString(name.Release[:]), "-")
	return release
}

// rivals returns the versions of the tools that ours are compared with.
func rivals() []string {
	var all []string
	for _, command := range []string{"perf --version", "bpftrace --version", "gdb --version"} {
		words := strings.Fields(command)
		out, err := exec.Command(words[0], words[1:]...).Output()
		line, _, _ := strings.Cut(string(out), "\n")
		if err != nil {
			line = words[0] + ", which is not installed"
		}
		all = append(all, line)
	}
	return all
}
