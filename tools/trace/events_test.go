package trace

import (
	"bytes"
	enc "encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"ustack/bpf"
	"ustack/symbolize"
)

// raw returns the bytes of a record.
func raw[T any](record *T) []byte {
	return slices.Clone(unsafe.Slice((*byte)(unsafe.Pointer(record)), unsafe.Sizeof(*record)))
}

// receive returns a session that handles records, has one target and no kernel.
func receive(tool Tool) (*Session, *target) {
	table := NewTable(Maps{})
	g := &target{generation: 1, closed: true, modules: make(map[uint64]*wasmModule), natives: make(map[place]symbolize.Frame)}
	table.owners[1] = g
	if tool.Stack == nil {
		tool.Stack = func(uint64, Stack) {}
	}
	s := &Session{Table: table, tool: tool}
	s.targets = newTargets(table, Selection{PIDs: []int{1}})
	s.events = &events{handlers: s.handlers(), table: table}
	return s, g
}

const ownedByFirst = 1 << 32 // generation 1, thread 0

func TestRecordsGoToTheirHandlers(t *testing.T) {
	var own []byte
	var hash uint64
	var stack Stack
	s, g := receive(Tool{
		Stack: func(h uint64, got Stack) { hash, stack = h, got },
		Events: map[bpf.TraceEventKind]func([]byte){
			bpf.TraceEventKindEVENT_TOOL + 1: func(record []byte) { own = slices.Clone(record) },
		},
	})
	take := func(record []byte) {
		t.Helper()
		if err := s.events.take(record); err != nil {
			t.Errorf("err = %v, want nil", err)
		}
	}
	take(record(bpf.TraceName{Event: uint32(bpf.TraceEventKindEVENT_SCRIPT), Owner: ownedByFirst, Script: 7}, "/srv/a.js"))
	take(record(bpf.TraceName{Event: uint32(bpf.TraceEventKindEVENT_FUNCTION), Owner: ownedByFirst, Script: 7, Id: 9, Start: -1}, "f"))
	sent := bpf.TraceStack{
		Event: uint32(bpf.TraceEventKindEVENT_STACK), Ids: 4242<<32 | 4243, Owner: ownedByFirst, Hash: 99, Count: 1,
		Flags: uint32(bpf.TraceStackFlagSTACK_TRUNCATED | bpf.TraceStackFlagSTACK_ADDON),
	}
	copy(sent.Comm[:], "worker")
	sent.Frames[0].Word = uint64(bpf.TraceFrameKindFRAME_JS)<<kindShift | uint64(symbolize.Maglev)<<tierShift | 9
	take(raw(&sent))
	if hash != 99 || stack.PID != 4242 || stack.TID != 4243 || stack.Thread != "worker" || !stack.Truncated || !stack.Addon || stack.NewCode || stack.owner != g {
		t.Errorf("hash = %d, stack = %+v, want what was sent", hash, stack)
	}
	frames, unknown := s.Table.Frames(stack)
	want := []symbolize.Frame{{Kind: symbolize.JS, Tier: symbolize.Maglev, Name: "f", File: "/srv/a.js"}, {Name: symbolize.Truncated}}
	if !slices.Equal(frames, want) || unknown != 0 {
		t.Errorf("frames = %+v, %d unknown, want %+v", frames, unknown, want)
	}
	mine := enc.NativeEndian.AppendUint32(nil, uint32(bpf.TraceEventKindEVENT_TOOL+1))
	mine = append(mine, "mine"...)
	take(mine)
	if !bytes.Equal(own, mine) {
		t.Errorf("the tool's record = %q, want %q", own, mine)
	}
}

// TestBadRecordsAreReported has records that no kernel sends. None of them ends anything.
func TestBadRecordsAreReported(t *testing.T) {
	s, _ := receive(Tool{Events: map[bpf.TraceEventKind]func([]byte){
		bpf.TraceEventKindEVENT_TOOL: func(record []byte) { _ = record[1<<20] },
	}})
	for _, short := range [][]byte{nil, {}, {1}, {1, 2, 3}} {
		if err := s.events.take(short); err != nil {
			t.Errorf("%v: err = %v, want nil", short, err)
		}
	}
	unknown := enc.NativeEndian.AppendUint32(nil, math.MaxUint32)
	if err := s.events.take(unknown); err == nil || !strings.Contains(err.Error(), "unknown kind 4294967295") {
		t.Errorf("err = %v, want that the kind is unknown", err)
	}
	if err := s.events.take(enc.NativeEndian.AppendUint32(nil, uint32(bpf.TraceEventKindEVENT_TOOL))); err == nil {
		t.Error("a handler that panics is no error")
	}
}

