package perfmap

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"ustack/testdata/nodetest"
)

func read(t testing.TB, text string) *Map {
	t.Helper()
	m := New(strings.NewReader(text))
	if err := m.Refresh(); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestLookup(t *testing.T) {
	m := read(t, `1000 100 JS:~first file.js:1:2
0x2000 0x80 prefixed
1080 100 LazyCompile:*second with spaces
1000 10 third
ffffffffffffff00 ff last
`)
	tests := []struct {
		address uint64
		want    Symbol
	}{
		{0xfff, Symbol{}},
		{0x1000, Symbol{"third", 0x1000, 0x10}},
		{0x1010, Symbol{"JS:~first file.js:1:2", 0x1000, 0x100}},
		{0x107f, Symbol{"JS:~first file.js:1:2", 0x1000, 0x100}},
		{0x1080, Symbol{"LazyCompile:*second with spaces", 0x1080, 0x100}},
		{0x117f, Symbol{"LazyCompile:*second with spaces", 0x1080, 0x100}},
		{0x1180, Symbol{}},
		{0x2040, Symbol{"prefixed", 0x2000, 0x80}},
		{math.MaxUint64 - 1, Symbol{"last", math.MaxUint64 - 0xff, 0xff}},
		{math.MaxUint64, Symbol{}},
	}
	for _, tt := range tests {
		got, ok := m.Lookup(tt.address)
		if diff := cmp.Diff(tt.want, got); diff != "" || ok != (tt.want != Symbol{}) {
			t.Errorf("Lookup(%#x) %v (-want +got):\n%s", tt.address, ok, diff)
		}
	}
	if m.Skipped() != 0 {
		t.Errorf("skipped %d lines, want 0", m.Skipped())
	}
}

func TestNonsenseIsSkippedAndCounted(t *testing.T) {
	lines := []string{
		"", " ", "1000", "1000 10", "1000 10 ", "x 10 name", "1000 x name", "-1 10 name", "1000 0 empty",
		"ffffffffffffffff 2 wraps", "1000 10000000000000000 wide", "1000  10 two spaces",
		"1000 10 " + strings.Repeat("long", maxLine), "\x00\x00\x00",
	}
	m := read(t, strings.Join(lines, "\n")+"\n2000 10 good\n3000 10 unfinished")
	if m.Skipped() != len(lines) {
		t.Errorf("skipped %d lines, want %d", m.Skipped(), len(lines))
	}
	if s, _ := m.Lookup(0x2000); s.Name != "good" {
		t.Errorf("Lookup = %v, want the good line", s)
	}
	for _, address := range []uint64{0x1000, 0x3000} {
		if s, ok := m.Lookup(address); ok {
			t.Errorf("Lookup(%#x) = %v, want nothing", address, s)
		}
	}
}

// TestRefresh follows a file that grows in pieces of every length.
func TestRefresh(t *testing.T) {
	const text = "1000 10 one\n2000 10 two\nbad\n1000 8 three\n"
	for step := 1; step < len(text); step++ {
		var grows bytes.Buffer
		m := New(&grows)
		for i := 0; i < len(text); i += step {
			grows.WriteString(text[i:min(len(text), i+step)])
			if err := m.Refresh(); err != nil {
				t.Fatal(err)
			}
		}
		three, _ := m.Lookup(0x1007)
		one, _ := m.Lookup(0x1008)
		two, _ := m.Lookup(0x2000)
		if got := three.Name + one.Name + two.Name; got != "threeonetwo" || m.Skipped() != 1 {
			t.Errorf("by %d bytes: %s, %d skipped, want threeonetwo, 1", step, got, m.Skipped())
		}
	}
}

// endless repeats a line forever.
type endless string

func (e endless) Read(p []byte) (int, error) {
	n := 0
	for n+len(e) <= len(p) {
		n += copy(p[n:], e)
	}
	return n, nil
}

func TestEndlessInputIsLimited(t *testing.T) {
	zeros := endless(strings.Repeat("\x00", 4096))
	named := endless("1000 10 " + strings.Repeat("n", 1000) + "\n")
	for _, r := range []endless{"1000 10 name\n", zeros, named} {
		m := New(r)
		if err := m.Refresh(); err == nil || !strings.Contains(err.Error(), "too much") {
			t.Errorf("Refresh = %v, want an error", err)
		}
		if _, ok := m.Lookup(0x1000); ok != (r != zeros) {
			t.Errorf("Lookup = %v, want what was read before the limit", ok)
		}
	}
}

func TestReadErrorIsReported(t *testing.T) {
	want := errors.New("broken disk")
	m := New(io.MultiReader(strings.NewReader("1000 10 name\n"), failing{want}))
	if err := m.Refresh(); !errors.Is(err, want) {
		t.Errorf("Refresh = %v, want %v", err, want)
	}
	if _, ok := m.Lookup(0x1000); !ok {
		t.Error("what was read before is lost")
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// newRoot makes a root folder with a perf map of PID 7 in it.
func newRoot(t *testing.T) (root *os.File, path string) {
	t.Helper()
	dir := t.TempDir()
	path = filepath.Join(dir, "tmp", "perf-7.map")
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, path, "1000 10 one\n")
	root, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root, path
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestOpenFollowsTheFile(t *testing.T) {
	root, path := newRoot(t)
	m, err := openMap(root, 7, os.Getuid())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	check := func(want string) {
		t.Helper()
		if err := m.Refresh(); err != nil {
			t.Error(err)
		}
		if got, _ := m.Lookup(0x1000); got.Name != want {
			t.Errorf("Lookup = %q, want %q", got.Name, want)
		}
	}
	check("one")
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fmt.Fprint(f, "1000 10 two\n")
	check("two")
	write(t, path, "1000 8 x\n") // rewritten from scratch, by an exec
	check("x")
	if s, ok := m.Lookup(0x1008); ok {
		t.Errorf("Lookup = %v, want what stood there before to be forgotten", s)
	}
}

func TestOpenTakesOnlyWhatIsTheTargets(t *testing.T) {
	nodetest.Root(t)
	const user, other = 1234, 1235
	tests := []struct {
		name    string
		prepare func(path string) error // path first holds a map owned by root
		want    string                  // part of the error, empty for no error
	}{
		{"root's", func(string) error { return nil }, ""},
		{"the user's", func(path string) error { return os.Chown(path, user, user) }, ""},
		{"another's", func(path string) error { return os.Chown(path, other, other) }, "belongs to user 1235"},
		{"none", os.Remove, "no such file"},
		{"a link", instead(func(path string) error { return os.Symlink("/etc/passwd", path) }), "not a regular file"},
		{"a folder", instead(func(path string) error { return os.Mkdir(path, 0o700) }), "not a regular file"},
		{"a pipe", instead(func(path string) error { return unix.Mkfifo(path, 0o600) }), "not a regular file"},
		{"a device", instead(func(path string) error {
			return unix.Mknod(path, unix.S_IFCHR, int(unix.Mkdev(1, 5)))
		}), "not a regular file"},
		{"below a link", func(path string) error { return link(path, "/elsewhere") }, ""},
		{"below a link that points out", func(path string) error { return link(path, "/../../../elsewhere") }, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root, path := newRoot(t)
			if err := tt.prepare(path); err != nil {
				t.Fatal(err)
			}
			m, err := openMap(root, 7, user)
			if err == nil {
				defer m.Close()
			}
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("Open = %v, want %q", err, tt.want)
			}
			if none := errors.Is(err, os.ErrNotExist); none != (tt.name == "none") {
				t.Errorf("Open = %v, which is os.ErrNotExist: %v", err, none)
			}
		})
	}
}

// instead removes the file at path before it creates another there.
func instead(create func(path string) error) func(path string) error {
	return func(path string) error { return errors.Join(os.Remove(path), create(path)) }
}

// link moves path's folder to "elsewhere" beside it, and makes it a link.
func link(path, to string) error {
	dir := filepath.Dir(path)
	return errors.Join(os.Rename(dir, filepath.Join(filepath.Dir(dir), "elsewhere")), os.Symlink(to, dir))
}

// TestNode reads a map that node itself wrote, in a namespace of its own.
func TestNode(t *testing.T) {
	nodetest.Root(t)
	const program = `process.stdin.resume(); function hot() {} for (let i = 0; i < 10; i++) hot(); console.log("ready")`
	cmd := exec.Command(nodetest.Node(t, "22.23.3"), "--perf-basic-prof", "-e", program)
	cmd.Dir = t.TempDir() // V8 may leave a log in the working directory
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID}
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
	defer func() {
		stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		os.Remove("/tmp/perf-1.map")
	}()
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
		t.Fatalf("node said %q, %v", line, err)
	}
	root, err := os.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	m, err := openMap(root, 1, os.Getuid())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	i := slices.IndexFunc(m.entries, func(e entry) bool {
		return strings.Contains(string(m.names[e.name:e.name+e.length]), "hot ")
	})
	if i < 0 || m.Skipped() != 0 {
		t.Fatalf("%d lines, %d skipped, none of function hot", len(m.entries), m.Skipped())
	}
	if s, ok := m.Lookup(m.entries[i].start); !ok || s.Start != m.entries[i].start {
		t.Errorf("Lookup = %v, %v, want hot or what took its place", s, ok)
	}
}

