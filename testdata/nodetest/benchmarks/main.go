// Benchmarks writes BENCHMARKS.md from the tables that benchmarks kept in a directory; it keeps those that
// were not measured again.
//
//	USTACK_TABLES=DIR go test -run '^$' -bench . PACKAGE...
//	go run ./testdata/nodetest/benchmarks DIR
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
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

// write writes the file: the tables in dir, and those that the file has and dir has not. It fails if dir
// has none.
func write(dir string) error {
	names, err := filepath.Glob(filepath.Join(dir, "*.md"))
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return fmt.Errorf("no tables in %s", dir)
	}
	old, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	tables := tablesIn(string(old))
	for _, name := range names {
		table, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		maps.Copy(tables, tablesIn(string(table)))
	}
	text := bytes.NewBufferString(header())
	for _, title := range slices.Sorted(maps.Keys(tables)) {
		fmt.Fprintf(text, "\n## %s\n%s", title, tables[title])
	}
	return os.WriteFile(file, text.Bytes(), 0o644)
}

// tablesIn returns the sections of a document by their titles.
func tablesIn(text string) map[string]string {
	tables := make(map[string]string)
	for _, section := range strings.Split("\n"+text, "\n## ")[1:] {
		title, rest, _ := strings.Cut(section, "\n")
		tables[title] = strings.TrimRight(rest, "\n") + "\n"
	}
	return tables
}

func header() string {
	return fmt.Sprintf(`# Benchmarks

%s writes this file. The rows of a table are from one run; a table that is not measured
again stays as it was. Compared with: %s.

A and B alternate: each measurement with a tool stands between two without, in the same
process where that is possible, and the figure is its ratio to their mean, so that the
machine's drift is in both. Results are medians; a goal is what the project asks of itself.
`, "`make bench`", strings.Join(rivals(), ", "))
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
