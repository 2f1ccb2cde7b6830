package malloc

import (
	"encoding/json"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/symbolize/process"
	"ustack/symbolize/space"
	"ustack/testdata/nodetest"
)

// An info is what malloc says about itself (mallinfo2).
type info struct {
	Arena    uint64 `json:"arena"`    // bytes of all arenas
	Mapped   int    `json:"hblks"`    // chunks in mappings of their own
	MappedIn uint64 `json:"hblkhd"`   // their bytes
	Fast     uint64 `json:"fsmblks"`  // bytes in lists of small chunks
	Used     uint64 `json:"uordblks"` // bytes in use, those that threads keep included
	Free     uint64 `json:"fordblks"`
}

// start starts leaks.js in one of its ways, and returns what malloc says and what was found.
func start(t *testing.T, version, way string) (info, *Heap) {
	t.Helper()
	node := nodetest.Node(t, version)
	target := nodetest.Start(t, node, nodetest.Options{
		Flags: []string{"--expose-gc"}, Script: "leaks.js", Args: []string{way, nodetest.Addon(t, node, "leaks.cc")},
	})
	nodetest.WaitUntilIdle(t, target.PID)
	if err := unix.Kill(target.PID, unix.SIGUSR2); err != nil {
		t.Fatal(err)
	}
	var says info
	if err := json.Unmarshal([]byte(target.Line()), &says); err != nil {
		t.Fatal(err)
	}
	nodetest.WaitUntilIdle(t, target.PID)
	p, err := process.Open(target.PID)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	h, err := Find(t.Context(), space.Live{Process: p}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return says, h
}

// checkSays compares what was found with what malloc says about itself, some time before.
func checkSays(t *testing.T, h *Heap, says info) {
	t.Helper()
	sizes := make(map[Use]uint64)
	if err := h.Each(t.Context(), func(c Chunk) { sizes[c.Use] += c.Size }); err != nil {
		t.Fatal(err)
	}
	system := uint64(0)
	for _, a := range h.Arenas {
		system += a.System
		if a.Found != a.System {
			t.Errorf("found %d bytes of the arena %+v, want all", a.Found, a)
		}
	}
	const slack = 200_000 // bytes that are taken and freed afterwards
	near := func(what string, got, want uint64) {
		t.Helper()
		if got > want+slack || want > got+slack {
			t.Errorf("%s = %d, want about %d", what, got, want)
		}
	}
	near("arenas", system, says.Arena)
	near("mapped", sizes[Mapped], says.MappedIn)
	near("used", sizes[InUse]+sizes[Cached], says.Used)
	near("free", sizes[Free]+sizes[Top]+sizes[Fast], says.Free)
	near("fast", sizes[Fast], says.Fast)
	if sizes[Cached] == 0 {
		t.Error("no thread keeps free chunks, want some")
	}
	if len(h.Mapped) < says.Mapped-2 || len(h.Mapped) > says.Mapped+2 {
		t.Errorf("mapped chunks = %d, want about %d", len(h.Mapped), says.Mapped)
	}
}

func TestChunksAreThoseThatMallocKnows(t *testing.T) {
	versions := []string{"18.20.8", "26.10.0"}
	if os.Getenv("USTACK_MATRIX") == "1" {
		versions = nodetest.Versions
	}
	for _, version := range versions {
		for i, way := range []string{"fragmentation", "workers", "strings", "malloc"} {
			if len(versions) == 2 && version == versions[0] && i > 0 {
				continue // one way shows what differs between versions
			}
			t.Run(version+"/"+way, func(t *testing.T) {
				says, h := start(t, version, way)
				checkSays(t, h, says)
			})
		}
	}
}