func BenchmarkRefresh(b *testing.B) {
	var text strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&text, "%x %x JS:*function%d /srv/app/lib/module.js:%d:%d\n", 0x7f0000000000+i*256, 200, i, i, i)
	}
	b.ReportAllocs()
	for b.Loop() {
		read(b, text.String())
	}
}

func BenchmarkLookup(b *testing.B) {
	m := read(b, "1000 100 a\n2000 100 b\n3000 100 c\n")
	for b.Loop() {
		m.Lookup(0x2050)
	}
}

func FuzzRefresh(f *testing.F) {
	f.Add([]byte("1000 10 name\n1008 10 other\n"), uint64(0x1000))
	f.Add([]byte("0x1000 0x10 \xff\x00\n"), uint64(0x1001))
	f.Fuzz(func(t *testing.T, text []byte, address uint64) {
		m := New(bytes.NewReader(text))
		if err := m.Refresh(); err != nil {
			t.Fatal(err)
		}
		s, ok := m.Lookup(address)
		if ok && (address < s.Start || address-s.Start >= s.Size || s.Name == "") {
			t.Errorf("Lookup(%#x) = %+v, which does not hold it", address, s)
		}
		if len(m.entries)+m.Skipped() != bytes.Count(text, []byte("\n")) {
			t.Errorf("%d entries and %d skipped of %q", len(m.entries), m.Skipped(), text)
		}
	})
}

// file is a perf map read in-process.
type file struct{ *os.File }

func (f file) ReadNew(p []byte, offset int64) (int, error) { return f.ReadAt(p, offset) }

func (f file) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func openMap(root *os.File, pid, uid int) (*Map, error) {
	f, err := OpenFile(root, pid, uid)
	if err != nil {
		return nil, err
	}
	return Open(file{f})
}
