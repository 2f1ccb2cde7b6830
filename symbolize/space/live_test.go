package space

import (
	"bufio"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/symbolize/process"
	"ustack/symbolize/reader"
	"ustack/symbolize/unwind"
)

// A running is a process that waits in a system call: a program of the system, which has
// a build ID, linked to the C library.
type running struct {
	*process.Process
	layout Layout
	files  reader.Reader
}

// start starts cat, which has answered once when start returns.
func start(t *testing.T) *running {
	t.Helper()
	cmd := exec.Command("cat", "-", "/dev/null")
	cmd.Env = []string{"SOME=thing", "OTHER="}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("cat: %v", err)
		}
	})
	fmt.Fprintln(in, "ready")
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("cat answers %q, %v", line, err)
	}
	p, err := process.Open(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	r := &running{Process: p}
	t.Cleanup(func() {
		if err := errors.Join(r.files.Close(), p.Close()); err != nil {
			t.Error(err)
		}
	})
	r.describe(t, cmd.Process.Pid)
	return r
}

// describe reads the process's layout.
func (r *running) describe(t *testing.T, pid int) {
	t.Helper()
	maps, err := r.Maps()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range maps {
		r.layout.Regions = append(r.layout.Regions, Region{Start: m.Start, End: m.End, Write: m.Perms.Write(), Exec: m.Perms.Exec()})
		if m.File() {
			r.layout.Mappings = append(r.layout.Mappings, Mapping{Start: m.Start, End: m.End, Offset: m.Offset, Path: m.Path})
		}
	}
	vector, err := os.ReadFile(fmt.Sprintf("/proc/%d/auxv", pid))
	if err != nil {
		t.Fatal(err)
	}
	for pair := range slices.Chunk(vector, 16) {
		r.layout.Auxv = append(r.layout.Auxv, Aux{binary.LittleEndian.Uint64(pair), binary.LittleEndian.Uint64(pair[8:])})
	}
}

// NextData finds data everywhere.
func (r *running) NextData(address uint64) (uint64, bool) { return address, true }

