package hosttest

import (
	"encoding/binary"
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
	h := startHost(t, compileHost(t))
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

// TestEveryReleaseAndKindIsRecorded keeps the recordings complete.
func TestEveryReleaseAndKindIsRecorded(t *testing.T) {
	missing := map[string]bool{}
	for _, version := range nodetest.Versions {
		missing["node "+version] = true
	}
	for _, kind := range []string{"native", "typed", "builtin", "interpreted", "turbofan"} {
		missing[kind] = true
	}
	for _, r := range recordings(t) {
		delete(missing, "node "+r.Node)
		for _, frame := range r.Frames {
			kind, _, _ := strings.Cut(frame, " ")
			delete(missing, kind)
		}
	}
	if len(missing) > 0 {
		t.Errorf("not recorded: %v", missing)
	}
}

// TestLostMemoryIsCounted takes recorded memory away, piece by piece: a stack gets
// shorter, and the cause is counted.
func TestLostMemoryIsCounted(t *testing.T) {
	h := startHost(t, compileHost(t))
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

// A damage writes some words over a copy of a recording: mutation by mutation, ten
// bytes each say where, and which word.
type damage []byte

const damageBytes = 10

func (d damage) to(r *recording) *recording {
	damaged := *r
	damaged.Memory = slices.Clone(r.Memory)
	copied := map[int]bool{}
	for ; len(d) >= damageBytes; d = d[damageBytes:] {
		at, word := binary.LittleEndian.Uint16(d), d[2:damageBytes]
		i := int(at) % (len(damaged.Memory) + 1)
		if i == len(damaged.Memory) {
			value := binary.LittleEndian.Uint64(word)
			*[]*uint64{&damaged.Registers.SP, &damaged.Registers.BP, &damaged.Registers.IP, &damaged.Registers.DI}[at>>8&3] = value
			continue
		}
		m := &damaged.Memory[i]
		if !copied[i] {
			m.Bytes, copied[i] = slices.Clone(m.Bytes), true
		}
		if words := len(m.Bytes) / 8; words > 0 {
			copy(m.Bytes[8*(int(at)*int(d[2])%words):], word)
		}
	}
	return &damaged
}

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

func TestDamagedMemory(t *testing.T) {
	h := startHost(t, compileHost(t))
	const rounds = 50
	for file, r := range recordings(t) {
		random := rand.New(rand.NewPCG(1, uint64(len(file))))
		for round := range rounds {
			d := make(damage, damageBytes*(1+random.IntN(8)))
			for i := range d {
				d[i] = byte(random.Uint32())
			}
			for i := 0; i < len(d); i += damageBytes {
				plausible(random, r, d[i+2:i+damageBytes])
			}
			u, err := h.unwind(d.to(r), 0)
			if err == nil {
				err = checkBounds(u)
			}
			if err != nil {
				t.Fatalf("%s, round %d, damage %x: %v", file, round, d, err)
			}
		}
	}
}

// plausible writes a word that the unwinder may believe, or leaves it random.
func plausible(random *rand.Rand, r *recording, word []byte) {
	other := r.Memory[random.IntN(len(r.Memory))]
	address := other.Address + uint64(random.IntN(len(other.Bytes)))&^7
	switch random.IntN(5) {
	case 0:
		binary.LittleEndian.PutUint64(word, address)
	case 1:
		binary.LittleEndian.PutUint64(word, address|1)
	case 2:
		binary.LittleEndian.PutUint64(word, uint64(random.IntN(1<<12))<<32)
	case 3:
		binary.LittleEndian.PutUint64(word, ^uint64(0)<<random.IntN(64))
	}
}

func FuzzUnwind(f *testing.F) {
	byFile := recordings(f)
	var all []*recording
	for _, file := range slices.Sorted(maps.Keys(byFile)) {
		all = append(all, byFile[file])
	}
	h := startHost(f, compileHost(f))
	for i := range all {
		f.Add(uint8(i), []byte{})
		f.Add(uint8(i), slices.Repeat([]byte{0xff}, damageBytes))
	}
	f.Fuzz(func(t *testing.T, which uint8, bytes []byte) {
		u, err := h.unwind(damage(bytes).to(all[int(which)%len(all)]), 0)
		if err == nil {
			err = checkBounds(u)
		}
		if err != nil {
			t.Fatal(err)
		}
	})
}
