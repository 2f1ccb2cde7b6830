// Package benchtable prints what benchmarks measure as tables, and keeps the tables for
// BENCHMARKS.md.
package benchtable

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"
)

// Dir is the environment variable that names the directory where tables are kept.
const Dir = "USTACK_TABLES"

// A Table has a row for each measurement.
type Table struct {
	title  string
	method string
	rows   [][]string // the first has the columns' titles
}

// New returns an empty table. The method is Markdown that says how its rows are measured.
func New(title, method string, columns ...string) *Table {
	return &Table{title, method, [][]string{columns}}
}

// Row adds a row.
func (t *Table) Row(cells ...string) { t.rows = append(t.rows, cells) }

// Print prints the table, and keeps it as Markdown if a directory for tables is named. A
// table without rows is neither printed nor kept.
func (t *Table) Print(b testing.TB) {
	b.Helper()
	if len(t.rows) == 1 {
		return
	}
	fmt.Printf("\n%s\n", t)
	dir := os.Getenv(Dir)
	if dir == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(dir, t.title+".md"), []byte(t.Markdown()), 0o644); err != nil {
		b.Error(err)
	}
}

// String returns the table with aligned columns.
func (t *Table) String() string {
	var text bytes.Buffer
	w := tabwriter.NewWriter(&text, 0, 8, 2, ' ', 0)
	for _, row := range t.rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush() // to memory
	return text.String()
}

// Markdown returns the table as a section of a Markdown document.
func (t *Table) Markdown() string {
	var text strings.Builder
	fmt.Fprintf(&text, "## %s\n\n%s\n\nMeasured on %s: %s.\n\n", t.title, t.method, time.Now().UTC().Format(time.DateOnly), machine())
	escape := strings.NewReplacer("|", `\|`, "<", "&lt;")
	for i, row := range t.rows {
		for _, cell := range row {
			text.WriteString("| " + escape.Replace(cell) + " ")
		}
		text.WriteString("|\n")
		if i == 0 {
			text.WriteString(strings.Repeat("|---", len(row)) + "|\n")
		}
	}
	return text.String()
}

// machine describes the machine: what its CPUs are, how many, and the kernel.
func machine() string {
	cpu := "unknown CPU"
	info, _ := os.ReadFile("/proc/cpuinfo") // what cannot be read is unknown
	if model := regexp.MustCompile(`(?m)^model name\s*: (.*)$`).FindSubmatch(info); model != nil {
		cpu = string(model[1])
	}
	var name unix.Utsname
	_ = unix.Uname(&name) // it fails for a bad address only
	release, _, _ := strings.Cut(unix.ByteSliceToString(name.Release[:]), "-")
	return fmt.Sprintf("%s, %d CPUs, Linux %s, %s", cpu, runtime.NumCPU(), release, runtime.GOARCH)
}
