package v8_test

import (
	"testing"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/code"
	"ustack/testdata/nodetest"
)

func TestFunctionsAreNamedAsV8NamesThem(t *testing.T) {
	v8.EachRelease(t, func(t *testing.T, path string) {
		p := nodetest.Pause(t, path, "--allow-natives-syntax", "--expose-gc", "testdata/functions.js")
		h := v8.HeapAt(t, p.Memory, v8.InspectFile(t, path))
		type truth struct {
			Name, Inferred              string
			Script, Start, Line, Column int
			Length                      int
		}
		n := nodetest.Described(t, p, func(want truth, addr uint64) {
			f, err := v8.FunctionAt(h, addr)
			if err != nil {
				t.Errorf("%s: %v", want.Name, err)
				return
			}
			got := truth{Name: f.String(), Inferred: f.Inferred, Script: f.ScriptID, Start: f.Start}
			if f.Script != 0 {
				source, err := code.ReadScript(h, f.Script, f.ScriptID)
				if err != nil {
					t.Errorf("%s: %v", want.Name, err)
				}
				got.Line, got.Column = source.Position(f.Start)
				got.Length = lengthOf(source, want.Length)
			}
			if got != want {
				t.Errorf("read %+v, want %+v", got, want)
			}
		})
		if want := 43; n != want {
			t.Errorf("read %d functions, want %d", n, want)
		}
	})
}

// lengthOf returns length if it is that of a source, in UTF-16 code units, and -1
// otherwise.
func lengthOf(s code.Source, length int) int {
	last, _ := s.Position(length)
	behind, _ := s.Position(length + 1)
	if last == 0 || behind != 0 {
		return -1
	}
	return length
}
