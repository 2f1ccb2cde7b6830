package process

import (
	"os"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// pointer returns the address of b's bytes.
func pointer(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }

func TestParseMaps(t *testing.T) {
	const text = `00400000-00e36000 r--p 00000000 fe:02 1234                               /opt/node
00e37000-032e6000 r-xp 00a37000 fe:02 1234                               /opt/my node (1) (deleted)
7f0000000000-7f0000021000 rw-p 00000000 00:00 0 
7f1000000000-7f1000001000 rwxp 00000000 00:00 0                          [anon:v8]
7f2000000000-7f2000001000 rw-s 00000000 00:01 77                         /memfd:a\012b (deleted)
7f3000000000-7f3000001000 r--s 00001000 103:1234567 18446744073709551615 /x
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                          [stack]
7ffc00100000-7ffc00102000 r-xp 00000000 00:00 0                          [vdso]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
`
	want := []Mapping{
		{Start: 0x400000, End: 0xe36000, Perms: permRead, Dev: unix.Mkdev(0xfe, 2), Inode: 1234, Path: "/opt/node"},
		{
			Start: 0xe37000, End: 0x32e6000, Perms: permRead | permExec, Offset: 0xa37000,
			Dev: unix.Mkdev(0xfe, 2), Inode: 1234, Path: "/opt/my node (1)", Deleted: true,
		},
		{Start: 0x7f0000000000, End: 0x7f0000021000, Perms: permRead | permWrite},
		{Start: 0x7f1000000000, End: 0x7f1000001000, Perms: permRead | permWrite | permExec, Path: "[anon:v8]"},
		{
			Start: 0x7f2000000000, End: 0x7f2000001000, Perms: permRead | permWrite | permShared,
			Dev: unix.Mkdev(0, 1), Inode: 77, Path: "/memfd:a\nb", Deleted: true,
		},
		{
			Start: 0x7f3000000000, End: 0x7f3000001000, Perms: permRead | permShared, Offset: 0x1000,
			Dev: unix.Mkdev(0x103, 0x1234567), Inode: 1<<64 - 1, Path: "/x",
		},
		{Start: 0x7ffc00000000, End: 0x7ffc00021000, Perms: permRead | permWrite, Path: "[stack]"},
		{Start: 0x7ffc00100000, End: 0x7ffc00102000, Perms: permRead | permExec, Path: "[vdso]"},
		{Start: 0xffffffffff600000, End: 0xffffffffff601000, Perms: permExec, Path: "[vsyscall]"},
	}
	got, err := parseMaps([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("mappings (-want +got):\n%s", diff)
	}
	var anonymous, files string
	for _, m := range got {
		anonymous += map[bool]string{true: "a", false: "-"}[m.Anonymous()]
		files += map[bool]string{true: "f", false: "-"}[m.File()]
	}
	if anonymous != "--aa-----" || files != "ff--ff---" {
		t.Errorf("anonymous %s, files %s", anonymous, files)
	}
}

func TestPerms(t *testing.T) {
	for _, text := range []string{"---p", "r--p", "rw-p", "r-xp", "rwxs", "---s"} {
		m, err := parseMapping("1000-2000 " + text + " 0 0:0 0")
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Perms.String(); got != text {
			t.Errorf("Perms = %s, want %s", got, text)
		}
		flags := [...]bool{m.Perms.Read(), m.Perms.Write(), m.Perms.Exec(), m.Perms.Shared()}
		want := [...]bool{text[0] == 'r', text[1] == 'w', text[2] == 'x', text[3] == 's'}
		if flags != want {
			t.Errorf("%s: %v, want %v", text, flags, want)
		}
	}
}

func TestParseMapsRefuses(t *testing.T) {
	for _, text := range []string{
		"\n", "nonsense", "1000 r--p 0 0:0 0", "2000-1000 r--p 0 0:0 0", "1000-2000 r--p 0 0:0",
		"1000-2000 r--p 0 00 0", "1000-20000000000000000 r--p 0 0:0 0", "1000-2000 r--p x 0:0 0",
	} {
		if got, err := parseMaps([]byte(text)); err == nil {
			t.Errorf("parseMaps(%q) = %v, want an error", text, got)
		}
	}
}

func FuzzParseMaps(f *testing.F) {
	own, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		f.Fatal(err)
	}
	for line := range strings.Lines(string(own)) {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		all, err := parseMaps(text)
		if err != nil {
			return
		}
		for _, m := range all {
			if m.End < m.Start || m.File() && m.Anonymous() {
				t.Errorf("%q gives %+v", text, m)
			}
		}
	})
}
