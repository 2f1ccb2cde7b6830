package nodejs_test

import (
	"debug/elf"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"ustack/symbolize/nodejs"
	"ustack/symbolize/reader"
	"ustack/symbolize/space"
	"ustack/symbolize/v8/stack"
	"ustack/symbolize/v8/value"
	"ustack/testdata/nodetest"
	"ustack/tools/core"
)

const wordSize = 8

// A damaged core has words that are not as they were.
type damaged struct {
	*core.File
	words map[uint64]uint64 // by address
	reads []uint64          // addresses, of the undamaged core
	count int               // of reads
	test  testing.TB        // that fails if there are too many
}

func (d *damaged) ReadAt(p []byte, address uint64) (int, error) {
	if d.count++; d.count > maxReads {
		d.test.Fatalf("reads of memory = %d, want %d at most", d.count, maxReads)
	}
	if d.words == nil {
		d.reads = append(d.reads, address)
	}
	n, err := d.File.ReadAt(p, address)
	for at, word := range d.words {
		for i := range uint64(wordSize) {
			if offset := at + i - address; offset < uint64(n) {
				p[offset] = byte(word >> (8 * i))
			}
		}
	}
	return n, err
}

// A victim is a process that aborted, with what its exception is read from.
type victim struct {
	*damaged
	space   *space.Space
	v8      stack.V8
	threads []stack.Thread
	want    string // in what it says
}

// victims are the programs of victims.
var victims = []struct {
	want string
	args []string
}{
	{"RangeError: thrown", []string{"--abort-on-uncaught-exception", "-e", "throw new RangeError('thrown')"}},
	{"Check failed: ", []string{"--allow-natives-syntax", "-e", "%OptimizeFunctionOnNextCall()"}},
}

// newVictim runs the program with a number, which aborts.
func newVictim(t *testing.T, number int) *victim {
	t.Helper()
	p := victims[number]
	path, _ := nodetest.Killed(t, nodetest.Node(t, nodetest.Versions[len(nodetest.Versions)-1]), p.args...)
	file, err := core.Open(t.Context(), path, core.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	v := &victim{damaged: &damaged{File: file, test: t}, want: p.want}
	layout := space.Layout{Mappings: file.Mappings(), Auxv: file.Auxv()}
	for _, r := range file.Regions() {
		layout.Regions = append(layout.Regions, space.Region{
			Start: r.Start, End: r.End, Write: r.Perms&elf.PF_W != 0, Exec: r.Perms&elf.PF_X != 0,
		})
	}
	v.space = space.New(v.damaged, layout, space.Finder{Files: &reader.Reader{}})
	v.v8 = stack.Find(v.space).V8
	for _, th := range file.Threads() {
		sets := stack.Regsets{General: th.General, TLS: th.TLS, PACMask: th.PACMask}
		v.threads = append(v.threads, stack.Thread{TID: th.TID, Registers: stack.ReadRegisters(file.Machine(), sets)})
	}
	v.damaged.reads = nil
	if got := v.says(t); !strings.Contains(got, p.want) {
		t.Fatalf("exception and fatal error = %q, want %q", got, p.want)
	}
	v.words = make(map[uint64]uint64)
	return v
}

// unwinder returns the stacks as memory is now.
func (v *victim) unwinder(t *testing.T) *stack.Unwinder {
	t.Helper()
	if missing := v.v8.Read(v.space); v.v8.Heap == nil {
		t.Fatal(missing)
	}
	u := stack.New(v.space, v.v8)
	_ = u.SetThreads(slices.Clone(v.threads)) // the first one's isolate is read
	return u
}

// says returns what the process has thrown, and its fatal error.
func (v *victim) says(t *testing.T) string {
	t.Helper()
	v.test, v.count = t, 0
	p := nodejs.New(v.space, v.unwinder(t))
	text := p.FatalError()
	if thrown, ok := p.Exception(); ok {
		if o, err := v.v8.Heap.Object(thrown); err == nil {
			e, _ := value.ReadError(v.v8.Heap, o) // what was read of it
			text += e.Name + ": " + e.Message
		}
	}
	return text
}

// maxReads bounds the reads of memory for an exception: stacks, and each word of 1 MB of them
// as the address of a handle of an object.
const maxReads = 2_000_000

// TestStacksAtTheEndOfMemoryEnd has a thread whose stack seems to reach past the last address.
func TestStacksAtTheEndOfMemoryEnd(t *testing.T) {
	const last = 1<<64 - 1
	v := newVictim(t, 0)
	first := v.threads[0]
	u := v.unwinder(t)
	frames := u.Stack(u.Threads()[0]).Frames
	i := slices.IndexFunc(frames, func(f stack.Frame) bool { return strings.HasPrefix(f.Name, "v8::internal::Isolate::Throw") })
	if i < 0 {
		t.Fatalf("frames = %+v, want one that throws", frames)
	}
	r := &v.threads[0].Registers
	r.PC, r.SP, r.FP = frames[i].PC, last-2*wordSize-1, 0
	clear(r.General[:])
	v.words[u.Threads()[0].Isolate+uint64(v.v8.Binary.Layout.CEntryFP)] = last
	if got := v.says(t); got != "" {
		t.Errorf("exception and fatal error = %q, want none", got)
	}
	v.threads[0] = first
	clear(v.words)
	if got := v.says(t); !strings.Contains(got, v.want) {
		t.Errorf("exception and fatal error as they were = %q, want %q", got, v.want)
	}
}

// FuzzDamagedExceptions reads exceptions and fatal errors from memory of which random words
// are wrong.
func FuzzDamagedExceptions(f *testing.F) {
	for seed := range uint64(40) {
		f.Add(seed)
	}
	var all []*victim
	f.Fuzz(func(t *testing.T, seed uint64) {
		if all == nil {
			all = []*victim{newVictim(t, 0), newVictim(t, 1)}
		}
		v := all[seed%uint64(len(all))]
		clear(v.words)
		random := rand.New(rand.NewPCG(seed, 0))
		for range 30 {
			v.words[v.reads[random.IntN(len(v.reads))]] = v.word(random)
		}
		v.says(t)
	})
}

// word returns a wrong word.
func (v *victim) word(random *rand.Rand) uint64 {
	switch random.IntN(4) {
	case 0:
		return uint64(random.Uint32()) << 32 // a small integer
	case 1:
		return v.reads[random.IntN(len(v.reads))] | 1
	case 2:
		return v.reads[random.IntN(len(v.reads))]
	}
	return 1<<64 - 1 - uint64(random.IntN(64))
}
