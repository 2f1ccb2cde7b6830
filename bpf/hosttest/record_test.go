package hosttest

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"ustack/bpf"
	"ustack/loader"
	"ustack/symbolize"
	"ustack/testdata/nodetest"
	"ustack/tools/jscore"
	"ustack/tools/trace"
)

// TestRecord records the stacks in testdata: make record-stacks.
func TestRecord(t *testing.T) {
	if os.Getenv("USTACK_RECORD") == "" {
		t.Skip("USTACK_RECORD=1 records the stacks in testdata again")
	}
	nodetest.Root(t)
	for _, version := range nodetest.Versions {
		for _, tier := range []symbolize.Tier{symbolize.Interpreted, symbolize.Turbofan} {
			t.Run(fmt.Sprintf("%d-%s", nodetest.Major(version), tier), func(t *testing.T) {
				r := record(t, newHost(t), version, tier)
				var packed bytes.Buffer
				z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
				if err != nil {
					t.Fatal(err)
				}
				if err := json.NewEncoder(z).Encode(r); err != nil {
					t.Fatal(err)
				}
				if err := z.Close(); err != nil {
					t.Fatal(err)
				}
				file := filepath.Join("testdata", fmt.Sprintf("node%d-%s.json.gz", nodetest.Major(version), tier))
				if err := os.WriteFile(file, packed.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

// record unwinds the main thread of a process that waits in a chain of calls of
// every kind.
func record(t *testing.T, h *host, version string, tier symbolize.Tier) *recording {
	t.Helper()
	node := nodetest.Node(t, version)
	flags, ok := nodetest.TierFlags(version, tier)
	if !ok {
		t.Fatalf("node %s has no tier %v", version, tier)
	}
	target := nodetest.Start(t, node, nodetest.Options{
		Flags: flags, Script: "postmortem_stack.js", Args: []string{"--tier=" + tier.String()},
	})
	r := &recording{Node: version}
	describe(t, target.PID, r)
	target.Signal(syscall.SIGSTOP)
	observe(t, target.PID, r)
	u, err := h.unwind(r, target.PID)
	if err != nil {
		t.Fatal(err)
	}
	r.keep(t, target.PID, u)
	r.Frames = u.text()
	return r
}

// describe fills in what user space tells the kernel of a process.
func describe(t *testing.T, pid int, r *recording) {
	t.Helper()
	spec, err := bpf.LoadJsprof()
	if err != nil {
		t.Fatal(err)
	}
	var maps trace.Maps
	programs, err := loader.Load(spec, &maps)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range programs {
		defer p.Close()
	}
	defer maps.Processes.Close()
	defer maps.Scripts.Close()
	defer maps.Rows.Close()
	table := trace.NewTable(maps)
	defer table.Close()
	if err := table.Add(pid); err != nil {
		t.Fatal(err)
	}
	// The unwind tables of the libraries come later.
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for range 200 {
		if err := maps.Processes.Lookup(uint32(pid), &r.Process); err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(r.Process.Ranges[:], func(r bpf.TraceRange) bool { return r.RowCount > 100 }) {
			break
		}
		<-tick.C
		if err := table.Refresh(pid); err != nil {
			t.Fatal(err)
		}
	}
	r.Rows = rowsOf(t, maps.Rows, &r.Process)
}

func rowsOf(t *testing.T, table *ebpf.Map, p *bpf.TraceProcess) []row {
	t.Helper()
	var rows []row
	seen := map[uint32]bool{}
	for _, m := range p.Ranges[:p.RangeCount] {
		for key := m.Rows; key < m.Rows+m.RowCount; key++ {
			if seen[key] {
				continue
			}
			seen[key] = true
			one := row{Key: key}
			if err := table.Lookup(key, &one.Row); err != nil {
				t.Fatal(err)
			}
			rows = append(rows, one)
		}
	}
	return rows
}

// observe fills in the main thread's registers, and the calls that the unwinder of
// cores finds.
func observe(t *testing.T, pid int, r *recording) {
	t.Helper()
	d, err := jscore.Attach(t.Context(), pid, jscore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	thread := d.Threads()[0]
	general := thread.Registers.General // DWARF's numbers: 5 is rdi, 13 is r13
	r.Registers = registers{IP: thread.Registers.PC, SP: thread.Registers.SP, BP: thread.Registers.FP, DI: general[5], R13: general[13]}
	r.ThreadPointer = thread.Registers.ThreadPointer
	for _, f := range d.Stack(thread).Frames {
		if !f.Inlined && (f.Kind == symbolize.JS || f.Kind == symbolize.Builtin && f.Call.Function != 0) {
			r.Calls = append(r.Calls, f.Name)
		}
	}
}

// keep reads the memory that was touched and keeps the rows that were used.
func (r *recording) keep(t *testing.T, pid int, u *unwound) {
	t.Helper()
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	slices.SortFunc(u.touched, func(a, b touch) int { return cmp.Compare(a.Address, b.Address) })
	var merged []touch
	for _, m := range u.touched {
		if last := len(merged) - 1; last >= 0 && m.Address <= merged[last].Address+merged[last].Bytes {
			merged[last].Bytes = max(merged[last].Bytes, m.Address+m.Bytes-merged[last].Address)
			continue
		}
		merged = append(merged, m)
	}
	for _, m := range merged {
		p := piece{m.Address, make(hexBytes, m.Bytes)}
		if _, err := memory.ReadAt(p.Bytes, int64(p.Address)); err != nil {
			t.Fatal(err)
		}
		r.Memory = append(r.Memory, p)
	}
	r.Rows = slices.DeleteFunc(r.Rows, func(row row) bool { return !slices.Contains(u.rows, row.Key) })
}
