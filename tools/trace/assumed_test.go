package trace

import (
	"os"
	"strings"
	"testing"

	"ustack/symbolize/elfsym"
	"ustack/symbolize/process"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/release"
	"ustack/testdata/nodetest"
)

// startNewer starts a program on a Node.js whose V8 reports version 15.0, and returns it
// and its file as a table would describe them.
func startNewer(t *testing.T, program string) *target {
	t.Helper()
	node := nodetest.NodeOfV8(t, "26.10.0", 15, 0)
	n := nodetest.Start(t, node, nodetest.Options{Script: program})
	p, err := process.Open(n.PID)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	file, err := os.Open(node)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	b := &binary{path: node, file: file}
	if err := b.read(); err != nil {
		t.Fatal(err)
	}
	if b.assumed == nil || b.v8 == nil {
		t.Fatalf("the file of V8 15.0: assumed = %v, V8 = %v, want both", b.assumed, b.v8)
	}
	return &target{process: p, binary: b}
}

// TestNewerV8IsVerified verifies the newest layout on a process that runs meanwhile.
func TestNewerV8IsVerified(t *testing.T) {
	p, table := startNewer(t, "mixed.js"), NewTable(Maps{})
	for range 2 { // the second time, it is known
		if err := table.verify(p); err != nil {
			t.Fatal(err)
		}
	}
	const want = "it is read as that of Node.js 26"
	if got := table.Troubles(); len(got) != 1 || !strings.Contains(got[0].Error(), want) {
		t.Errorf("diagnostics = %v, want one with %q", got, want)
	}
}

// TestNewerV8IsRefusedIfItIsLaidOutOtherwise verifies layouts that are not the process's.
func TestNewerV8IsRefusedIfItIsLaidOutOtherwise(t *testing.T) {
	p := startNewer(t, "mixed.js")
	for _, tt := range []struct {
		name, want string
		shift      func(*release.Release)
	}{
		{"owner of pages", "pages: of 0 pages", func(r *release.Release) { r.Pages.Owner += 8 }},
		{"bytecode", "objects:", func(r *release.Release) { r.Sizes.BytecodeArray += 8 }},
		{"positions of scopes", "functions of Node.js:", func(r *release.Release) { r.Scopes.Positions++ }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := *p.binary.assumed.Assumed
			tt.shift(&r)
			shifted := *p.binary
			shifted.v8 = inspectAs(t, p.binary.elf, &r)
			other, table := &target{process: p.process, binary: &shifted}, NewTable(Maps{})
			err := table.verify(other)
			if err == nil || !strings.Contains(err.Error(), tt.want) || other.verified {
				t.Errorf("verify: %v (verified: %v), want %q", err, other.verified, tt.want)
			}
			if got := table.Troubles(); len(got) > 0 {
				t.Errorf("diagnostics = %v, want none", got)
			}
		})
	}
}

func inspectAs(t *testing.T, f *elfsym.File, r *release.Release) *v8.Binary {
	t.Helper()
	b, err := v8.InspectAs(f, r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestSearchForPagesIsBounded counts the bytes of mappings in which pages are searched.
func TestSearchForPagesIsBounded(t *testing.T) {
	p, err := process.Open(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	all := uint64(0)
	for _, r := range (liveMemory{p}).Regions() {
		all += r.End - r.Start
	}
	if all == 0 || all > maxSearched {
		t.Errorf("bytes searched = %d, want some, and at most %d", all, uint64(maxSearched))
	}
}
