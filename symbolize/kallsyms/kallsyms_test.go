package kallsyms

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"ustack/testdata/nodetest"
)

const list = `0000000000000000 A fixed_percpu_data
ffffffff81000000 T _text
ffffffff81000000 T startup_64
ffffffff81000100 t local
ffffffff81000200 W weak
ffffffff81000280 D data
ffffffff81000300 T _etext
nonsense
ffffffff81000400 T
ffffffff8100050x T bad
ffffffffc0200000 t ext4_read	[ext4]
ffffffffc0100000 t bpf_prog_6deef7357e7b4530_f	[bpf]
`

func TestLookup(t *testing.T) {
	tests := []struct {
		address      uint64
		name, module string
		offset       uint64
	}{
		{0xffffffff80ffffff, "", "", 0},
		{0xffffffff81000000, "_text", "", 0},
		{0xffffffff810000ff, "_text", "", 0xff},
		{0xffffffff81000100, "local", "", 0},
		{0xffffffff81000290, "weak", "", 0x90},
		{0xffffffff81000300, "", "", 0},
		{0xffffffff81000410, "", "", 0},
		{0xffffffffc0100001, "bpf_prog_6deef7357e7b4530_f", "bpf", 1},
		{0xffffffffc0200001, "ext4_read", "ext4", 1},
		{0xffffffffc0200000 + maxFunction - 1, "ext4_read", "ext4", maxFunction - 1},
		{0xffffffffc0200000 + maxFunction, "", "", 0},
		{0, "", "", 0},
		{1<<64 - 1, "", "", 0},
	}
	table, err := Read(strings.NewReader(list))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		name, module, offset, ok := table.Lookup(tt.address)
		if name != tt.name || module != tt.module || offset != tt.offset || ok != (tt.name != "") {
			t.Errorf("Lookup(%#x) = %q, %q, %#x, %v, want %q, %q, %#x",
				tt.address, name, module, offset, ok, tt.name, tt.module, tt.offset)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	hidden := "0000000000000000 T _text\n0000000000000000 t local\n"
	if _, err := Read(strings.NewReader(hidden)); !errors.Is(err, ErrHidden) || !strings.Contains(err.Error(), "run as root") {
		t.Errorf("Read of hidden addresses = %v, want %v", err, ErrHidden)
	}
	if _, err := Read(endless{}); err == nil {
		t.Error("Read without end: no error")
	}
	if _, err := Read(strings.NewReader(strings.Repeat("x", 1<<20))); !errors.Is(err, bufio.ErrTooLong) {
		t.Errorf("Read of one long line = %v, want %v", err, bufio.ErrTooLong)
	}
	table, err := Read(strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
	}
	if name, _, _, ok := table.Lookup(1); ok {
		t.Errorf("Lookup in an empty list = %q", name)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	p[len(p)-1] = '\n'
	return len(p), nil
}

// TestRunningKernel looks up functions of the running kernel, each at its start,
// where the list has the answer, and at the byte before, which belongs to another
// function.
func TestRunningKernel(t *testing.T) {
	nodetest.Root(t)
	list, err := os.ReadFile(path) // once: BPF programs come and go
	if err != nil {
		t.Fatal(err)
	}
	table, err := Read(bytes.NewReader(list))
	if errors.Is(err, ErrHidden) {
		nodetest.MustRun(t, err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[uint64][]string)
	for line := range strings.Lines(string(list)) {
		field := strings.Fields(line) // address, type, name
		if strings.Contains("tTwW", field[1]) && field[2] != endOfCode {
			address, err := strconv.ParseUint(field[0], 16, 64)
			if err != nil {
				t.Fatal(err)
			}
			names[address] = append(names[address], field[2])
		}
	}
	for address, want := range names {
		name, _, offset, ok := table.Lookup(address)
		if !ok || offset != 0 || name != want[0] {
			t.Errorf("Lookup(%#x) = %q+%d, %v, want the first of %q", address, name, offset, ok, want)
		}
		before, _, offset, ok := table.Lookup(address - 1)
		if ok && !slices.Contains(names[address-1-offset], before) {
			t.Errorf("Lookup(%#x) = %q+%d, which the list does not have there", address-1, before, offset)
		}
	}
}

// TestAddressesAreHiddenFromOthers reads the list as an unprivileged user.
func TestAddressesAreHiddenFromOthers(t *testing.T) {
	nodetest.Root(t)
	const nobody = 65534
	cmd := exec.Command("cat", path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Read(strings.NewReader(string(out))); !errors.Is(err, ErrHidden) {
		t.Errorf("Read = %v, want %v", err, ErrHidden)
	}
}

func TestMemoryOfATable(t *testing.T) {
	before := heap()
	table, err := Open()
	if err != nil {
		nodetest.MustRun(t, err.Error())
	}
	const budget = 64 // bytes a function
	if used := heap() - before; used > int64(len(table.addresses))*budget {
		t.Errorf("%d bytes for %d functions, want at most %d each", used, len(table.addresses), budget)
	}
	runtime.KeepAlive(table)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func BenchmarkOpen(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Open(); err != nil {
			b.Skip(err)
		}
	}
}

func BenchmarkLookup(b *testing.B) {
	table, err := Open()
	if err != nil {
		b.Skip(err)
	}
	for b.Loop() {
		table.Lookup(table.addresses[len(table.addresses)/2] + 1)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(list), uint64(0xffffffff81000110))
	f.Fuzz(func(t *testing.T, text []byte, address uint64) {
		table, err := Read(strings.NewReader(string(text)))
		if err != nil {
			return
		}
		name, module, offset, ok := table.Lookup(address)
		if ok && (name == "" || offset >= maxFunction || strings.ContainsAny(name+module, "\n\t")) {
			t.Errorf("Lookup(%#x) = %q, %q, %#x", address, name, module, offset)
		}
	})
}
