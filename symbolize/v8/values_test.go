package v8_test

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ustack/symbolize/process"
	"ustack/symbolize/v8"
	"ustack/testdata/nodetest"
)

// The tag of references, and V8's words.
const (
	tag      = 1
	tagMask  = 3
	wordSize = 8
)

// values runs the program values.js and returns its heap, the values that it
// holds by name, and its description of each.
func values(t *testing.T, path string) (h *v8.Heap, held map[string]v8.Value, truths map[string]map[string]any) {
	t.Helper()
	p := nodetest.Pause(t, path, filepath.Join("..", "..", "testdata", "programs", "values.js"))
	h, err := v8.NewHeap(p.Memory, v8.InspectFile(t, path))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(p.Lines[0]), &truths); err != nil {
		t.Fatal(err)
	}
	held = map[string]v8.Value{}
	for _, p := range find(t, h, p.PID, len(truths)) {
		held[p.Name] = p.Value
	}
	return h, held, truths
}

// find returns the properties of the object of class Held that has count of them.
// It finds the maps, whose first word is one of the few meta maps, and then the
// objects with one of these maps. Leftovers that the collector has not yet
// overwritten have fewer properties.
func find(t *testing.T, h *v8.Heap, pid, count int) []v8.Property {
	t.Helper()
	regions := writable(t, pid)
	meta := map[uint64]bool{}
	eachWord(regions, func(address, word uint64) bool {
		if word == address|tag {
			m, err := h.MapAt(address)
			meta[word] = err == nil && m.Kind == "Map"
		}
		return true
	})
	wanted := map[uint64]bool{}
	eachWord(regions, func(address, word uint64) bool {
		if !meta[word] {
			return true
		}
		m, err := h.MapAt(address)
		if err == nil && m.Kind == "JSObject" {
			name, err := h.Class(v8.Object{address, m})
			wanted[address|tag] = err == nil && name == "Held"
		}
		return true
	})
	var found []v8.Property
	eachWord(regions, func(address, word uint64) bool {
		if !wanted[word] {
			return true
		}
		if o, err := h.Object(v8.Ref(address)); err == nil {
			found, _ = h.Properties(o)
		}
		return len(found) != count
	})
	if len(found) != count {
		t.Fatalf("no object of class Held has %d properties", count)
	}
	return found
}

// A region is a range of a process's memory.
type region struct {
	start uint64
	bytes []byte
}

func writable(t *testing.T, pid int) []region {
	t.Helper()
	p, err := process.Open(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	mappings, err := p.Maps()
	if err != nil {
		t.Fatal(err)
	}
	var regions []region
	for _, m := range mappings {
		if !m.Anonymous() || !m.Perms.Read() || m.Perms.Exec() || m.End-m.Start > 64<<20 {
			continue
		}
		r := region{m.Start, make([]byte, m.End-m.Start)}
		if _, err := p.ReadAt(r.bytes, m.Start); err == nil {
			regions = append(regions, r)
		}
	}
	return regions
}

// eachWord visits the words that refer to objects until visit returns false.
func eachWord(regions []region, visit func(address, word uint64) bool) {
	for _, r := range regions {
		for at := 0; at+wordSize <= len(r.bytes); at += wordSize {
			word := binary.LittleEndian.Uint64(r.bytes[at:])
			if word&tagMask == tag && !visit(r.start+uint64(at), word) {
				return
			}
		}
	}
}

func TestValuesAreWhatTheProgramSays(t *testing.T) {
	for _, version := range nodetest.Versions {
		t.Run(version, func(t *testing.T) {
			if os.Getenv("USTACK_MATRIX") == "" && (version == "16.20.2" || version == "25.9.0") {
				t.Skip("left to make test-matrix")
			}
			h, held, truths := values(t, nodetest.Node(t, version))
			r := &describer{h, map[uint64]string{}}
			for name, v := range held {
				if o, err := h.Object(v); err == nil && h.IsReceiver(o) {
					r.names[o.Address] = name
				}
			}
			for name, truth := range truths {
				r.compare(t, name, held[name], truth)
			}
		})
	}
}

// compare fails the test unless what is read from a value is true of it.
func (r *describer) compare(t *testing.T, name string, v v8.Value, truth map[string]any) {
	t.Helper()
	o, err := r.h.Object(v)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	got, err := r.describe(o, truth)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	if diff := cmp.Diff(truth, got); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", name, diff)
	}
}
