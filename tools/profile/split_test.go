package profile

import (
	"testing"

	"ustack/symbolize"
)

// TestPartsHaveEverything splits profiles of two events and of three processes, one of which
// runs a second program, and one of which has no value.
func TestPartsHaveEverything(t *testing.T) {
	frames := []symbolize.Frame{{Name: "f"}}
	known := []Process{{PID: 7, Title: "sh 7"}, {PID: 8, Title: "node 8", Node: "v22.1.0", V8: "12.4"}, {PID: 7, Title: "node 7", Node: "v24.0.0", V8: "13.6"}}
	all := []*Profile{
		{
			Total: 17, Lost: 3, Truncated: 1, UnknownFrames: 2, Hz: 99, Processes: known,
			Stacks: []Stack{{Value: 5, PID: 8, Frames: frames}, {Value: 11, PID: 7, Frames: frames}, {Value: 1, PID: 7, TID: 2, Frames: frames}, {PID: 9, Frames: frames}},
		},
		{
			ValueType: ValueType{"faults", "count"}, Total: 13, Processes: known,
			Stacks: []Stack{{Value: 13, PID: 8, Frames: frames}},
		},
	}
	parts := Split(all)
	if len(parts) != 2 {
		t.Fatalf("parts = %d, want 2", len(parts))
	}
	for i, want := range []struct {
		process Process
		totals  [2]uint64
	}{{known[2], [2]uint64{12, 0}}, {known[1], [2]uint64{5, 13}}} {
		part := parts[i]
		if part.Process != want.process || len(part.Profiles) != 2 {
			t.Fatalf("part %d = %+v with %d profiles, want %+v with 2", i, part.Process, len(part.Profiles), want.process)
		}
		for j, p := range part.Profiles {
			if p.Total != want.totals[j] || p.Node != want.process.Node || p.ValueType != all[j].ValueType || p.Hz != all[j].Hz {
				t.Errorf("profile %d of part %d has %d of %+v at %d Hz of Node.js %s", j, i, p.Total, p.ValueType, p.Hz, p.Node)
			}
			if err := p.Check(); err != nil {
				t.Errorf("profile %d of part %d: %v", j, i, err)
			}
			if p.Lost+p.Truncated+p.UnknownFrames > 0 {
				t.Errorf("profile %d of part %d has what was lost of all", j, i)
			}
		}
	}
}
