package heap_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"ustack/testdata/nodetest"
	"ustack/tools/jscore"
)

// Numbers of V8's snapshot format.
const (
	nodeObject     = 3
	edgeProperty   = 2
	syntheticNodes = 2 // nodes that are no objects
)

// A snapshot is a heap snapshot as Chrome reads it.
type snapshot struct {
	Snapshot struct {
		Meta struct {
			NodeFields []string          `json:"node_fields"`
			NodeTypes  []json.RawMessage `json:"node_types"`
			EdgeFields []string          `json:"edge_fields"`
			EdgeTypes  []json.RawMessage `json:"edge_types"`
		} `json:"meta"`
		NodeCount int `json:"node_count"`
		EdgeCount int `json:"edge_count"`
	} `json:"snapshot"`
	Nodes   []uint64 `json:"nodes"`
	Edges   []uint64 `json:"edges"`
	Strings []string `json:"strings"`
}

func decodeSnapshot(t testing.TB, r io.Reader) *snapshot {
	t.Helper()
	var s snapshot
	if err := json.NewDecoder(bufio.NewReader(r)).Decode(&s); err != nil {
		t.Fatalf("decode snapshot: %v", err)
	}
	return &s
}

// objects returns how many objects there are of each class.
func (s *snapshot) objects(t testing.TB) map[string]int {
	t.Helper()
	var types []string
	if err := json.Unmarshal(s.Snapshot.Meta.NodeTypes[0], &types); err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for node := range slices.Chunk(s.Nodes, len(s.Snapshot.Meta.NodeFields)) {
		if types[node[0]] == "object" {
			counts[s.Strings[node[1]]]++
		}
	}
	return counts
}

// check checks that all numbers in a snapshot refer to something that exists, and that
// every node can be reached from the first.
func (s *snapshot) check(t testing.TB) {
	t.Helper()
	nodeSize, edgeSize := len(s.Snapshot.Meta.NodeFields), len(s.Snapshot.Meta.EdgeFields)
	if got, want := len(s.Nodes), s.Snapshot.NodeCount*nodeSize; got != want {
		t.Fatalf("nodes have %d numbers, want %d", got, want)
	}
	if got, want := len(s.Edges), s.Snapshot.EdgeCount*edgeSize; got != want {
		t.Fatalf("edges have %d numbers, want %d", got, want)
	}
	first := make([]int, s.Snapshot.NodeCount+1) // edge of each node
	for n := range s.Snapshot.NodeCount {
		first[n+1] = first[n] + int(s.Nodes[n*nodeSize+4])
		if name := s.Nodes[n*nodeSize+1]; name >= uint64(len(s.Strings)) {
			t.Fatalf("node %d has name %d of %d", n, name, len(s.Strings))
		}
	}
	if first[s.Snapshot.NodeCount] != s.Snapshot.EdgeCount {
		t.Fatalf("nodes have %d edges, want %d", first[s.Snapshot.NodeCount], s.Snapshot.EdgeCount)
	}
	reached, stack := make([]bool, s.Snapshot.NodeCount), []int{0}
	count := 0
	for len(stack) > 0 {
		n := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if reached[n] {
			continue
		}
		reached[n] = true
		count++
		for e := first[n]; e < first[n+1]; e++ {
			to := s.Edges[e*edgeSize+2]
			if to%uint64(nodeSize) != 0 || to >= uint64(len(s.Nodes)) {
				t.Fatalf("edge %d leads to %d, want a node", e, to)
			}
			stack = append(stack, int(to)/nodeSize)
		}
	}
	if count != s.Snapshot.NodeCount {
		t.Errorf("nodes that the first leads to = %d, want all %d", count, s.Snapshot.NodeCount)
	}
}

// edgesOf returns the names of a node's named edges and where they lead.
func (s *snapshot) edgesOf(class string) map[string]string {
	nodeSize, edge := len(s.Snapshot.Meta.NodeFields), 0
	for n := range s.Snapshot.NodeCount {
		node := s.Nodes[n*nodeSize:]
		count := int(node[4])
		if s.Strings[node[1]] != class || node[0] != nodeObject || count < 4 {
			edge += count
			continue
		}
		found := map[string]string{}
		for e := range slices.Chunk(s.Edges[edge*3:(edge+count)*3], 3) {
			if e[0] == edgeProperty {
				found[s.Strings[e[1]]] = s.Strings[s.Nodes[e[2]+1]]
			}
		}
		return found
	}
	return nil
}

func exportedIsASnapshot(t *testing.T, g *jscore.Graph, facts censusFacts) {
	var file bytes.Buffer
	written, err := g.Export(t.Context(), &file)
	if err != nil {
		t.Fatalf("Export: %v", err)
	}
	s := decodeSnapshot(t, &file)
	s.check(t)
	if written.Nodes != s.Snapshot.NodeCount || written.Edges != s.Snapshot.EdgeCount || written.Strings != len(s.Strings) {
		t.Errorf("Export = %+v, want %d nodes, %d edges, %d strings", written, s.Snapshot.NodeCount, s.Snapshot.EdgeCount, len(s.Strings))
	}
	counts := s.objects(t)
	for _, class := range facts.Classes {
		if got, want := counts[class], counted(class, facts.Keep); got != want {
			t.Errorf("objects of %s = %d, want %d", class, got, want)
		}
	}
	holder := s.edgesOf("Holder")
	if holder["list"] != "Array" || holder["next"] != "Holder" {
		t.Errorf("properties of a Holder = %v, want list and next", holder)
	}
}

// TestExportAgreesWithV8sOwnSnapshot compares the class counts of a snapshot from a
// core with those of the one that the process itself wrote.
func TestExportAgreesWithV8sOwnSnapshot(t *testing.T) {
	versions := []string{"22.23.3"}
	if matrix() {
		versions = nodetest.Versions
	}
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "v8.heapsnapshot")
			d, facts := censusDump(t, version, 2_000, 0, path)
			own, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer own.Close()
			want := decodeSnapshot(t, own).objects(t)
			g, err := d.Graph(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var file bytes.Buffer
			if _, err := g.Export(t.Context(), &file); err != nil {
				t.Fatal(err)
			}
			got := decodeSnapshot(t, &file).objects(t)
			for _, class := range append(facts.Classes, "Module", "BuiltinModule") {
				if got[class] != want[class] {
					t.Errorf("objects of %s = %d, want %d, as V8 writes", class, got[class], want[class])
				}
			}
		})
	}
}