// TestRecordsMayBeCutAnywhere sends each kind of record with all bits set, cut at every
// length: lengths and counts in them are larger than they are.
func TestRecordsMayBeCutAnywhere(t *testing.T) {
	var stacks []Stack
	s, _ := receive(Tool{Stack: func(_ uint64, stack Stack) { stacks = append(stacks, stack) }})
	for kind := range s.handlers() {
		if kind == bpf.TraceEventKindEVENT_EXEC {
			continue // it would look for the process
		}
		record := bytes.Repeat([]byte{0xff}, int(unsafe.Sizeof(bpf.TraceStack{})))
		enc.NativeEndian.PutUint32(record, uint32(kind))
		for length := 4; length <= len(record); length++ {
			if err := s.events.take(record[:length]); err != nil {
				t.Fatalf("kind %d with %d bytes: %v", kind, length, err)
			}
		}
	}
	for _, stack := range stacks {
		if len(stack.words) > int(bpf.TraceLimitMAX_FRAMES) || len(stack.Thread) > 16 {
			t.Fatalf("stack of %d frames, thread %q: more than a record has", len(stack.words), stack.Thread)
		}
	}
}

// TestRandomStacksHaveFrames names stacks of random words, of a process that has ended
// and of one that was never known.
func TestRandomStacksHaveFrames(t *testing.T) {
	var got []Stack
	s, _ := receive(Tool{Stack: func(_ uint64, stack Stack) { got = append(got, stack) }})
	random := rand.New(rand.NewPCG(1, 2))
	const stacks = 2000
	for i := range stacks {
		r := bpf.TraceStack{
			Event: uint32(bpf.TraceEventKindEVENT_STACK), Owner: uint64(i&1) << 32, Flags: random.Uint32(), Count: uint32(1 + random.IntN(40)),
		}
		for j := range r.Frames {
			word := &r.Frames[j].Word
			*word, r.Frames[j].Position = random.Uint64(), random.Uint64()
			if kind := kindOf(*word); kind == bpf.TraceFrameKindFRAME_NAMED || kind == bpf.TraceFrameKindFRAME_DATA || kind == bpf.TraceFrameKindFRAME_KERNEL {
				*word &= 1<<kindShift - 1 // the kernel sends the first never, the others not of these processes
			}
		}
		if err := s.events.take(raw(&r)); err != nil {
			t.Fatal(err)
		}
	}
	for _, stack := range got {
		if frames, _ := s.Table.Frames(stack); len(frames) == 0 {
			t.Errorf("no frames for %#x", stack.words)
		}
	}
	if len(got) != stacks {
		t.Errorf("stacks = %d, want %d", len(got), stacks)
	}
	for _, err := range s.Table.Diagnostics() {
		t.Errorf("diagnostic: %v", err)
	}
}

func TestNamesAreCutAndMarked(t *testing.T) {
	for _, tt := range []struct {
		name   string
		length uint32
		flags  bpf.TraceNameFlag
		want   string
	}{
		{"plain", 5, 0, "plain"},
		{"", 0, 0, ""},
		{"cut", 3, bpf.TraceNameFlagNAME_TRUNCATED, "cut…"},
		{"", 0, bpf.TraceNameFlagNAME_MEMBERS, "<instance_members_initializer>"},
		{"", 0, bpf.TraceNameFlagNAME_STATIC, "<static_initializer>"},
	} {
		n := bpf.TraceName{Length: tt.length, Flags: uint32(tt.flags)}
		copy(n.Text[:], tt.name)
		if got := text(&n); got != tt.want {
			t.Errorf("%q with flags %d = %q, want %q", tt.name, tt.flags, got, tt.want)
		}
	}
	if got := len(text(&bpf.TraceName{Length: math.MaxUint32})); got != len(bpf.TraceName{}.Text) {
		t.Errorf("%d bytes of a name without an end, want %d", got, len(bpf.TraceName{}.Text))
	}
}

func TestDecodeFillsWhatIsMissingWithZeros(t *testing.T) {
	whole := bpf.TraceWasm{Event: 1, Script: 2, Owner: 3, Pc: 4}
	bytes := raw(&whole)
	if got := Decode[bpf.TraceWasm](bytes); *got != whole {
		t.Errorf("record = %+v, want %+v", *got, whole)
	}
	if got, want := Decode[bpf.TraceWasm](bytes[:16]), (bpf.TraceWasm{Event: 1, Script: 2, Owner: 3}); *got != want {
		t.Errorf("record = %+v, want %+v", *got, want)
	}
	if got := Decode[bpf.TraceWasm](append(bytes, 5, 6)); *got != whole {
		t.Errorf("longer record = %+v, want %+v", *got, whole)
	}
}
