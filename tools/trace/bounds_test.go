package trace

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"ustack/bpf"
)

// record is what the kernel sends for a function or script with that text.
func record(n bpf.TraceName, text string) []byte {
	n.Length = uint32(copy(n.Text[:], text))
	return append([]byte(nil), unsafe.Slice((*byte)(unsafe.Pointer(&n)), unsafe.Sizeof(n))...)
}

// heapInUse returns the heap's size after a collection.
func heapInUse() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// TestEndlessFunctionsAreBounded has a program create far more functions, each in its
// own script, than are kept: the dropped ones are counted, and memory stays bounded.
func TestEndlessFunctionsAreBounded(t *testing.T) {
	const beyond = 10_007
	table := NewTable(Maps{})
	name := strings.Repeat("n", 512)
	before := heapInUse()
	for i := range maxFunctions + beyond {
		script := int32(i + 1)
		table.Script(record(bpf.TraceName{Script: script}, fmt.Sprintf("/srv/%d.js", i)))
		table.Function(record(bpf.TraceName{Id: uint64(i), Script: script}, name))
	}
	for i := range 100 { // those that are known may come again
		table.Function(record(bpf.TraceName{Id: uint64(i)}, name))
		table.Script(record(bpf.TraceName{Script: int32(i + 1)}, "/srv/again.js"))
	}
	if got, limit := heapInUse()-before, uint64(200<<20); got > limit {
		t.Errorf("heap grew by %d bytes, want %d at most", got, limit)
	}
	table.reportDropped()
	want := []string{
		fmt.Sprintf("%d functions have no names: at most %d are kept", beyond, maxFunctions),
		fmt.Sprintf("%d scripts have no names, and their functions no lines: at most %d are kept", maxFunctions+beyond-maxScripts, maxScripts),
	}
	var got []string
	for _, err := range table.Diagnostics() {
		got = append(got, err.Error())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("diagnostics (-want +got):\n%s", diff)
	}
	runtime.KeepAlive(table)
}

func TestFewFunctionsAreAllKept(t *testing.T) {
	table := NewTable(Maps{})
	table.Script(record(bpf.TraceName{Script: 1}, "/srv/a.js"))
	table.Function(record(bpf.TraceName{Id: 1, Script: 1}, "f"))
	table.reportDropped()
	if err := errors.Join(table.Diagnostics()...); err != nil {
		t.Errorf("diagnostics = %v, want none", err)
	}
}
