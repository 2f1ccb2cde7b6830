package elfsym_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"ustack/symbolize/elfsym"
	"ustack/testdata/nodetest"
)

// probed compiles a program with a static probe.
func probed(t testing.TB) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "probes")
	if out, err := exec.CommandContext(t.Context(), "gcc", "-O2", "-o", path, nodetest.Program("probes.c")).CombinedOutput(); err != nil {
		nodetest.MustRun(t, "gcc cannot compile: "+string(out))
	}
	image, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func TestStaticProbesAreThoseOfTheNotes(t *testing.T) {
	image := probed(t)
	all, err := elfsym.USDTs(bytes.NewReader(image))
	if err != nil || len(all) == 0 {
		t.Fatalf("probes = %+v, %v, want some", all, err)
	}
	f, err := elfsym.Open(bytes.NewReader(image))
	if err != nil {
		t.Fatal(err)
	}
	counter, ok := f.Symbol("semaphore")
	if !ok {
		t.Fatal("no symbol semaphore")
	}
	semaphore, _ := f.Offset(counter.Address)
	const nop = 0x90
	for _, u := range all { // the compiler may have copied the probe
		if u.Provider != "ustack" || u.Name != "reached" || image[u.Offset] != nop || u.Semaphore != semaphore {
			t.Errorf("probe = %+v, want ustack:reached at a nop with the semaphore at %#x", u, semaphore)
		}
		if want := "-4@$7 8@%"; len(u.Arguments) < len(want) || u.Arguments[:len(want)] != want {
			t.Errorf("arguments = %q, want %s…", u.Arguments, want)
		}
	}
	own, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	if all, err := elfsym.USDTs(own); err != nil || len(all) != 0 {
		t.Errorf("probes of a Go program = %+v, %v, want none", all, err)
	}
}

// FuzzUSDTs reads damaged notes.
func FuzzUSDTs(f *testing.F) {
	image := probed(f)
	at := bytes.Index(image, []byte("stapsdt\x00"))
	f.Add(0, []byte{0xff, 0xff, 0xff, 0xff})
	f.Add(-12, []byte{0xff, 0xff, 0xff, 0x7f})
	f.Add(-8, []byte{0xff, 0xff, 0xff, 0xff})
	f.Add(32, []byte("x"))
	f.Fuzz(func(t *testing.T, offset int, damage []byte) {
		damaged := bytes.Clone(image)
		if from := at + offset; from >= 0 && from < len(damaged) {
			copy(damaged[from:], damage)
		}
		all, _ := elfsym.USDTs(bytes.NewReader(damaged))
		for _, u := range all {
			if u.Offset >= uint64(len(damaged)) {
				t.Errorf("probe outside of the file: %+v", u)
			}
		}
	})
}
