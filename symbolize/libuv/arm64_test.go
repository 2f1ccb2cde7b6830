package libuv

import (
	"debug/elf"
	"encoding/binary"
	"testing"

	"ustack/testdata/nodetest"
)

// siteOf returns libuv's function of that name in a build for arm64.
func siteOf(t *testing.T, version, name string) Site {
	t.Helper()
	f := nodetest.OpenELF(t, nodetest.NodeFor(t, version, "arm64"))
	s, ok := f.Symbol(name)
	if !ok {
		t.Fatalf("no %s", name)
	}
	code := make([]byte, s.Size)
	if _, err := f.ReadAt(code, s.Address); err != nil {
		t.Fatal(err)
	}
	return Site{Function{Code: code, Address: s.Address}, f.Machine()}
}

func TestLinkedCallIsFound(t *testing.T) {
	for _, version := range nodetest.VersionsFor("arm64") {
		t.Run(version, func(t *testing.T) {
			worker := siteOf(t, version, Worker)
			c, ok := worker.Call()
			if !ok || c.After != c.Before+instructionBytes || c.Register < 19 || c.Register > 28 {
				t.Fatalf("call = %+v, %t, want one with the job in a saved register", c, ok)
			}
			if word := binary.LittleEndian.Uint32(worker.Code[c.Before:]); word&callMask != call {
				t.Errorf("instruction at %#x = %#x, want a call by a register", c.Before, word)
			}
			if got := worker.Entry(4); got != 0 {
				t.Errorf("entry = %#x, want the start", got)
			}
			twice := Site{Function{Code: append(worker.Code, worker.Code...)}, worker.Machine}
			if c, ok := twice.Call(); ok {
				t.Errorf("call = %+v in code that has two", c)
			}
			if done := siteOf(t, version, QueueDone); done.Address != 0 {
				if _, found, mentioned := siteOf(t, version, WorkDone).Completion(done.Address); found || mentioned {
					t.Errorf("%s refers to %s: %t, contains it: %t, want neither", WorkDone, QueueDone, mentioned, found)
				}
			}
		})
	}
}

func TestReferenceIsFound(t *testing.T) {
	code := []byte{0x15, 0x00, 0x00, 0xb0, 0xb5, 0x32, 0x2b, 0x91} // adrp x21, page after next; add x21, x21, #0xacc
	s := Site{Function{Code: code, Address: 0x10ff0}, elf.EM_AARCH64}
	for to, want := range map[uint64]bool{0x11acc: true, 0x10acc: false, 0x11ad0: false} {
		if _, _, got := s.Completion(to); got != want {
			t.Errorf("refers to %#x: %t, want %t", to, got, want)
		}
	}
	lowest := Site{Function{Code: []byte{0x15, 0x00, 0x00, 0x90, 0xb5, 0x32, 0x2b, 0x91}}, elf.EM_AARCH64} // adrp of this page
	if _, _, got := lowest.Completion(0xacc); !got {
		t.Error("refers to no address in the lowest page")
	}
}
