package value_test

import (
	"testing"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/value"
	"ustack/testdata/nodetest"
)

// TestStacksAreAsV8FormatsThem compares the stacks of errors that no program has
// asked for with those of errors made at the same place, which V8 has formatted.
func TestStacksAreAsV8FormatsThem(t *testing.T) {
	nodetest.EachNode(t, func(t *testing.T, path string) {
		p := nodetest.Pause(t, path, "--allow-natives-syntax", "--stack-trace-limit=15", "testdata/errors.js")
		h := heapOf(t, path, p.Memory)
		type truth struct{ Name, Class, Stack string }
		n := nodetest.Described(t, p, func(want truth, addr uint64) {
			o, err := h.Object(v8.Ref(addr))
			if err != nil {
				t.Errorf("%s: %v", want.Name, err)
				return
			}
			e, err := value.ReadError(h, o)
			if err != nil || e.Stack != want.Stack {
				t.Errorf("%s: stack = %v\n%s\nwant\n%s", want.Name, err, e.Stack, want.Stack)
			}
			if class, err := h.Class(o); class != want.Class || err != nil {
				t.Errorf("%s: class = %q, %v, want %q", want.Name, class, err, want.Class)
			}
			if len(e.Sites) == 0 {
				t.Errorf("%s: the stack was not made from recorded calls", want.Name)
			}
		})
		if want := 56; n != want {
			t.Errorf("read %d errors, want %d", n, want)
		}
	})
}

// heapOf returns the heap of the process that runs a node.
func heapOf(t *testing.T, path string, mem v8.Memory) *v8.Heap {
	t.Helper()
	f := nodetest.OpenELF(t, path)
	b, err := v8.Inspect(f)
	if err != nil {
		t.Fatal(err)
	}
	h, err := v8.NewHeap(mem, b)
	if err != nil {
		t.Fatal(err)
	}
	return h
}
