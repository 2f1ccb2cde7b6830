package code

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"ustack/symbolize/v8"
	"ustack/testdata/nodetest"
)

// testChunk is the number of characters that a source is scanned in at a time.
const testChunk = 1 << 14

// place is a line and a column, from 1.
type place struct{ Line, Column int }

// sourceOf returns the lines of a script from its file's contents. Node.js wraps
// CommonJS modules without moving their text, and passes a byte order mark to V8
// unchanged.
func sourceOf(file []byte) (Source, error) {
	var lines lineScanner
	units := make([]uint16, 0, testChunk)
	for len(file) > 0 {
		r, size := utf8.DecodeRune(file)
		file = file[size:]
		units = append(units, uint16(min(r, 0xffff)))
		if r > 0xffff {
			units = append(units, 0xffff) // the other half of a surrogate pair: neither half ends a line
		}
		if len(units) >= testChunk-1 || len(file) == 0 {
			lines.scan(units)
			units = units[:0]
		}
	}
	return lines.finish(Source{})
}

func TestPositionsAreLinesAndColumns(t *testing.T) {
	const text = "ab\ncd\r\nef\rgh\u2028ij\u2029\n\r"
	s, err := sourceOf([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	want := map[int]place{
		0: {1, 1}, 2: {1, 3}, 3: {2, 1}, 5: {2, 3}, 6: {2, 4}, 7: {3, 1}, 9: {3, 3}, 10: {4, 1},
		12: {4, 3}, 13: {5, 1}, 16: {6, 1}, 17: {7, 1}, 18: {8, 1}, -1: {}, 19: {},
	}
	got := map[int]place{}
	for offset := range want {
		line, column := s.Position(offset)
		got[offset] = place{line, column}
		if back, ok := s.Offset(line, column); ok != (line > 0) || ok && back != offset {
			t.Errorf("offset of %d:%d = %d, %t, want %d", line, column, back, ok, offset)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("places differ (-want +got):\n%s", diff)
	}
}

func TestColumnsCountUTF16(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		offset     int
		want       place
	}{
		{"byte order mark", "\ufeffab", 1, place{1, 2}},
		{"two bytes", "é\nüx", 3, place{2, 2}},
		{"outside of the basic plane", "🚀🚀\nx", 5, place{2, 1}},
		{"not UTF-8", "\xff\xff\nx", 3, place{2, 1}},
		{"empty", "", 0, place{1, 1}},
		{"Latin-1's next line does not end a line", "a\u0085b", 2, place{1, 3}},
	} {
		s, err := sourceOf([]byte(tt.text))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		line, column := s.Position(tt.offset)
		if got := (place{line, column}); got != tt.want {
			t.Errorf("%s: offset %d = %v, want %v", tt.name, tt.offset, got, tt.want)
		}
	}
}

func TestOffsetsOfTheFirstLineAreAdded(t *testing.T) {
	s := Source{starts: []uint32{4}, length: 8, line: 10, column: 5}
	for offset, want := range map[int]place{0: {11, 6}, 3: {11, 9}, 4: {12, 1}, 8: {12, 5}} {
		line, column := s.Position(offset)
		if got := (place{line, column}); got != want {
			t.Errorf("offset %d = %v, want %v", offset, got, want)
		}
		if back, ok := s.Offset(want.Line, want.Column); !ok || back != offset {
			t.Errorf("offset of %v = %d, %t, want %d", want, back, ok, offset)
		}
	}
	for _, outside := range []place{{10, 6}, {11, 5}, {11, 10}, {12, 0}, {12, 6}, {13, 1}, {0, 0}} {
		if back, ok := s.Offset(outside.Line, outside.Column); ok {
			t.Errorf("offset of %v = %d, want none", outside, back)
		}
	}
}

func TestChunksDoNotSplitLineEnds(t *testing.T) {
	text := strings.Repeat("line\r\n", 2*testChunk/5) + "\r"
	s, err := sourceOf([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var pieces lineScanner
	for _, u := range utf16.Encode([]rune(text)) {
		pieces.scan([]uint16{u})
	}
	want, err := pieces.finish(Source{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.starts, s.starts); diff != "" || s.length != len(text) {
		t.Errorf("length = %d, want %d; line starts differ (-want +got):\n%s", s.length, len(text), diff)
	}
}

func TestTooManyLinesAreAnError(t *testing.T) {
	if _, err := sourceOf([]byte(strings.Repeat("\n", maxLines+1))); !errors.Is(err, errTooManyLines) {
		t.Errorf("error = %v, want %v", err, errTooManyLines)
	}
}

// Files can stand in for memory only if Node.js passes their text to V8
// unchanged.
func TestFilesHaveTheLinesOfTheirScripts(t *testing.T) {
	const program = "// π 🚀\r\n'use strict';\r\n" +
		"module.exports = function target() {}; \u2028 // ends a line\r\n" +
		"require('fs').writeSync(1, JSON.stringify({ name: 1 }) + '\\n');\r\n" +
		"%DebugPrint(module.exports);\r\n" +
		"require('fs').writeSync(1, 'ready\\n'); require('fs').readSync(0, Buffer.alloc(1));"
	module := strings.NewReplacer("module.exports = function", "import fs from 'fs'; const f = function",
		"module.exports", "f", "require('fs')", "fs").Replace(program)
	for name, text := range map[string]string{"common.js": program, "mark.js": "\ufeff" + program, "module.mjs": module} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), name)
			if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
			want, err := sourceOf([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			nodetest.EachNode(t, func(t *testing.T, path string) {
				p := nodetest.Pause(t, path, "--allow-natives-syntax", file)
				h := heapAt(t, p.Memory, inspect(t, path))
				n := nodetest.Described(t, p, func(_ struct{}, addr uint64) {
					f, err := functionAt(h, addr)
					if err != nil {
						t.Fatal(err)
					}
					got, err := ReadScript(h, f.Script, f.ScriptID)
					if err != nil {
						t.Fatal(err)
					}
					if diff := cmp.Diff(want, got, cmp.AllowUnexported(Source{})); diff != "" {
						t.Errorf("sources differ (-file +memory):\n%s", diff)
					}
					checkText(t, h, f, text)
				})
				if n != 1 {
					t.Errorf("read %d functions, want 1", n)
				}
			})
		})
	}
}

// checkText checks that a function's script has that text, and what is not read.
func checkText(t *testing.T, h *v8.Heap, f v8.Function, want string) {
	t.Helper()
	if got, err := ReadText(h, f.Script, f.ScriptID, len(want)); err != nil || got != want {
		t.Errorf("text = %q, error %v, want %q", got, err, want)
	}
	if got, err := ReadText(h, f.Script, f.ScriptID, 10); err == nil {
		t.Errorf("text with a limit of 10 = %q, want an error", got)
	}
	if _, err := ReadText(h, f.Script, f.ScriptID+1, len(want)); !errors.Is(err, ErrNotScript) {
		t.Errorf("error for another script = %v, want %v", err, ErrNotScript)
	}
}

func TestMovedScriptIsNotRead(t *testing.T) {
	nodetest.EachNode(t, func(t *testing.T, path string) {
		b := inspect(t, path)
		p := nodetest.Pause(t, path, "--allow-natives-syntax", "--expose-gc", "../testdata/functions.js")
		h := heapAt(t, p.Memory, b)
		seen := false
		nodetest.Described(t, p, func(_ struct{}, addr uint64) {
			f, err := functionAt(h, addr)
			if err != nil || f.Script == 0 || seen {
				return
			}
			seen = true
			for _, addr := range []uint64{f.Script + 8, addr, 0, 1 << 63} {
				if _, err := ReadScript(h, addr, f.ScriptID); err == nil {
					t.Errorf("read script %d at %#x, where it is not", f.ScriptID, addr)
				}
				if _, err := ReadText(h, addr, f.ScriptID, 1<<20); err == nil {
					t.Errorf("read text of script %d at %#x, where it is not", f.ScriptID, addr)
				}
			}
			if _, err := ReadScript(h, f.Script, f.ScriptID+1); !errors.Is(err, ErrNotScript) {
				t.Errorf("error for another script = %v, want %v", err, ErrNotScript)
			}
		})
	})
}

// A fadingMemory is that of a process that ends after some reads.
type fadingMemory struct {
	v8.Memory
	left    int  // reads
	refused bool // a read came after those
}

func (m *fadingMemory) ReadAt(p []byte, addr uint64) (int, error) {
	if m.left--; m.left < 0 {
		m.refused = true
		return 0, io.ErrUnexpectedEOF
	}
	return m.Memory.ReadAt(p, addr)
}

// TestProcessMayEndAtAnyRead: what cannot be read to its end is an error.
func TestProcessMayEndAtAnyRead(t *testing.T) {
	const most = 10_000 // reads of one thing
	nodetest.EachNode(t, func(t *testing.T, path string) {
		b := inspect(t, path)
		p := nodetest.Pause(t, path, "--allow-natives-syntax", "--expose-gc", "../testdata/functions.js")
		var f v8.Function
		var function uint64
		nodetest.Described(t, p, func(_ struct{}, addr uint64) {
			if read, err := functionAt(heapAt(t, p.Memory, b), addr); err == nil && read.Script != 0 {
				f, function = read, addr
			}
		})
		for name, read := range map[string]func(*v8.Heap) error{
			"script": func(h *v8.Heap) error { _, err := ReadScript(h, f.Script, f.ScriptID); return err },
			"text":   func(h *v8.Heap) error { _, err := ReadText(h, f.Script, f.ScriptID, 1<<20); return err },
			"map":    func(h *v8.Heap) error { _, err := ReadMapURL(h, f.Script, f.ScriptID, 1<<10); return err },
			"name":   func(h *v8.Heap) error { ScriptName(h, f.Script); return nil },
			"bytecodes": func(h *v8.Heap) error {
				fn, err := h.Object(v8.Ref(function))
				if err != nil {
					return err
				}
				shared, err := h.FieldOf(fn, "JSFunction", "shared_function_info")
				if err != nil {
					return err
				}
				_, err = (&Finder{heap: h, layout: &b.Layout, code: codeLayoutOf(b)}).BytecodeTable(shared)
				return err
			},
		} {
			left, refused := 0, true
			for ; refused && left < most; left++ {
				m := &fadingMemory{Memory: p.Memory, left: left}
				err := read(heapAt(t, m, b))
				if refused = m.refused; refused && err == nil && name != "name" {
					t.Fatalf("the %s was read although read %d was refused", name, left)
				}
			}
			if refused || left < 2 {
				t.Errorf("reading the %s took %d reads, want between 2 and %d", name, left, most)
			}
		}
	})
}

// A coverage tool makes V8 put a DebugInfo between a function and its script.
func TestScriptsAreFoundUnderCoverage(t *testing.T) {
	t.Setenv("NODE_V8_COVERAGE", t.TempDir())
	nodetest.EachNode(t, func(t *testing.T, path string) {
		b := inspect(t, path)
		p := nodetest.Pause(t, path, "--allow-natives-syntax", "--expose-gc", "../testdata/functions.js")
		h := heapAt(t, p.Memory, b)
		behind := 0
		nodetest.Described(t, p, func(want struct {
			Name   string
			Script int
		}, addr uint64,
		) {
			f, err := functionAt(h, addr)
			if err != nil || f.ScriptID != want.Script {
				t.Errorf("script of %s = %d, %v, want %d", want.Name, f.ScriptID, err, want.Script)
			}
			behind += debugInfos(t, h, addr)
		})
		if (behind > 0) != (b.Layout.DebugInfo != 0) {
			t.Errorf("%d scripts are behind a DebugInfo, whose type is %d", behind, b.Layout.DebugInfo)
		}
	})
}

// debugInfos returns 1 if the function at addr has a DebugInfo before its script.
func debugInfos(t *testing.T, h *v8.Heap, addr uint64) int {
	t.Helper()
	fn, err := h.Object(v8.Ref(addr))
	if err != nil {
		t.Fatal(err)
	}
	shared, err := h.SharedOf(fn)
	if err != nil {
		t.Fatal(err)
	}
	script, err := h.Field(shared, int(h.Binary().Layout.SharedScript))
	if err != nil {
		t.Fatal(err)
	}
	if o, err := h.Object(script); err == nil && o.Map.Type == h.Binary().Layout.DebugInfo && o.Map.Type != 0 {
		return 1
	}
	return 0
}
