package trace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"golang.org/x/sys/unix"

	"ustack/bpf"
	"ustack/symbolize/elfsym"
	"ustack/symbolize/process"
)

// TestLinesOfEndedProcessComeFromTheSameText looks up a function's line in its
// script's file: in the unchanged file, in others, and in what is not a file.
func TestLinesOfEndedProcessComeFromTheSameText(t *testing.T) {
	const source = "'use strict';\n\nconst é = '😀';\r\nfunction late(a) {\n  return a;\n}\n"
	const at = "(a) {\n  return a;"
	start := len(utf16.Encode([]rune(source[:strings.Index(source, at)])))
	units := len(utf16.Encode([]rune(source)))
	o := opening{start: start, units: units, text: at}
	whole := opening{start: start, units: units, text: source[strings.Index(source, at):], whole: true}
	for _, tt := range []struct {
		name, file string
		o          opening
		err        string
	}{
		{"as it was", source, o, ""},
		{"to its end", source, whole, ""},
		{"with a byte order mark", "\ufeff" + source, o, ""},
		{"another function", strings.Replace(source, "return a", "return 1", 1), o, "not the same"},
		{"cut short", source, opening{start: start, units: units, text: at, whole: true}, "not the same"},
		{"longer", source + "\n", o, "not the same"},
		{"of unknown text", source, opening{start: start, units: units}, "not the same"},
		{"before a start beyond its end", source, opening{start: units + 1, units: units, text: at}, "not the same"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a script.js")
			if err := os.WriteFile(path, []byte(tt.file), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{path, "file://" + strings.ReplaceAll(path, " ", "%20") + "?v=2"} {
				line, column, err := findLine(t, name, tt.o)
				if tt.err == "" && (line != 4 || column != 14 || err != nil) {
					t.Errorf("%s: %d:%d, %v, want 4:14", name, line, column, err)
				}
				if tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
					t.Errorf("%s: %d:%d, %v, want an error with %q", name, line, column, err, tt.err)
				}
			}
		})
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		pipe: "not a regular file", "/dev/zero": "not a regular file", "/none": "no such file",
		"relative.js": "not a file", "evalmachine.<anonymous>": "not a file", "file:///%zz": "not a file",
		"https://a.example/b.js": "not a file",
	} {
		if _, _, err := findLine(t, name, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", name, err, want)
		}
	}
}

// TestFunctionsWithoutLineAreCounted has functions of a process that ended before its
// scripts, which are no files, could be read.
func TestFunctionsWithoutLineAreCounted(t *testing.T) {
	const functions = 7
	table := NewTable(Maps{})
	p, err := process.Open(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	table.owners[1] = &target{process: p, binary: &binary{elf: new(elfsym.File)}, closed: true}
	for i := range functions {
		n := bpf.TraceName{Owner: 1 << 32, Id: uint64(i + 1), Script: int32(i + 1), Units: 100}
		table.Script(record(n, fmt.Sprintf("evalmachine.<%d>", i)))
		table.Function(record(n, "f"))
		table.Text(record(n, "() {}"))
	}
	table.reportDropped()
	err = errors.Join(table.Diagnostics()...)
	for _, want := range []string{fmt.Sprintf("%d functions have no line", functions), "evalmachine.<0> of process"} {
		if err == nil || strings.Count(err.Error(), want) != 1 {
			t.Errorf("diagnostics = %v, want %q once", err, want)
		}
	}
}

// TestSourceIsFoundInBinary searches for a module's source among others.
func TestSourceIsFoundInBinary(t *testing.T) {
	const module = "'use strict';\nfunction early() {}\nfunction late(a) {\n  return a; // über\n}\n"
	wide, _ := encode(utf16.Encode([]rune(module)), 2)
	narrow, _ := encode(utf16.Encode([]rune(module)), 1)
	start := strings.Index(module, "(a)")
	units := len(utf16.Encode([]rune(module)))
	o := opening{start: start, units: units, text: "(a) {\n  return a; // über"}
	far := strings.Repeat("\x00", searchStep-40) // the text is across two steps
	other := strings.Replace(string(narrow), "early", "later", 1)
	for _, tt := range []struct {
		name, file string
		found      bool
	}{
		{"bytes", far + string(narrow) + "rest", true},
		{"units", far + string(wide) + "rest", true},
		{"twice", string(narrow) + far + string(wide), true},
		{"at the end", string(narrow), true},
		{"in another source, too", string(narrow) + other, false},
		{"cut at the start", string(narrow[9:]), false},
		{"cut at the end", string(narrow[:len(narrow)-1]), false},
		{"without it", far, false},
	} {
		source, err := searchSource(strings.NewReader(tt.file), o)
		if got := string(utf16.Decode(source)); tt.found && (got != module || err != nil) || !tt.found && err == nil {
			t.Errorf("%s: %q, %v, want found: %v", tt.name, got, err, tt.found)
		}
	}
}

// findLine looks up a function's line for a process with our root.
func findLine(t *testing.T, name string, o opening) (line, column int, err error) {
	t.Helper()
	root, err := os.OpenFile("/", unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	table := NewTable(Maps{})
	defer table.files.Close()
	return table.ended.find(table, &target{root: root, binary: new(binary)}, scriptKey{owner: 1, id: 1}, name, o)
}
