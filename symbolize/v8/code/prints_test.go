package code

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ustack/symbolize"
	"ustack/testdata/nodetest"
)

// A printedCode is what V8 prints of a piece of optimized code.
type printedCode struct {
	start        uint64         // of the instructions
	translations map[int]string // frames of functions, by deoptimization
	calls        []safepoint
	slots        int // words of its frame
	tagged       int // of Maglev's code: the words that are visited, after the fixed ones
	words        []printedWords
}

// A printedWords is what V8 prints of the frame while a call is in progress.
type printedWords struct {
	offset  int    // of the instruction that the call returns to
	visited string // of TurboFan's code: 1 for each word that is visited, lowest address first
	pushed  int    // of Maglev's: registers that are pushed
	tagged  string // of those, 1 for each that is visited, last one first
}

var (
	printedStart = regexp.MustCompile(`^0x([0-9a-f]+) +0  `)
	printedDeopt = regexp.MustCompile(`^ +(\d+) +-?\d+ +(?:NA|[0-9a-f]+)`)
	printedFrame = regexp.MustCompile(`INTERPRETED_FRAME\w* \{bytecode_offset=(-?\d+), function=([^,]*),`)
	printedCall  = regexp.MustCompile(`^0x[0-9a-f]+ +([0-9a-f]+) .* deopt +(\d+) trampoline: +([0-9a-f]+)`)
	printedSlots = regexp.MustCompile(`^(?:stack_slots = |Safepoints \(.*stack slots = | - stack_slots: )(\d+)`)
	printedTags  = regexp.MustCompile(`^Safepoints \(.*, tagged slots = (\d+)(?:, untagged slots = (\d+))?`)
	printedWord  = regexp.MustCompile(`^0x[0-9a-f]+ +([0-9a-f]+) +(?:(?:[0-9a-f]+ +)?([01]+) \(sp -> fp\)|slots \(sp->fp\): ([01]+)|num extra spill slots: (\d+))(?:  registers: ([01]+))?`)
	oldCall      = regexp.MustCompile(`^0x[0-9a-f]+ +([0-9a-f]+) +([0-9a-f]+)  [01]+ \(sp -> fp\) +(\d+)`) // up to V8 9.4
)

// printedCodes returns the code that V8 printed.
func printedCodes(lines []string) (all []printedCode) {
	var c *printedCode
	deopt, slots := -1, 0
	for _, line := range lines {
		if found := printedStart.FindStringSubmatch(line); found != nil {
			start, _ := strconv.ParseUint(found[1], 16, 64)
			all = append(all, printedCode{start: start, translations: map[int]string{}, slots: slots})
			c, deopt = &all[len(all)-1], -1
		}
		if found := printedSlots.FindStringSubmatch(line); found != nil {
			slots, _ = strconv.Atoi(found[1])
		}
		if c == nil {
			continue
		}
		c.readWords(line, slots)
		if found := printedDeopt.FindStringSubmatch(line); found != nil {
			deopt, _ = strconv.Atoi(found[1])
			c.translations[deopt] = ""
		}
		if found := printedFrame.FindStringSubmatch(line); found != nil {
			c.translations[deopt] += found[2] + " at " + found[1] + ", "
		}
		found := printedCall.FindStringSubmatch(line)
		if old := oldCall.FindStringSubmatch(line); old != nil {
			found = []string{old[0], old[1], old[3], old[2]}
		}
		if found != nil {
			offset, _ := strconv.ParseInt(found[1], 16, 32)
			number, _ := strconv.Atoi(found[2])
			trampoline, _ := strconv.ParseInt(found[3], 16, 32)
			c.calls = append(c.calls, safepoint{int(offset), int(trampoline), number})
		}
	}
	return all
}

// readWords reads what a line says of the frame.
func (c *printedCode) readWords(line string, slots int) {
	if strings.HasPrefix(line, "Safepoints (") {
		c.slots = slots // may be in that line only
	}
	if found := printedTags.FindStringSubmatch(line); found != nil {
		c.tagged, _ = strconv.Atoi(found[1])
		if untagged, err := strconv.Atoi(found[2]); err == nil {
			c.slots = fixedSlots + c.tagged + untagged
		}
	}
	if found := printedWord.FindStringSubmatch(line); found != nil {
		offset, _ := strconv.ParseInt(found[1], 16, 32)
		pushed, _ := strconv.Atoi(found[4])
		c.words = append(c.words, printedWords{int(offset), found[2] + found[3], pushed, found[5]})
	}
}

// unvisited returns the words of a frame that V8 does not visit, highest address first.
func (c *printedCode) unvisited(w printedWords) (slots []int) {
	for slot := fixedSlots; slot < c.slots+w.pushed; slot++ {
		bit := c.slots - 1 - slot
		var visited bool
		switch {
		case w.visited != "":
			visited = bit < len(w.visited) && w.visited[bit] == '1'
		case slot < c.slots:
			visited = slot < fixedSlots+c.tagged
		default:
			at := len(w.tagged) - 1 - (slot - c.slots)
			visited = at >= 0 && w.tagged[at] == '1'
		}
		if !visited {
			slots = append(slots, slot)
		}
	}
	return slots
}

