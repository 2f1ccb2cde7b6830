package trace

import (
	"context"
	"errors"
	"testing"

	"github.com/cilium/ebpf"

	"ustack/bpf"
	"ustack/symbolize"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/code"
)

// A reading is a traced process that runs, and a function of it with a
// SharedFunctionInfo that does not move.
type reading struct {
	*sampled
	g     *target
	owner uint64
	id    uint64
	fn    function
	table *Table
}

// startReading samples a process until a function of its script is known.
func startReading(t *testing.T) *reading {
	t.Helper()
	target := busy(t)
	work := make(chan func(context.Context) error, 1)
	r := &reading{}
	r.sampled = openSampled(t, Options{Selection: Selection{PIDs: []int{target.PID}}}, Tool{
		Polled: true,
		Stack: func(_ uint64, s Stack) {
			for _, word := range s.words {
				fn := r.table.functions[word&idMask]
				if kindOf(word) == bpf.TraceFrameKindFRAME_JS && fn.shared != 0 && fn.script.id != 0 && r.id == 0 {
					r.g, r.owner, r.id, r.fn = s.owner, fn.script.owner, word&idMask, fn
					work <- func(context.Context) error { return ErrDone }
				}
			}
		},
	})
	r.table = r.sampled.Table
	if err := r.Listen(); err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t.Context(), Loop{Attach: r.sample, Work: work}); err != nil {
		t.Fatal(err)
	}
	if r.id == 0 {
		t.Fatal("no function of the program was sampled")
	}
	r.table.positions = newPositions()
	return r
}

// read reads a table with a reader of the test's, and returns it with how often it was
// asked.
func (r *reading) read(reader func(call int) (code.Table, error)) (table *codeTable, calls int, err error) {
	table, err = r.table.readTable(r.g, r.owner, r.fn, func(*code.Finder) (code.Table, error) {
		calls++
		return reader(calls)
	})
	return table, calls, err
}

// TestTablesAreReadTwiceAlike: the process may be changing what is read.
func TestTablesAreReadTwiceAlike(t *testing.T) {
	r := startReading(t)
	own := code.Table{Shared: r.fn.shared}
	with := code.Table{Shared: r.fn.shared, Inlined: []v8.Value{r.fn.shared}}
	broken := errors.New("damaged")
	for _, tt := range []struct {
		name   string
		reader func(call int) (code.Table, error)
		calls  int
		want   error
	}{
		{"the same twice", func(int) (code.Table, error) { return own, nil }, 2, nil},
		{"with inlined functions", func(int) (code.Table, error) { return with, nil }, 2, nil},
		{"changed once", func(call int) (code.Table, error) {
			if call == 1 {
				return with, nil
			}
			return own, nil
		}, 4, nil},
		{"an error at first", func(call int) (code.Table, error) {
			if call == 1 {
				return code.Table{}, broken
			}
			return own, nil
		}, 3, nil},
		{"always changing", func(call int) (code.Table, error) {
			if call%2 == 0 {
				return with, nil
			}
			return own, nil
		}, 2 * codeReads, errReplaced},
		{"always an error", func(int) (code.Table, error) { return own, broken }, codeReads, broken},
		{"an error the second time", func(call int) (code.Table, error) {
			if call%2 == 0 {
				return own, broken
			}
			return own, nil
		}, 2 * codeReads, broken},
	} {
		table, calls, err := r.read(tt.reader)
		if !errors.Is(err, tt.want) || calls != tt.calls {
			t.Errorf("%s: %v after %d reads, want %v after %d", tt.name, err, calls, tt.want, tt.calls)
		}
		if table == nil || (err != nil) != (table.Shared == 0) {
			t.Errorf("%s: table = %+v with error %v, want an empty one with an error only", tt.name, table, err)
		}
	}
}

// TestTablesOfOtherFunctionsAreRefused: another object may be where the function was.
func TestTablesOfOtherFunctionsAreRefused(t *testing.T) {
	r := startReading(t)
	reader := func(int) (code.Table, error) { return code.Table{Shared: r.fn.shared}, nil }
	fn := r.fn
	for name, change := range map[string]func(){
		"another script":   func() { r.fn.script.id++ },
		"another position": func() { r.fn.start++ },
		"no object":        func() { r.fn.shared = 8 },
		"another object":   func() { r.fn.shared -= 8 },
	} {
		r.fn = fn
		change()
		if table, calls, err := r.read(reader); err == nil || table.Shared != 0 || calls != 2*codeReads {
			t.Errorf("%s: table of %#x, %v after %d reads, want an error after %d", name, uint64(table.Shared), err, calls, 2*codeReads)
		}
	}
	r.fn = fn
	inlined := func(int) (code.Table, error) {
		return code.Table{Shared: r.fn.shared, Inlined: []v8.Value{r.fn.shared - 8}}, nil
	}
	if table, _, err := r.read(inlined); err == nil {
		t.Errorf("a table with what is no function inlined: %+v, want an error", table)
	}
}

// codeRecord is what the kernel sends for code that is not where it says.
func (r *reading) codeRecord(check uint64) []byte {
	return raw(&bpf.TraceCodeObject{
		Event: uint32(bpf.TraceEventKindEVENT_CODE), Address: uint64(r.fn.shared), Start: 1, Size: 1,
		Key: bpf.TraceCodeKey{Owner: r.owner, Id: r.id, Check: check},
	})
}

