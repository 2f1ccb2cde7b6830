package hosttest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ustack/bpf"
	"ustack/testdata/nodetest"
)

func TestRecordedStacks(t *testing.T) {
	h := newHost(t)
	for file, r := range recordings(t) {
		t.Run(file, func(t *testing.T) {
			u, err := h.unwind(r, 0)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(r.Frames, u.text()); diff != "" {
				t.Errorf("frames (-recorded +now):\n%s", diff)
			}
			if diff := cmp.Diff(r.Calls, u.calls()); diff != "" {
				t.Errorf("calls (-by the unwinder of cores +by this one):\n%s", diff)
			}
			if len(u.failures) > 0 {
				t.Errorf("failures = %v, want none", u.failures)
			}
		})
	}
}

// TestKnownFunctionsAreUnwoundAlike unwinds stacks again, with the functions that are
// cached by then.
func TestKnownFunctionsAreUnwoundAlike(t *testing.T) {
	h := newHost(t)
	for file, r := range recordings(t) {
		if err := h.meet(r); err != nil {
			t.Fatal(err)
		}
		u, err := h.unwindAgain(r)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r.Frames, u.text()); diff != "" {
			t.Errorf("%s: frames (-recorded +again):\n%s", file, diff)
		}
	}
}

// meet has the host unwind r's stack as often as it takes until its functions are cached:
// in the first sample of an epoch none is.
func (h *host) meet(r *recording) error {
	_, err := h.unwind(r, 0)
	if err == nil {
		_, err = h.unwindAgain(r)
	}
	return err
}

// TestUnwindersAgree unwinds the recorded stacks with the unwinder of cores, too: both
// find the same functions.
func TestUnwindersAgree(t *testing.T) {
	h := newHost(t)
	for file, r := range recordings(t) {
		t.Run(file, func(t *testing.T) {
			u, err := h.unwind(r, 0)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(r.unwindAsCore(t, recordedMemory(r.CoreMemory)), u.calls()); diff != "" {
				t.Errorf("calls (-by the unwinder of cores +by the kernel's):\n%s", diff)
			}
		})
	}
}

// TestEveryReleaseAndKindIsRecorded keeps the recordings complete.
func TestEveryReleaseAndKindIsRecorded(t *testing.T) {
	missing := map[string]bool{}
	for _, version := range nodetest.Versions {
		for _, kind := range []string{"native", "typed", "builtin", "interpreted", "turbofan", "wasm", "regexp", "signal"} {
			missing[version+" "+kind] = true
		}
	}
	for _, r := range recordings(t) {
		outer := ""
		for _, frame := range slices.Backward(r.Frames) {
			kind, _, _ := strings.Cut(frame, " ")
			delete(missing, r.Node+" "+kind)
			if kind == "native" && outer == "regexp" { // which calls no native code
				delete(missing, r.Node+" signal")
			}
			outer = kind
		}
	}
	if len(missing) > 0 {
		t.Errorf("not recorded: %v", missing)
	}
}

// TestLostMemoryIsCounted takes recorded memory away, piece by piece: a stack gets
// shorter, and the cause is counted.
func TestLostMemoryIsCounted(t *testing.T) {
	h := newHost(t)
	for file, r := range recordings(t) {
		if !strings.Contains(file, "interpreted") {
			continue
		}
		causes := map[bpf.TraceFailure]bool{}
		for i := range r.Memory {
			without := *r
			without.Memory = slices.Delete(slices.Clone(r.Memory), i, i+1)
			u, err := h.unwind(&without, 0)
			if err != nil {
				t.Fatalf("%s without %#x: %v", file, r.Memory[i].Address, err)
			}
			if len(u.failures) == 0 && slices.Contains(u.text(), "lost") {
				t.Errorf("%s without %#x: a lost frame is not counted", file, r.Memory[i].Address)
			}
			for cause := range u.failures {
				causes[cause] = true
			}
		}
		for _, cause := range []bpf.TraceFailure{
			bpf.TraceFailureFAILURE_STACK, bpf.TraceFailureFAILURE_FUNCTION,
			bpf.TraceFailureFAILURE_FUNCTION_DATA, bpf.TraceFailureFAILURE_NAME,
		} {
			if !causes[cause] {
				t.Errorf("%s: no loss of memory was counted as cause %d", file, cause)
			}
		}
	}
}

