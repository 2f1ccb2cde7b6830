package elfsym_test

import (
	"bufio"
	"debug/elf"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"ustack/symbolize/elfsym"
	"ustack/testdata/nodetest"
)

const addresses = 307 // looked up, of each kind

// binaries are files of all kinds: the oldest node built with gcc and the newest
// built with clang, or every one for `make test-matrix`, and a stripped library.
func binaries(t testing.TB) []string {
	t.Helper()
	found, err := filepath.Glob("/lib/*-linux-gnu/libc.so.6")
	if err != nil || found == nil {
		t.Fatalf("no C library: %v", err)
	}
	versions := []string{nodetest.Versions[0], newest}
	if os.Getenv("USTACK_MATRIX") == "1" {
		versions = nodetest.Versions
	}
	for _, version := range versions {
		found = append(found, nodetest.Node(t, version))
	}
	return found
}

// A readelfSymbol is a symbol as readelf prints it.
type readelfSymbol struct {
	start, size uint64
	typ, bind   string
	name        string
}

// readelf returns the symbols of all tables.
func readelf(t testing.TB, path string) []readelfSymbol {
	t.Helper()
	var all []readelfSymbol
	for line := range strings.Lines(run(t, "readelf", "-sW", path)) {
		// Num: Value Size Type Bind Vis Ndx Name
		field := strings.Fields(line)
		if len(field) < 8 || field[6] == "UND" || field[3] == "FILE" || field[3] == "SECTION" || field[0] == "Num:" {
			continue
		}
		start, err := strconv.ParseUint(field[1], 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		size, err := strconv.ParseUint(field[2], 0, 64)
		if err != nil {
			t.Fatal(err)
		}
		name, _, _ := strings.Cut(field[7], "@")
		all = append(all, readelfSymbol{start, size, field[3], field[4], name})
	}
	return all
}

// code returns the bounds of the executable sections.
func code(t testing.TB, path string) (bounds [][2]uint64) {
	t.Helper()
	e, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for _, s := range e.Sections {
		if s.Flags&elf.SHF_EXECINSTR != 0 {
			bounds = append(bounds, [2]uint64{s.Addr, s.Addr + s.Size})
		}
	}
	return bounds
}

func TestReadelfAgrees(t *testing.T) {
	for _, path := range binaries(t) {
		t.Run(label(path), func(t *testing.T) {
			f := open(t, path)
			all := readelf(t, path)
			t.Run("lookup", func(t *testing.T) { checkLookup(t, f, all, code(t, path)) })
			t.Run("symbols", func(t *testing.T) { checkSymbols(t, f, all) })
			t.Run("headers", func(t *testing.T) { checkHeaders(t, f, path) })
		})
	}
}

// checkLookup compares Lookup of random addresses with a linear search of
// readelf's output.
func checkLookup(t *testing.T, f *elfsym.File, all []readelfSymbol, code [][2]uint64) {
	random := rand.New(rand.NewPCG(3, 4))
	functions := slices.DeleteFunc(slices.Clone(all), func(s readelfSymbol) bool {
		return s.typ != "FUNC" && s.typ != "IFUNC" || s.size == 0
	})
	for range addresses {
		section := code[random.IntN(len(code))]
		checkCovering(t, f, functions, section[0]+random.Uint64N(section[1]-section[0]))
		s := functions[random.IntN(len(functions))]
		checkCovering(t, f, functions, s.start)
		checkCovering(t, f, functions, s.start+s.size-1)
	}
}

// checkCovering checks Lookup of an address against all functions that hold it.
// If none does, Lookup may know a label without a size.
func checkCovering(t *testing.T, f *elfsym.File, functions []readelfSymbol, address uint64) {
	t.Helper()
	var want []string
	var start uint64
	for _, s := range functions {
		if address < s.start || address-s.start >= s.size || s.start < start {
			continue
		}
		if s.start > start {
			start, want = s.start, nil
		}
		want = append(want, s.name)
	}
	got, ok := f.Lookup(address)
	if want == nil {
		if ok && got.Size != 0 {
			t.Errorf("Lookup(%#x) = %v, want nothing with a size", address, got)
		}
		return
	}
	if !ok || got.Address != start || !slices.Contains(want, got.Name) {
		t.Errorf("Lookup(%#x) = %v, %v, want one of %q at %#x", address, got, ok, want, start)
	}
}

var infoSymbol = regexp.MustCompile(`^(\S+)(?: \+ (\d+))? in section`)

// TestLookupAgreesWithGDB compares with gdb, which ignores sizes, so only
// addresses that Lookup explains are checked.
func TestLookupAgreesWithGDB(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	path := nodetest.Node(t, "22.23.3")
	f := open(t, path)
	script := filepath.Join(t.TempDir(), "script")
	w, err := os.Create(script)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	fmt.Fprintln(w, "set print demangle off\nset print asm-demangle off")
	var asked []uint64
	bounds := code(t, path)
	text := slices.MaxFunc(bounds, func(a, b [2]uint64) int { return int(a[1]-a[0]) - int(b[1]-b[0]) })
	for len(asked) < addresses {
		address := text[0] + random.Uint64N(text[1]-text[0])
		if _, ok := f.Lookup(address); ok {
			asked = append(asked, address)
			fmt.Fprintf(w, "info symbol %#x\n", address)
		}
	}
	answers := bufio.NewScanner(strings.NewReader(run(t, "gdb", "-nx", "-batch", "-x", script, path)))
	for _, address := range asked {
		got, _ := f.Lookup(address)
		if !answers.Scan() {
			t.Fatalf("no answer of gdb's for %#x", address)
		}
		m := infoSymbol.FindStringSubmatch(answers.Text())
		if m == nil {
			t.Errorf("gdb: %q, we say %q", answers.Text(), got.Name)
			continue
		}
		offset, _ := strconv.ParseUint(m[2], 10, 64) // empty at the start
		if named, ok := f.Symbol(m[1]); !ok || got.Address != address-offset {
			t.Errorf("Lookup(%#x) = %v, gdb says %s, which is %v", address, got, answers.Text(), named)
		}
	}
}

// checkSymbols compares all symbols with the prefixes of V8's debugging metadata,
// its embedded builtins and others.
func checkSymbols(t *testing.T, f *elfsym.File, all []readelfSymbol) {
	type symbol struct {
		Name          string
		Address, Size uint64
	}
	for _, prefix := range []string{"v8dbg_", "Builtins_", "uv_", "mem", "_ZN2v88internal7Isolate"} {
		want := make(map[symbol]bool)
		for _, s := range all {
			if strings.HasPrefix(s.name, prefix) {
				want[symbol{s.name, s.start, s.size}] = true
			}
		}
		got := make(map[symbol]bool)
		for s := range f.Symbols(prefix) {
			got[symbol{s.Name, s.Address, s.Size}] = true
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("Symbols(%q) (-want +got):\n%s", prefix, diff)
		}
		for s := range want {
			if found, ok := f.Symbol(s.Name); !ok || found.Name != s.Name {
				t.Errorf("Symbol(%q) = %v, %v", s.Name, found, ok)
			}
		}
	}
}

var (
	typeLine    = regexp.MustCompile(`Type: +(\S+)`)
	buildIDLine = regexp.MustCompile(`Build ID: ([0-9a-f]+)`)
	tlsLine     = regexp.MustCompile(`TLS +(?:0x\S+ ){4}(0x\S+) +R +(0x\S+)`)
)

func checkHeaders(t *testing.T, f *elfsym.File, path string) {
	headers := run(t, "readelf", "-hlnW", path)
	var want []string
	for _, line := range []*regexp.Regexp{typeLine, buildIDLine, tlsLine} {
		m := line.FindStringSubmatch(headers)
		if m == nil {
			t.Fatalf("no %v in %s", line, headers)
		}
		want = append(want, m[1:]...)
	}
	got := []string{
		strings.TrimPrefix(f.Type().String(), "ET_"), f.BuildID(),
		fmt.Sprintf("0x%06x", f.TLSSize()), fmt.Sprintf("%#x", f.TLSAlign()),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	if got, want := f.Stripped(), label(path) == "libc.so.6"; got != want {
		t.Errorf("stripped = %v, want %v", got, want)
	}
}

// label names a binary in test output by its build's folder and its file name.
func label(path string) string {
	for _, version := range nodetest.Versions {
		if strings.Contains(path, version) {
			return "node-" + version
		}
	}
	return filepath.Base(path)
}
