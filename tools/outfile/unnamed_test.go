package outfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"ustack/testdata/nodetest"
)

// forbidUnnamedFiles has openat refuse O_TMPFILE, as file systems that lack it do, until
// the test ends: its goroutine stays on its thread, which ends with it.
func forbidUnnamedFiles(t *testing.T) {
	t.Helper()
	const (
		number, flags = 0, 32                              // of struct seccomp_data: nr, args[2]
		unnamed       = unix.O_TMPFILE &^ unix.O_DIRECTORY // the bit that only it has
	)
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	filter := []unix.SockFilter{
		load(number),
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_OPENAT, Jf: 3},
		load(flags),
		{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: unnamed, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EOPNOTSUPP)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	runtime.LockOSThread()
	err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	if err == nil {
		err = unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
	}
	if err != nil {
		nodetest.MustRun(t, "no filter of system calls: "+err.Error())
	}
}

// TestFileSystemsWithoutUnnamedFiles does what is done on others: nothing but the hidden
// name, and that only while the file is written, tells them apart.
func TestFileSystemsWithoutUnnamedFiles(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"replaced": TestFileIsReplacedAndKeepsItsMode,
		"failure":  TestFailureLeavesTheOldFileAndNoOther,
		"full":     TestFullDiskLeavesNoHalfFile,
		"link":     TestLinkStaysALink,
		"modes":    TestNewFilesAreNotForOthersToWrite,
	} {
		t.Run(name, func(t *testing.T) {
			forbidUnnamedFiles(t)
			test(t)
		})
	}
	t.Run("hidden", func(t *testing.T) {
		forbidUnnamedFiles(t)
		dir := t.TempDir()
		if _, err := unix.Open(dir, unix.O_TMPFILE|unix.O_WRONLY, 0o600); !errors.Is(err, unix.EOPNOTSUPP) {
			t.Fatalf("open without a name: %v, want %v", err, unix.EOPNOTSUPP)
		}
		var during []string
		err := writeFile(filepath.Join(dir, "out"), func(w io.Writer) error {
			during = names(t, dir)
			return text("x")(w)
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(during) != 1 || !strings.HasPrefix(during[0], ".out.") || !strings.HasSuffix(during[0], ".partial") {
			t.Errorf("files while it is written = %q, want one hidden one", during)
		}
		if info, err := os.Stat(filepath.Join(dir, "out")); err != nil || info.Size() != 1 {
			t.Errorf("out: %v, want 1 byte", err)
		}
	})
}