// A damage writes some words over a copy of a recording. Each has damageBytes: the piece
// of memory as two bytes, or past the last one a register; where in it, as two bytes; the
// kind of the word as one; an unused one; where another word is, as those before; and
// what the word is made of, as eight.
type damage []byte

const damageBytes = 18

// A place is where a word of a recording is: in the register numbered at, if there is no
// such piece of memory.
type place struct{ piece, at int }

func placeOf(d []byte, pieces int) place {
	return place{int(binary.LittleEndian.Uint16(d)) % pieces, int(binary.LittleEndian.Uint16(d[2:]))}
}

func (d damage) to(r *recording) *recording {
	damaged := *r
	damaged.Memory = slices.Clone(r.Memory)
	copied := make([]bool, len(r.Memory))
	for ; len(d) >= damageBytes; d = d[damageBytes:] {
		where, other := placeOf(d, len(r.Memory)+1), placeOf(d[6:], len(r.Memory))
		if i := where.piece; i < len(copied) && !copied[i] {
			damaged.Memory[i].Bytes, copied[i] = slices.Clone(damaged.Memory[i].Bytes), true
		}
		damaged.set(where, damaged.plausible(d[4], where, other, binary.LittleEndian.Uint64(d[10:])))
	}
	return &damaged
}

// register returns the register at p; nil if p is in memory.
func (r *recording) register(p place) *uint64 {
	if p.piece < len(r.Memory) {
		return nil
	}
	g := &r.Registers
	return []*uint64{&g.SP, &g.BP, &g.IP, &g.DI, &g.R13}[p.at%5]
}

// bytes returns the bytes of the word of memory at p, which may be less than eight at the
// end of a piece, and their address.
func (r *recording) bytes(p place) ([]byte, uint64) {
	m := r.Memory[p.piece]
	at := 8 * p.at % len(m.Bytes) &^ 7
	return m.Bytes[at:min(at+8, len(m.Bytes))], m.Address + uint64(at)
}

func (r *recording) word(p place) uint64 {
	if register := r.register(p); register != nil {
		return *register
	}
	var word [8]byte
	bytes, _ := r.bytes(p)
	copy(word[:], bytes)
	return binary.LittleEndian.Uint64(word[:])
}

func (r *recording) set(p place, word uint64) {
	if register := r.register(p); register != nil {
		*register = word
		return
	}
	bytes, _ := r.bytes(p)
	copy(bytes, binary.LittleEndian.AppendUint64(nil, word))
}

// plausible returns what to write at where: any word, or one that the unwinder may
// believe.
func (r *recording) plausible(kind byte, where, other place, word uint64) uint64 {
	_, address := r.bytes(other)
	switch kind % 10 {
	case 1:
		return address
	case 2:
		return address | 1 // an object's
	case 3:
		return word << 32 // a Smi
	case 4:
		return word % (1 << 12) << 32
	case 5:
		return ^uint64(0) << (word % 64)
	case 6:
		return r.word(where) ^ 1<<(word%64)
	case 7:
		return r.word(where) + uint64(int8(word))
	case 8:
		return r.word(other)
	case 9:
		code := r.Process.Ranges[other.at%int(r.Process.RangeCount)]
		return code.Start + word%(code.End-code.Start)
	}
	return word
}

