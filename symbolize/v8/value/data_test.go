package value_test

import (
	"encoding/binary"
	"encoding/json"
	"hash/maphash"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/value"
	"ustack/testdata/nodetest"
)

// data makes a random value that JSON can have.
func data(random *rand.Rand, depth int) any {
	switch kind := random.IntN(8); {
	case kind == 0:
		return nil
	case kind == 1:
		return random.IntN(2) == 0
	case kind == 2:
		return float64(random.IntN(1<<20) - 1<<19)
	case kind == 3:
		return math.Ldexp(random.Float64()-0.5, random.IntN(200)-100)
	case kind == 4 || depth == 0:
		return text(random)
	case kind == 5:
		list := make([]any, random.IntN(12))
		for i := range list {
			list[i] = data(random, depth-1)
		}
		return list
	}
	return object(random, depth)
}

// object makes an object with names and, now and then, indexes.
func object(random *rand.Rand, depth int) map[string]any {
	members := map[string]any{}
	for range random.IntN(40) {
		name := text(random)
		if random.IntN(5) == 0 {
			name = strconv.Itoa(random.IntN(1000))
		}
		members[name] = data(random, depth-1)
	}
	return members
}

func text(random *rand.Rand) string {
	letters := []rune("abcXYZ 09_$\"\\\n\téßλЖ€漢🚀\x00")
	var text []rune
	for range random.IntN(30) {
		text = append(text, letters[random.IntN(len(letters))])
	}
	return string(text)
}

// startData starts a node that holds random data, and returns the addresses of its
// parts.
func startData(t *testing.T, path string, parts []any) (p *nodetest.Paused, addresses []uint64) {
	t.Helper()
	encoded, err := json.Marshal(parts)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "data.json")
	if err := os.WriteFile(file, encoded, 0o600); err != nil {
		t.Fatal(err)
	}
	p = nodetest.Pause(t, path, "--allow-natives-syntax", "testdata/data.js", file)
	nodetest.Described(t, p, func(_ struct{ Number int }, addr uint64) { addresses = append(addresses, addr) })
	if len(addresses) != len(parts) {
		t.Fatalf("%d addresses, want %d", len(addresses), len(parts))
	}
	return p, addresses
}

// plain returns the value that a description is of.
func plain(t *testing.T, n *value.Node) any {
	t.Helper()
	switch n.Type {
	case "null":
		return nil
	case "boolean":
		return n.Text == "true"
	case "string":
		return n.Text
	case "number":
		number, err := strconv.ParseFloat(n.Text, 64)
		if err != nil {
			t.Error(err)
		}
		return number
	case "array":
		list := make([]any, n.Length)
		for _, m := range n.Members {
			index, err := strconv.Atoi(m.Name)
			if err != nil || index >= len(list) || m.Kind != "element" {
				t.Fatalf("element %+v of an array of %d", m, n.Length)
			}
			list[index] = plain(t, m.Value)
		}
		return list
	case "object":
		members := map[string]any{}
		for _, m := range n.Members {
			members[m.Name] = plain(t, m.Value)
		}
		return members
	}
	t.Errorf("a value of JSON is described as %+v", n)
	return nil
}

// TestDataIsDescribedAsItIs describes random data, and compares it with what the
// program was given.
func TestDataIsDescribedAsItIs(t *testing.T) {
	nodetest.EachNode(t, func(t *testing.T, path string) {
		random := rand.New(rand.NewPCG(20, 26))
		var parts []any
		for range 40 {
			parts = append(parts, object(random, 4))
		}
		p, addresses := startData(t, path, parts)
		h := heapOf(t, path, p.Memory)
		for i, address := range addresses {
			slot := value.Slot{Value: v8.Ref(address)}
			whole := value.Describe(h, slot, value.Options{Depth: 20})
			if diff := cmp.Diff(parts[i], plain(t, whole)); diff != "" {
				t.Errorf("part %d (-want +got):\n%s", i, diff)
			}
			few := value.Describe(h, slot, value.Options{Depth: 1, Members: 3})
			if shown := len(few.Members); shown > 3 || shown+few.More != len(whole.Members) {
				t.Errorf("part %d: %d members and %d more, want 3 of %d", i, shown, few.More, len(whole.Members))
			}
			for _, m := range few.Members {
				if len(m.Value.Members) > 0 {
					t.Errorf("part %d: member %q has members, want only one level", i, m.Name)
				}
			}
		}
	})
}

// A damagedMemory has wrong words in random places.
type damagedMemory struct {
	v8.Memory
	seed maphash.Seed
}

func (m damagedMemory) ReadAt(p []byte, addr uint64) (int, error) {
	n, err := m.Memory.ReadAt(p, addr)
	for at := -addr & 7; at+8 <= uint64(n); at += 8 {
		switch random := maphash.Comparable(m.seed, addr+at); random % 500 {
		case 0:
			binary.LittleEndian.PutUint64(p[at:], random)
		case 1:
			binary.LittleEndian.PutUint64(p[at:], random<<32) // a small integer
		case 2:
			binary.LittleEndian.PutUint64(p[at:], addr&^7|1) // a reference to what is being read
		}
	}
	return n, err
}

// TestDamagedDataEnds describes data and errors of which words are wrong.
func TestDamagedDataEnds(t *testing.T) {
	path := nodetest.Node(t, nodetest.Versions[len(nodetest.Versions)-1])
	random := rand.New(rand.NewPCG(1, 9))
	p, addresses := startData(t, path, []any{object(random, 6), object(random, 6), object(random, 6)})
	began := time.Now()
	for range 5 {
		h := heapOf(t, path, damagedMemory{p.Memory, maphash.MakeSeed()})
		for _, address := range addresses {
			node := value.Describe(h, value.Slot{Value: v8.Ref(address)}, value.Options{Depth: 3, Members: 20})
			if err := node.Render(io.Discard, value.TextOptions{}); err != nil {
				t.Error(err)
			}
			if o, err := h.Object(v8.Ref(address)); err == nil {
				value.ReadError(h, o)
			}
		}
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("descriptions took %v", took)
	}
}
