package trace

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"ustack/bpf"
	"ustack/symbolize"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/code"
	"ustack/testdata/nodetest"
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
		Poll: UsualPoll,
		Stack: func(_ uint64, s Stack) {
			for _, word := range s.words {
				fn := r.table.functions[word&idMask]
				known := fn.shared != 0 && fn.script.id != 0 && r.table.scripts[fn.script].source != nil
				if kindOf(word) == bpf.TraceFrameKindFRAME_JS && known && r.id == 0 {
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
	if err := r.Flush(); err != nil { // from now on only the test uses the table
		t.Fatal(err)
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

// TestKernelIsAskedAgainForCode: code may move between the stack and the read.
func TestKernelIsAskedAgainForCode(t *testing.T) {
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
	for i := range maxTries + 2 {
		if err := r.table.maps.Codes.Put(&key, uint8(1)); err != nil {
			t.Fatal(err)
		}
		r.table.Code(r.codeRecord(key.Check))
		if got, want := sent(), i >= maxTries-1; got != want || r.table.positions.unread != 1 {
			t.Errorf("record %d: the kernel keeps it = %v, unread = %d, want %v and 1", i, got, r.table.positions.unread, want)
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
	if len(p.codes) != maxTables || len(p.tries) != 0 || p.full != beyond || p.unread != 0 {
		t.Errorf("%d records too many: tables = %d, failed = %d, full = %d, unread = %d, want %d, 0, %d, 0",
			beyond, len(p.codes), len(p.tries), p.full, p.unread, maxTables, beyond)
	}
	clear(p.codes)
	r.g.searches = maxSearches
	stray := strayKey{function: r.id, pc: r.g.code[0].Start + codeBytes}
	check, err := checkAt(r.g.process, stray.pc)
	if err != nil {
		t.Fatal(err)
	}
	stray.check = check
	r.table.findStray(r.g, r.owner, stray)
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

// TestStrayCodeIsChecked: V8 may put other code where a function's code was.
func TestStrayCodeIsChecked(t *testing.T) {
	r := startReading(t)
	stray := strayKey{function: r.id, pc: r.g.code[0].Start + codeBytes}
	check, err := checkAt(r.g.process, stray.pc)
	if err != nil {
		t.Fatal(err)
	}
	stray.check = check ^ 1
	searches := r.g.searches
	r.table.findStray(r.g, r.owner, stray)
	if s, ok := r.table.positions.strays[stray]; !ok || s.table.Shared != 0 || r.g.searches != searches || r.table.positions.unread != 1 {
		t.Errorf("other code: table = %+v, searches = %d, unread = %d, want an empty one, %d, 1", s.table, r.g.searches, r.table.positions.unread, searches)
	}
}

// TestFunctionThatMovedIsReadOnceTheKernelSendsItAgain.
func TestFunctionThatMovedIsReadOnceTheKernelSendsItAgain(t *testing.T) {
	r := startReading(t)
	p := &r.table.positions
	var b uint8
	if err := r.table.maps.Names.Put(&r.id, uint8(1)); err != nil {
		t.Fatal(err)
	}
	moved := r.fn
	moved.shared -= 8
	r.table.functions[r.id] = moved
	for range 3 {
		r.table.readBytecodes(r.g, r.owner, r.id)
	}
	if err := r.table.maps.Names.Lookup(&r.id, &b); !errors.Is(err, ebpf.ErrKeyNotExist) || p.unread != 1 || p.tries[r.id] != 1 {
		t.Errorf("the kernel keeps the function: %v, unread = %d, tries = %d, want no key, 1, 1", err, p.unread, p.tries[r.id])
	}
	r.table.functions[r.id] = r.fn
	r.table.found(r.id)
	if table := p.bytecodes[r.id]; table == nil || table.Shared == 0 || p.unread != 0 || len(p.tries) != 0 {
		t.Errorf("table = %+v, unread = %d, tries = %v, want a table, 0, none", table, p.unread, p.tries)
	}
}

// TestFunctionIsSentAgainWithoutACollection asks for a function of a program that allocates
// nothing, for which everything is cached in the kernel until it is asked again.
func TestFunctionIsSentAgainWithoutACollection(t *testing.T) {
	script := filepath.Join(t.TempDir(), "still.js")
	const text = "require('fs').writeSync(1, 'ready {}\\n'); (function still() { for (let i = 0; ; i = (i + 1) & 255); })();\n"
	if err := os.WriteFile(script, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	target := nodetest.Start(t, nodetest.Node(t, anyVersion), nodetest.Options{Script: script, MayFail: true})
	var one unix.CPUSet // each CPU has a cache of its own
	one.Set(0)
	if err := unix.SchedSetaffinity(target.PID, &one); err != nil {
		t.Fatal(err)
	}
	var s *sampled
	var id uint64
	s = openSampled(t, Options{Selection: Selection{PIDs: []int{target.PID}}, Duration: time.Minute}, Tool{
		Poll: UsualPoll,
		Stack: func(_ uint64, stack Stack) {
			s.Table.mutex.Lock()
			defer s.Table.mutex.Unlock()
			for _, word := range stack.words {
				if kindOf(word) == bpf.TraceFrameKindFRAME_JS && s.Table.functions[word&idMask].name == "still" {
					id = word & idMask
				}
			}
		},
	})
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	work := make(chan func(context.Context) error, 1)
	asked, sent := false, false
	tick := func() time.Duration {
		const cached = 100 // samples, after which the function is
		s.Table.mutex.Lock()
		defer s.Table.mutex.Unlock()
		switch {
		case id == 0 || s.samples(t) < cached || sent:
		case !asked:
			s.Table.askForFunction(id)
			asked = true
		case s.Table.positions.moved[id] == nil:
			sent = true
			work <- func(context.Context) error { return ErrDone }
		}
		return 10 * time.Millisecond
	}
	if err := s.Run(t.Context(), Loop{Attach: s.sample, Tick: tick, Work: work}); err != nil {
		t.Fatal(err)
	}
	if !sent {
		t.Error("the kernel has not sent the function again")
	}
}

// TestPlacesWaitForTheirFunction: what a stack needs of a function that is being sent again is
// read once that has come.
func TestPlacesWaitForTheirFunction(t *testing.T) {
	r := startReading(t)
	p := &r.table.positions
	waits := r.table.askForFunction(r.id)
	r.table.readBytecodes(r.g, r.owner, r.id)
	for i := range uint64(4 * maxAwaiting) {
		key := strayKey{function: r.id, pc: r.g.code[0].Start + codeBytes + i/2}
		r.table.findStray(r.g, r.owner, key)
	}
	if len(p.bytecodes) != 0 || len(p.strays) != 0 || !waits.bytecodes || len(waits.strays) != maxAwaiting {
		t.Errorf("tables = %d and %d, waiting = %v and %d, want 0 and 0, true and %d", len(p.bytecodes), len(p.strays), waits.bytecodes, len(waits.strays), maxAwaiting)
	}
	const crowded = 4*maxAwaiting - 2*maxAwaiting // each was met twice
	if got := p.unanswered(); got != 1+maxAwaiting+crowded {
		t.Errorf("unread = %d, want all that waits and what there was no room for (%d)", got, 1+maxAwaiting+crowded)
	}
	r.table.found(r.id)
	if p.bytecodes[r.id] == nil || len(p.strays) == 0 || len(p.strays) > maxAwaiting {
		t.Errorf("tables = %v and %d, want one and at most %d", p.bytecodes[r.id], len(p.strays), maxAwaiting)
	}
}

// TestScriptsAreNotReadWhileObjectsMove: neither one that the kernel sends nor one that is
// only known by a function inlined elsewhere, unless its text is where nothing moves.
func TestScriptsAreNotReadWhileObjectsMove(t *testing.T) {
	r := startReading(t)
	key := r.fn.script
	if err := r.g.openCode(); err != nil {
		t.Fatal(err)
	}
	f, err := r.g.heap.FunctionOf(r.fn.shared)
	if err != nil {
		t.Fatal(err)
	}
	isolate := r.g.isolates[key.owner]
	r.g.isolates[key.owner] = 8 // where no state can be read
	known := r.table.scripts[key]
	if known.source == nil || known.source.Fixed() {
		t.Fatalf("the script's source = %+v, want one that V8 may move", known.source)
	}
	source, _, err := r.table.readScript(r.g, key, f.Script)
	if !errors.Is(err, errMoving) || source != known.source {
		t.Errorf("script: %v with another source = %v, want %v and the known one", err, source != known.source, errMoving)
	}
	for range maxTries + 2 {
		s := script{name: known.name}
		r.table.readSent(&s, r.g, key, f.Script)
		r.table.scripts[key] = s
	}
	if r.g.pauses != maxPauses {
		t.Errorf("pauses = %d, want %d", r.g.pauses, maxPauses)
	}
	if got := r.table.scripts[key]; got.asked != maxTries || got.source != known.source || got.gone {
		t.Errorf("the kernel was asked %d times, gone = %v, want %d and a source that stays", got.asked, got.gone, maxTries)
	}
	delete(r.table.scripts, key)
	table := &codeTable{Table: code.Table{Inlined: []v8.Value{r.fn.shared}}, inlined: make(map[v8.Value]function)}
	if err := r.table.readInlined(r.g, r.owner, table, make(map[v8.Value]int)); !errors.Is(err, errMoving) {
		t.Errorf("inlined: %v, want %v", err, errMoving)
	}
	r.g.isolates[key.owner] = isolate
	err = errMoving
	for tries := 0; tries < maxTries && errors.Is(err, errMoving); tries++ { // V8 may collect at this moment
		err = r.table.readInlined(r.g, r.owner, table, make(map[v8.Value]int))
	}
	if err != nil || r.table.scripts[key].source == nil {
		t.Errorf("inlined, once objects rest: %v, source = %v, want one", err, r.table.scripts[key].source)
	}
}

// TestLongScriptsAreReadWhileObjectsMove: V8 collects more often than 16 MB can be read.
func TestLongScriptsAreReadWhileObjectsMove(t *testing.T) {
	file := filepath.Join(t.TempDir(), "long.js")
	text := "/*" + strings.Repeat("x", 16<<20) + "*/\nrequire('fs').writeSync(1, 'ready {}\\n');\nfor (let kept; ; kept = { kept: [kept === null] });\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	target := nodetest.Start(t, nodetest.Node(t, anyVersion), nodetest.Options{Script: file, Flags: []string{"--max-semi-space-size=1"}, MayFail: true})
	s := openSampled(t, Options{Selection: Selection{PIDs: []int{target.PID}}, Duration: time.Minute}, Tool{Poll: UsualPoll})
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	work := make(chan func(context.Context) error, 1)
	found := false
	tick := func() time.Duration {
		s.Table.mutex.Lock()
		defer s.Table.mutex.Unlock()
		for _, script := range s.Table.scripts {
			if script.name == file && script.source.Fixed() && !found {
				found = true
				work <- func(context.Context) error { return ErrDone }
			}
		}
		return 10 * time.Millisecond
	}
	if err := s.Run(t.Context(), Loop{Attach: s.sample, Tick: tick, Work: work}); err != nil {
		t.Fatal(err)
	}
	if !found {
		t.Error("the script was not read")
	}
}

// TestCodeThatCannotSayWhereItIsCountsOnce by its cause.
func TestCodeThatCannotSayWhereItIsCountsOnce(t *testing.T) {
	p := newPositions()
	doubtful, damaged, right := &codeTable{}, &codeTable{}, &codeTable{}
	for range 3 {
		p.count(doubtful, code.ErrDoubtful)
		p.count(damaged, errReplaced)
		p.count(right, nil)
	}
	if p.doubtful != 1 || p.unread != 1 || p.none != 0 {
		t.Errorf("doubtful = %d, unread = %d, without positions = %d, want 1, 1, 0", p.doubtful, p.unread, p.none)
	}
}