// running returns recordings of the thread in each of V8's frames on r's stack, as if it
// had not called others; and once more as if its frame were not built yet.
func (r *recording) running() []*recording {
	var all []*recording
	code := func(pc uint64) int {
		return slices.IndexFunc(r.Process.Ranges[:r.Process.RangeCount], func(m bpf.TraceRange) bool {
			isV8 := bpf.TraceCode(m.End&uint64(bpf.TraceRangeBitRANGE_CODE)) >= bpf.TraceCodeCODE_BUILTIN
			return isV8 && pc >= m.Start && pc < m.End
		})
	}
	for piece, m := range r.Memory {
		for at := 0; at+16 <= len(m.Bytes); at += 8 {
			fp := m.Address + uint64(at)
			next, pc := r.word(place{piece, at / 8}), r.word(place{piece, at/8 + 1})
			if fp < r.Registers.SP || next <= fp || next-fp > maxFrame || code(pc) < 0 {
				continue
			}
			running := *r
			running.Registers.IP, running.Registers.SP, running.Registers.BP = pc, fp+16, next
			running.Registers.DI, _ = recordedMemory(r.Memory).word(next + uint64(r.Process.Layout.FpFunction))
			beginning := running
			beginning.Registers.SP = next
			all = append(all, &running, &beginning)
		}
	}
	return all
}

// maxFrame bounds the bytes of a frame in the recordings.
const maxFrame = 1 << 13

// checkBounds reports what no stack may be, however damaged its memory is.
func checkBounds(u *unwound) error {
	if u.stack == nil || u.stack.Count > uint32(len(u.stack.Frames)) {
		return fmt.Errorf("no stack, or more frames than there is room for")
	}
	for _, name := range u.names {
		if int(name.Length) > len(name.Text)/2 {
			return fmt.Errorf("a name of %d bytes", name.Length)
		}
	}
	return nil
}

// TestRunningFunctionsAreUnwound unwinds from within V8's code.
func TestRunningFunctionsAreUnwound(t *testing.T) {
	h := newHost(t)
	for file, r := range recordings(t) {
		running := r.running()
		if len(running) < len(r.Calls) {
			t.Errorf("%s: frames of V8's code = %d, want %d or more", file, len(running), len(r.Calls))
		}
		for _, leaf := range running {
			if err := h.bears(leaf); err != nil {
				t.Fatalf("%s at %#x: %v", file, leaf.Registers.IP, err)
			}
		}
	}
}

func TestDamagedMemory(t *testing.T) {
	h := newHost(t)
	const rounds = 200
	for file, r := range recordings(t) {
		random := rand.New(rand.NewPCG(1, uint64(len(file))))
		for round := range rounds {
			d := make(damage, damageBytes*(1+random.IntN(8)))
			for i := range d {
				d[i] = byte(random.Uint32())
			}
			damaged := d.to(r)
			if err := errors.Join(h.bears(damaged), h.bearsAgain(r, damaged)); err != nil {
				t.Fatalf("%s, round %d, damage %x: %v", file, round, d, err)
			}
		}
	}
}

// bears reports how unwinding a damaged recording fails.
func (h *host) bears(damaged *recording) error {
	u, err := h.unwind(damaged, 0)
	if err != nil {
		return err
	}
	return checkBounds(u)
}

// bearsAgain is like bears, with what the host remembers of the undamaged recording r.
func (h *host) bearsAgain(r, damaged *recording) error {
	if err := h.meet(r); err != nil {
		return err
	}
	u, err := h.unwindAgain(damaged)
	if err != nil {
		return err
	}
	return checkBounds(u)
}

func FuzzUnwind(f *testing.F) {
	byFile := recordings(f)
	var all []*recording
	for _, file := range slices.Sorted(maps.Keys(byFile)) {
		all = append(all, byFile[file])
	}
	h := newHost(f)
	var running [][]*recording
	for i, r := range all {
		f.Add(uint8(i), uint8(0), []byte{})
		f.Add(uint8(i), uint8(1), slices.Repeat([]byte{0xff}, damageBytes))
		running = append(running, append([]*recording{r}, r.running()...))
	}
	f.Fuzz(func(t *testing.T, which, leaf uint8, bytes []byte) {
		i := int(which) % len(all)
		r := running[i][int(leaf)%len(running[i])]
		damaged := damage(bytes).to(r)
		if err := h.bears(damaged); err != nil {
			t.Fatal(err)
		}
		if err := h.bearsAgain(r, damaged); err != nil {
			t.Fatal(err)
		}
	})
}