// open returns the address space as the process's files and memory have it.
func (r *running) open(t *testing.T, source Source, f Finder) *Space {
	t.Helper()
	f.Files = &r.files
	s := New(source, r.layout, f)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// module returns the module whose path contains name.
func module(t *testing.T, s *Space, name string) *Module {
	t.Helper()
	at := slices.IndexFunc(s.Modules(), func(m *Module) bool { return strings.Contains(m.Path, name) })
	if at < 0 {
		t.Fatalf("no module %s", name)
	}
	return s.Modules()[at]
}

// addressOf returns where the process has a function of the C library.
func addressOf(t *testing.T, s *Space, name string) uint64 {
	t.Helper()
	libc := module(t, s, "libc.so")
	if libc.ELF == nil {
		t.Fatalf("%s: %v", libc.Path, libc.Err)
	}
	symbol, ok := libc.ELF.Symbol(name)
	if !ok {
		t.Fatalf("%s has no symbol %s", libc.Path, name)
	}
	return symbol.Address + libc.Bias
}

func TestLiveProcessIsASpace(t *testing.T) {
	r := start(t)
	s := r.open(t, r, Finder{Process: r.Process})
	for _, m := range s.Modules() {
		if m.Err != nil {
			t.Errorf("%s: %v", m.Path, m.Err)
		}
	}
	if first := s.Modules()[0].Path; filepath.Base(first) != "cat" && filepath.Base(first) != "coreutils" {
		t.Errorf("the program is %s, want cat", first)
	}
	address := addressOf(t, s, "read")
	p, ok := s.Part(address)
	if !ok || p.Module != module(t, s, "libc.so") {
		t.Fatalf("part at %#x = %+v, %v, want one of libc", address, p, ok)
	}
	f := p.Native(address+4, address+4)
	if !strings.HasSuffix(f.Name, "read") || f.Offset != 4 || f.Module != p.Path {
		t.Errorf("frame in read = %+v", f)
	}
	if f := p.Native(address, address-1); strings.HasSuffix(f.Name, "__read") {
		t.Errorf("a call that ends before read returns to %+v, want the function before it", f)
	}
	if region, ok := s.Region(address); !ok || !region.Exec || region.Write || region.File != p.Path {
		t.Errorf("region of read = %+v, %v", region, ok)
	}
}

func TestVDSOIsAModule(t *testing.T) {
	r := start(t)
	s := r.open(t, r, Finder{Process: r.Process})
	vdso := module(t, s, "[vdso]")
	for _, name := range []string{"__vdso_clock_gettime", "__kernel_clock_gettime"} {
		symbol, ok := vdso.ELF.Symbol(name)
		if !ok {
			continue
		}
		p, ok := s.Part(symbol.Address + vdso.Bias)
		if got := p.Native(symbol.Address+vdso.Bias, symbol.Address+vdso.Bias); !ok || !strings.HasSuffix(got.Name, "clock_gettime") {
			t.Errorf("frame of %s = %+v, %v", name, got, ok)
		}
		return
	}
	t.Error("the vdso does not tell the time")
}

func TestArgumentsAreThoseOfTheProgram(t *testing.T) {
	r := start(t)
	s := r.open(t, r, Finder{Process: r.Process})
	arguments, err := s.Arguments()
	if want := []string{"cat", "-", "/dev/null"}; err != nil || !slices.Equal(arguments, want) {
		t.Errorf("arguments = %q, %v, want %q", arguments, err, want)
	}
	environment, err := s.Environment()
	if want := []string{"SOME=thing", "OTHER="}; err != nil || !slices.Equal(environment, want) {
		t.Errorf("environment = %q, %v, want %q", environment, err, want)
	}
}

func TestCallerIsFoundByTheFilesTable(t *testing.T) {
	r := start(t)
	s := r.open(t, r, Finder{Process: r.Process})
	address := addressOf(t, s, "read")
	p, _ := s.Part(address)
	at := slices.IndexFunc(s.Regions(), func(r Region) bool { return r.Write && r.File == "" })
	stack := s.Regions()[at].Start + 64
	want, err := s.Word(stack)
	if err != nil {
		t.Fatal(err)
	}
	arch := unwind.ArchOf(elf.EM_X86_64)
	c := unwind.Cursor{Arch: arch, Known: arch.All(), PC: address, Leaf: true} // at its first instruction
	c.Regs[arch.SP] = stack
	next, err := s.Caller(p, c)
	if err != nil || next.PC != want || next.SP() != stack+8 || next.Leaf {
		t.Errorf("caller = %+v, %v, want pc %#x, sp %#x", next, err, want, stack+8)
	}
	c.PC = p.End - 1
	if _, err := s.Caller(Part{p.Mapping, &Module{Err: errNotFound}}, c); !errors.Is(err, errNotFound) {
		t.Errorf("caller in a file that is not there: %v, want %v", err, errNotFound)
	}
}

// lean is the memory of a process without what files have, as in a core.
type lean struct{ *running }

func (l lean) ReadAt(p []byte, address uint64) (int, error) {
	for _, r := range l.layout.Regions {
		if address < r.Start || address >= r.End {
			continue
		}
		if !r.Write && !slices.ContainsFunc(l.layout.Auxv, func(a Aux) bool { return a.Type == auxVDSO && a.Value == r.Start }) {
			return 0, fmt.Errorf("at %#x: %w", address, ErrLeftOut)
		}
		left := min(uint64(len(p)), r.End-address)
		n, err := l.running.ReadAt(p[:left], address)
		if err == nil && left < uint64(len(p)) {
			err = ErrUnmapped
		}
		return n, err
	}
	return 0, ErrUnmapped
}

func TestMemoryThatIsLeftOutIsInFiles(t *testing.T) {
	r := start(t)
	s := r.open(t, lean{r}, Finder{})
	for _, m := range s.Modules() {
		if m.Err != nil {
			t.Errorf("%s: %v", m.Path, m.Err)
		}
	}
	address := addressOf(t, s, "read")
	want, got := make([]byte, 64), make([]byte, 64)
	if _, err := r.ReadAt(want, address); err != nil {
		t.Fatal(err)
	}
	if n, err := s.ReadAt(got, address); n != len(got) || err != nil || string(got) != string(want) {
		t.Errorf("%d bytes of read = %x, %v, want %x", n, got, err, want)
	}
	if n, err := s.ReadAt(got, 8); n != 0 || !errors.Is(err, ErrUnmapped) {
		t.Errorf("%d bytes at 8, %v, want %v", n, err, ErrUnmapped)
	}
}

func TestFilesAreFoundInFolders(t *testing.T) {
	r := start(t)
	whole := r.open(t, r, Finder{Process: r.Process})
	program := whole.Modules()[0]
	id := program.ELF.BuildID()
	if id == "" {
		t.Fatalf("%s has no build ID", program.Path)
	}
	byName, byID, bySearch := t.TempDir(), t.TempDir(), t.TempDir()
	place := func(path string) {
		t.Helper()
		content, err := os.ReadFile(program.Path)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(path), 0o700)
		}
		if err == nil {
			err = os.WriteFile(path, content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	place(filepath.Join(byID, ".build-id", id[:2], id[2:]))
	place(filepath.Join(bySearch, "deep", "below", "any name"))
	place(filepath.Join(byName, filepath.Base(program.Path)))
	for i := range r.layout.Mappings { // as if it had been replaced
		if m := &r.layout.Mappings[i]; m.Path == program.Path {
			m.Path = "/nonexistent/" + filepath.Base(m.Path) + deleted
		}
	}
	for _, tt := range []struct {
		name   string
		finder Finder
		want   string // in the error
	}{
		{"nowhere", Finder{}, "not found"},
		{"given", Finder{Exe: program.Path}, ""},
		{"another given", Finder{Exe: module(t, whole, "libc.so").Path}, "has the build ID"},
		{"none given", Finder{Exe: filepath.Join(byID, "none")}, "no such file"},
		{"a folder given", Finder{Exe: byID}, "regular file"},
		{"by build ID", Finder{Folders: []string{t.TempDir(), byID}}, ""},
		{"by search", Finder{Folders: []string{bySearch}}, ""},
		{"by name", Finder{Folders: []string{byName}}, ""},
		{"in an empty folder", Finder{Folders: []string{t.TempDir()}}, "not found"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := r.open(t, r, tt.finder)
			m := s.Modules()[0]
			if tt.want == "" && (m.Err != nil || m.ELF.BuildID() != id || m.Bias != program.Bias) {
				t.Errorf("module = %+v, want that with the build ID %s and the bias %#x", m, id, program.Bias)
			}
			if tt.want != "" && (m.Err == nil || !strings.Contains(m.Err.Error(), tt.want) || m.ELF != nil) {
				t.Errorf("module = %+v, want an error with %q", m, tt.want)
			}
		})
	}
}

// TestLiveMemoryIsBounded maps more memory than is searched.
func TestLiveMemoryIsBounded(t *testing.T) {
	huge, err := unix.Mmap(-1, 0, maxLive+os.Getpagesize(), unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(huge) })
	p, err := process.Open(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	all := uint64(0)
	for _, r := range (Live{p}).Regions() {
		all += r.End - r.Start
	}
	if all == 0 || all > maxLive {
		t.Errorf("regions have %d bytes, want some, and at most %d", all, uint64(maxLive))
	}
}
