package hosttest

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	newPlace      = 1 << 16 // where no recording has memory
	functionBytes = 64
	maxLinks      = 256 // frames of a recording
)

// TestFunctionsAreNamedWhileTheyMove moves each function of a recorded stack as V8 does: it has
// its new address in place of its map, and at that only its map so far.
func TestFunctionsAreNamedWhileTheyMove(t *testing.T) {
	h := newHost(t)
	moved := 0
	for file, r := range recordings(t) {
		for _, function := range r.functions() {
			u, err := h.unwind(r.moving(function), 0)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(r.Frames, u.text()); diff != "" {
				t.Errorf("%s: frames while %#x moves (-before +now):\n%s", file, function, diff)
			}
			moved++
		}
	}
	if moved == 0 {
		t.Error("no recording has a function on its stack")
	}
}

// functions returns the addresses of the functions that the frames linked by frame pointers have.
func (r *recording) functions() (addresses []uint64) {
	l, memory := &r.Process.Layout, recordedMemory(r.Memory)
	fp := r.Registers.BP
	for range maxLinks {
		function, _ := memory.word(fp + uint64(int64(l.FpFunction)))
		if object, ok := memory.word(function - 1); ok && function&3 == 1 && object&3 == 1 {
			kind, _ := memory.word(object - 1 + uint64(l.MapInstanceType)&^7)
			kind = kind >> (l.MapInstanceType & 7 * 8) & 0xffff
			if kind >= uint64(l.FirstJsFunction) && kind <= uint64(l.LastJsFunction) && !slices.Contains(addresses, function-1) {
				addresses = append(addresses, function-1)
			}
		}
		next, ok := memory.word(fp)
		if !ok || next <= fp {
			break
		}
		fp = next
	}
	return addresses
}

// moving returns the recording while the object at address moves.
func (r *recording) moving(address uint64) *recording {
	moving := *r
	moving.Memory = slices.Clone(r.Memory)
	place := piece{Address: newPlace, Bytes: make([]byte, functionBytes)}
	for i, m := range moving.Memory {
		if address < m.Address || address-m.Address >= uint64(len(m.Bytes)) {
			continue
		}
		moving.Memory[i].Bytes = slices.Clone(m.Bytes)
		old := moving.Memory[i].Bytes[address-m.Address:][:8]
		copy(place.Bytes, old)
		binary.LittleEndian.PutUint64(old, newPlace)
	}
	moving.Memory = slices.Insert(moving.Memory, 0, place)
	return &moving
}
