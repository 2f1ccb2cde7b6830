package elfsym_test

import (
	"bufio"
	"bytes"
	"math/rand/v2"
	"os/exec"
	"slices"
	"testing"

	"ustack/symbolize/elfsym"
	"ustack/symbolize/process"
	"ustack/testdata/nodetest"
)

// startNode runs the newest node, idle, until the test ends.
func startNode(t *testing.T) *process.Process {
	t.Helper()
	cmd := exec.Command(nodetest.Node(t, newest), "-e", `process.stdin.resume(); console.log("ready")`)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
		t.Fatalf("node said %q, %v", line, err)
	}
	p, err := process.Open(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// TestLiveNode converts program counters in a process to addresses in files and
// compares the code at both.
func TestLiveNode(t *testing.T) {
	nodetest.Root(t)
	p := startNode(t)
	maps, err := p.Maps()
	if err != nil {
		t.Fatal(err)
	}
	files, named := 0, 0
	for _, m := range maps {
		if m.File() && m.Perms.Exec() {
			files++
			named += checkCode(t, p, m)
		}
	}
	if files < 5 { // node, ld.so, libc, libm, libstdc++ and others
		t.Errorf("%d files with code, want at least 5", files)
	}
	if named < 3*addresses { // node, libstdc++, libc; some are empty since glibc 2.34
		t.Errorf("%d addresses have names, want at least %d", named, 3*addresses)
	}
	vdso := slices.IndexFunc(maps, func(m process.Mapping) bool { return m.Path == "[vdso]" })
	if vdso < 0 {
		t.Fatal("no vdso")
	}
	image := make([]byte, maps[vdso].End-maps[vdso].Start)
	if _, err := p.ReadAt(image, maps[vdso].Start); err != nil {
		t.Fatal(err)
	}
	f, err := elfsym.Open(bytes.NewReader(image))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := f.Symbol("__vdso_clock_gettime"); !ok {
		t.Error("the vdso has no __vdso_clock_gettime")
	}
}

// checkCode compares random bytes of a mapping and counts those that have names.
func checkCode(t *testing.T, p *process.Process, m process.Mapping) (named int) {
	t.Helper()
	r, err := p.OpenFile(m)
	if err != nil {
		t.Error(err)
		return 0
	}
	f, err := elfsym.Open(r)
	if err != nil {
		t.Errorf("open %s: %v", m.Path, err)
		r.Close()
		return 0
	}
	defer f.Close()
	random := rand.New(rand.NewPCG(9, 10))
	for range addresses {
		pc := m.Start + random.Uint64N(m.End-m.Start)
		address, ok := f.Address(pc - m.Start + m.Offset)
		if !ok {
			continue // the last page extends past the code
		}
		var want, got [1]byte
		_, fileErr := f.ReadAt(want[:], address)
		_, liveErr := p.ReadAt(got[:], pc)
		if fileErr != nil || liveErr != nil || got != want {
			t.Errorf("%s: at %#x is %x, %v; in the file at %#x %x, %v", m.Path, pc, got, liveErr, address, want, fileErr)
		}
		if _, ok := f.Lookup(address); ok {
			named++
		}
	}
	return named
}
