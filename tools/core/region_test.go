package core

import (
	"debug/elf"
	"testing"
)

// TestRegionsAreTheProcesss compares what a core says of memory with what was
// mapped: nothing is lost where pages are left out.
func TestRegionsAreTheProcesss(t *testing.T) {
	mapped := sample()
	f, err := parse(made(t, mapped))
	if err != nil {
		t.Fatal(err)
	}
	regions := f.Regions()
	for _, m := range mapped {
		at := m.Start
		for _, r := range regions {
			if r.Start < m.Start || r.Start >= m.End {
				continue
			}
			if r.Start != at || r.End > m.End || r.Held > r.End-r.Start {
				t.Errorf("region %+v, want it to begin at %#x within %#x-%#x", r, at, m.Start, m.End)
			}
			if write := r.Perms&elf.PF_W != 0; write != m.Perms.Write() {
				t.Errorf("region %+v: writable %v, want %v", r, write, m.Perms.Write())
			}
			at = r.End
		}
		if at != m.End {
			t.Errorf("regions of %#x-%#x end at %#x", m.Start, m.End, at)
		}
	}
}
