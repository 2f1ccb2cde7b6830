package sourcemap

import (
	"testing"

	"ustack/symbolize"
)

func TestFramesKeepTheScriptsPositions(t *testing.T) {
	// A function of a.ts, code of b.ts within it, and code that comes from no source.
	m := parse(t, line(vlq(9, 0, 4, 9, 0), vlq(20, 0, 1, 0), vlq(10, 1, 1, 0), vlq(10)))
	f := symbolize.Frame{Kind: symbolize.JS, Name: "a", File: "/dist/out.js", Line: 1, Column: 11, Tier: symbolize.Maglev}
	got := m.Defined(f)
	want := symbolize.Frame{
		Kind: symbolize.JS, Name: "total", File: "/src/a.ts", Line: 5, Column: 10, Tier: symbolize.Maglev,
		GeneratedFile: "/dist/out.js", GeneratedLine: 1, GeneratedColumn: 11,
	}
	if got != want {
		t.Fatalf("frame = %+v, want %+v", got, want)
	}
	for column, line := range map[int]int{31: 6, 45: 0, 55: 0} {
		e := m.Executing(got, 1, column)
		if e.ExecutingLine != line || (e.ExecutingColumn > 0) != (line > 0) || e.GeneratedExecutingLine != 1 || e.GeneratedExecutingColumn != column {
			t.Errorf("executing at column %d: %+v, want line %d", column, e, line)
		}
	}
	f.Name = "(anonymous)"
	if got := m.Defined(f); got.Name != f.Name {
		t.Errorf("a function without a name has the name %q", got.Name)
	}
	unmapped := symbolize.Frame{Kind: symbolize.JS, Name: "a", File: "/dist/out.js", Line: 2, Column: 1}
	if got := m.Defined(unmapped); got != unmapped {
		t.Errorf("frame without a source = %+v", got)
	}
	if got := m.Executing(unmapped, 1, 31); got.ExecutingLine != 1 || got.ExecutingColumn != 31 || got.GeneratedExecutingLine != 0 {
		t.Errorf("frame without a source executes at %+v", got)
	}
	if got := (*Map)(nil).Executing((*Map)(nil).Defined(unmapped), 3, 4); got.ExecutingLine != 3 || got.ExecutingColumn != 4 || got.File != unmapped.File {
		t.Errorf("without a map: %+v", got)
	}
}