// checkWords compares what of a frame is not visited with what V8 prints. It returns how
// many words were compared.
func checkWords(t *testing.T, f *Finder, code Code, printed printedCode) (words int) {
	t.Helper()
	for _, w := range printed.words {
		spans, err := f.Unvisited(code, code.Start+uint64(w.offset))
		if err != nil {
			t.Errorf("%v code at %#x, returning to %#x: %v", code.Tier, code.Start, w.offset, err)
			continue
		}
		var got []int
		for _, s := range slices.Backward(spans) {
			for at := s.End - wordSize; at >= s.Start; at -= wordSize {
				got = append(got, int(1-at/wordSize))
			}
		}
		if want := printed.unvisited(w); !slices.Equal(got, want) {
			t.Errorf("%v code at %#x, returning to %#x: words that are not visited = %v, want %v", code.Tier, code.Start, w.offset, got, want)
		}
		words += printed.slots + w.pushed - fixedSlots
	}
	return words
}

// TestCallsAreThoseThatV8Prints compares the calls of optimized code, and the functions
// that are in progress then, with what V8 prints of them.
func TestCallsAreThoseThatV8Prints(t *testing.T) {
	nodetest.EachNode(t, func(t *testing.T, path string) {
		flags := []string{"--print-opt-code", "--print-maglev-code", "--print-code-verbose", "--single-threaded-gc", "--min-semi-space-size=64"}
		if imageOf(t, path).Layout.KindMaglev == 0 {
			flags = slices.Delete(flags, 1, 2)
		}
		flags = append(flags, "../../../testdata/programs/inlines.js")
		if v := imageOf(t, path).Version; v.Major == 13 && v.Minor == 6 {
			flags = append(flags, "--exact")
		}
		p := nodetest.Pause(t, path, flags...)
		h := heapAt(t, p.Memory, inspect(t, path))
		f, _ := NewFinder(h, 0) // the addresses of code are known
		checked, words := map[symbolize.Tier]int{}, map[symbolize.Tier]int{}
		for _, printed := range printedCodes(p.Lines) {
			const before = 4 << 10
			code, err := f.At(printed.start, printed.start-before)
			if err != nil || code.Start != printed.start || len(printed.calls) == 0 {
				continue // V8 has dropped the code, or it calls nothing
			}
			checked[code.Tier] += checkCalls(t, f, code, printed)
			words[code.Tier] += checkWords(t, f, code, printed)
		}
		t.Logf("frames compared: %v; words: %v", checked, words)
		const enough = 30
		if checked[symbolize.Turbofan] < enough {
			t.Errorf("frames of TurboFan's code that were compared = %d, want %d or more", checked[symbolize.Turbofan], enough)
		}
		if words[symbolize.Turbofan] < enough {
			t.Errorf("words of TurboFan's frames that were compared = %d, want %d or more", words[symbolize.Turbofan], enough)
		}
	})
}

// checkCalls compares the calls of a piece of code with those printed, and returns how
// many frames of functions they have.
func checkCalls(t *testing.T, f *Finder, code Code, printed printedCode) (frames int) {
	t.Helper()
	table, err := f.Table(code, 0)
	if errors.Is(err, errNoDeoptimization) { // code that calls WebAssembly
		return 0
	}
	if err != nil {
		t.Errorf("%v code at %#x: %v", code.Tier, code.Start, err)
		return 0
	}
	points, err := f.safepoints(code)
	if err != nil {
		t.Errorf("%v code at %#x: %v", code.Tier, code.Start, err)
	}
	points = slices.DeleteFunc(points, func(p safepoint) bool { return p.deopt < 0 })
	if !slices.Equal(points, printed.calls) {
		t.Errorf("calls of %v code at %#x = %v, want %v", code.Tier, code.Start, points, printed.calls)
	}
	for _, p := range printed.calls {
		for _, offset := range []int{p.offset, p.trampoline} {
			c, ok := table.returns.to(offset)
			if !ok {
				t.Errorf("%v code at %#x has no call that returns to %#x", code.Tier, code.Start, offset)
				continue
			}
			got, err := functionsAt(&table.returns.translations, int(c.translation))
			if err != nil {
				t.Errorf("frames at %#x: %v", offset, err)
			}
			if want := printed.translations[p.deopt]; named(t, f, &table, got) != want {
				t.Errorf("frames of %v code at %#x = %q, want %q", code.Tier, offset, named(t, f, &table, got), want)
			}
			frames += len(got)
		}
	}
	return frames
}

// named writes frames as V8 prints them.
func named(t *testing.T, f *Finder, table *Table, frames []functionFrame) string {
	t.Helper()
	var b strings.Builder
	for _, frame := range frames {
		shared := table.Shared
		if frame.literal != frames[0].literal {
			shared = table.Inlined[frame.literal]
		}
		fn, err := f.heap.FunctionOf(shared)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s at %d, ", fn.Name, frame.bytecode)
	}
	return b.String()
}
