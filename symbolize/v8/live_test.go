package v8

import (
	"testing"

	"ustack/testdata/nodetest"
)

// releases are the official binaries that everything is checked against, and
// their versions of V8.
var releases = []struct{ node, v8 string }{
	{"16.20.2", "9.4.146.26"},
	{"18.20.8", "10.2.154.26"},
	{"20.20.2", "11.3.244.8"},
	{"22.23.3", "12.4.254.21"},
	{"24.21.0", "13.6.233.17"},
	{"25.9.0", "14.1.146.11"},
	{"26.10.0", "14.6.202.34"},
}

// forEachRelease runs test with the executable of each release.
func forEachRelease(t *testing.T, test func(t *testing.T, path string)) {
	for _, r := range releases {
		t.Run(r.node, func(t *testing.T) { test(t, nodetest.Node(t, r.node)) })
	}
}

func inspect(t *testing.T, path string) *Binary {
	t.Helper()
	b, err := Inspect(nodetest.OpenELF(t, path))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func heapAt(t *testing.T, mem Memory, b *Binary) *Heap {
	t.Helper()
	h, err := NewHeap(mem, b)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// functionAt reads the JSFunction at an address, tagged or not.
func functionAt(h *Heap, addr uint64) (Function, error) {
	o, err := h.Object(Ref(addr))
	if err != nil {
		return Function{}, err
	}
	return h.Function(o)
}

func TestStringsOfAllKindsAreRead(t *testing.T) {
	forEachRelease(t, func(t *testing.T, path string) {
		b := inspect(t, path)
		p := nodetest.Pause(t, path, "--allow-natives-syntax", "--expose-gc", "--expose-externalize-string", "testdata/strings.js")
		h := heapAt(t, p.Memory, b)
		type text struct {
			Kind, Text string
			Length     int
		}
		n := nodetest.Described(t, p, func(want text, addr uint64) {
			got, _, err := h.Text(Ref(addr), maxName)
			if want.Kind == "uncached" && b.Layout.ExternalData == 0 {
				if !contains(err, "known to its C++ object alone") {
					t.Errorf("%s = %q, %v, want an error", want.Kind, got, err)
				}
				return
			}
			if err != nil {
				t.Errorf("%s: %v", want.Kind, err)
			}
			if cut := want.Text[:min(len(want.Text), maxName)]; got != cut {
				t.Errorf("%s = %q, want %q", want.Kind, got, cut)
			}
		})
		if want := 12; n < want {
			t.Errorf("read %d strings, want at least %d", n, want)
		}
	})
}
