package core

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestResidentPagesAreInTheNote(t *testing.T) {
	want := []Run{
		{Start: 0x1000, End: 0x3000},
		{Start: 0x3000, End: 0x4000, File: true},
		{Start: 0x8000, End: 0x9000, Swapped: true},
	}
	var n notes
	n.addResident(want)
	f := new(File)
	f.readNotes(n.Bytes())
	got, exact := f.Resident()
	if diff := cmp.Diff(want, got); diff != "" || !exact {
		t.Errorf("exact = %v, want true, and runs (-want +got):\n%s", exact, diff)
	}
}

func TestDamagedNotesOfResidentPagesAreIgnored(t *testing.T) {
	for name, words := range map[string][]uint64{
		"empty run":   {0x1000, 0x1000},
		"backward":    {0x2000, 0x1000},
		"overlapping": {0x1000, 0x3000, 0x2000, 0x4000},
		"unaligned":   {0x1000, 0x1008},
		"half a run":  {0x1000, 0x2000, 0x3000},
	} {
		var desc bytes.Buffer
		binary.Write(&desc, binary.LittleEndian, words)
		f := new(File)
		f.readResident(desc.Bytes())
		if runs, exact := f.Resident(); exact || len(runs) > 0 {
			t.Errorf("%s: runs = %v, exact %v, want none", name, runs, exact)
		}
	}
}

func FuzzResident(f *testing.F) {
	var n notes
	n.addResident([]Run{{Start: 0x1000, End: 0x3000}, {Start: 0x3000, End: 0x4000, File: true}})
	f.Add(n.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		file := new(File)
		file.readNotes(data)
		end := uint64(0)
		runs, _ := file.Resident()
		for _, r := range runs {
			if r.Start < end || r.End <= r.Start {
				t.Fatalf("run %+v after %#x", r, end)
			}
			end = r.End
		}
	})
}