// TestKernelIsAskedOnceAgainForCode: code may move between the stack and the read.
func TestKernelIsAskedOnceAgainForCode(t *testing.T) {
	r := startReading(t)
	key := bpf.TraceCodeKey{Owner: r.owner, Id: r.id, Check: 77}
	sent := func() bool {
		var b uint8
		err := r.table.maps.Codes.Lookup(&key, &b)
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			t.Fatal(err)
		}
		return err == nil
	}
	for i, want := range []struct {
		sent   bool
		unread uint64
	}{{false, 0}, {true, 1}, {true, 1}} {
		if err := r.table.maps.Codes.Put(&key, uint8(1)); err != nil {
			t.Fatal(err)
		}
		r.table.Code(r.codeRecord(key.Check))
		if got := r.table.positions.unread; sent() != want.sent || got != want.unread {
			t.Errorf("record %d: the kernel keeps it = %v, unread = %d, want %v and %d", i, sent(), got, want.sent, want.unread)
		}
	}
	if table := r.table.positions.codes[key]; table == nil || table.Shared != 0 {
		t.Errorf("table = %+v, want an empty one", table)
	}
	failures, err := r.Failures(r.objects.Failures)
	if err != nil || failures[positionsCause] != 1 {
		t.Errorf("failures = %v, %v, want 1 of %q", failures, err, positionsCause)
	}
}

// TestTablesAreBounded has no room for tables, for bytes of tables, and for searches.
func TestTablesAreBounded(t *testing.T) {
	r := startReading(t)
	p := &r.table.positions
	reader := func(int) (code.Table, error) { return code.Table{Shared: r.fn.shared}, nil }
	p.bytes = maxTableBytes
	if _, calls, err := r.read(reader); !errors.Is(err, errFull) || calls != 0 {
		t.Errorf("no room for bytes: %v after %d reads, want %v after none", err, calls, errFull)
	}
	p.bytes = 0
	for i := range uint64(maxTables) {
		p.codes[bpf.TraceCodeKey{Check: i}] = nil
	}
	if _, calls, err := r.read(reader); !errors.Is(err, errFull) || calls != 0 {
		t.Errorf("no room for tables: %v after %d reads, want %v after none", err, calls, errFull)
	}
	const beyond = 100
	for i := range uint64(beyond) {
		r.table.Code(r.codeRecord(maxTables + i))
	}
	if len(p.codes) != maxTables || len(p.asked) != 0 || p.full != beyond || p.unread != 0 {
		t.Errorf("%d records too many: tables = %d, asked for = %d, full = %d, unread = %d, want %d, 0, %d, 0",
			beyond, len(p.codes), len(p.asked), p.full, p.unread, maxTables, beyond)
	}
	clear(p.codes)
	r.g.searches = maxSearches
	r.table.findStray(r.g, r.owner, strayKey{r.id, r.g.code[0].Start})
	if len(p.strays) != 0 || p.unread != 1 {
		t.Errorf("a search too many: strays = %d, unread = %d, want 0 and 1", len(p.strays), p.unread)
	}
}

// TestPositionsStayWithTheirFrames: a frame that is inserted at the leaf has none.
func TestPositionsStayWithTheirFrames(t *testing.T) {
	kernel := ^uint64(0)
	g, frame := wasmTarget(finder{0x1000: "leaf"})
	leaf := word(bpf.TraceFrameKindFRAME_TYPED, 5<<typeShift|0x1000)
	js := word(bpf.TraceFrameKindFRAME_JS, 9)
	table := NewTable(Maps{})
	for name, tt := range map[string]struct{ words, positions, want []uint64 }{
		"nothing inserted":       {[]uint64{js, js}, []uint64{1, 2}, []uint64{1, 2}},
		"inserted at the leaf":   {[]uint64{leaf, js, js}, []uint64{0, 2, 3}, []uint64{0, 0, 2, 3}},
		"below the kernel":       {[]uint64{kernel, kernel, leaf, js}, []uint64{0, 0, 0, 4}, []uint64{0, 0, 0, 0, 4}},
		"above WebAssembly":      {[]uint64{leaf, frame(0x1001), js}, []uint64{0, 0, 3}, []uint64{0, 0, 0, 3}},
		"a stack with no frames": {nil, nil, nil},
	} {
		s := Stack{words: table.nameWasm(g, append([]uint64(nil), tt.words...)), positions: tt.positions}
		if len(s.words) != len(tt.want) {
			t.Errorf("%s: %d words, want %d", name, len(s.words), len(tt.want))
			continue
		}
		for i, want := range tt.want {
			if got := s.position(i); got != want {
				t.Errorf("%s: position of word %d = %d, want %d", name, i, got, want)
			}
		}
	}
}

// TestPositionsOfUnknownCodeAreNone asks for positions of all forms of which no table
// is there, and of one that knows none.
func TestPositionsOfUnknownCodeAreNone(t *testing.T) {
	table := NewTable(Maps{})
	table.functions[9] = function{name: "f", script: scriptKey{ownedByFirst, 3}}
	table.positions.bytecodes[9] = &codeTable{}
	for form := range uint64(4) {
		for _, id := range []uint64{9, 10} {
			f := symbolize.Frame{Kind: symbolize.JS}
			inlined := table.execute(nil, word(bpf.TraceFrameKindFRAME_JS, id), form<<formShift|5, &f)
			if len(inlined) != 0 || f.ExecutingLine != 0 || f.ExecutingColumn != 0 {
				t.Errorf("form %d of function %d: %+v and %d inlined, want no position", form, id, f, len(inlined))
			}
		}
	}
}
