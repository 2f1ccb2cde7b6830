package nodetest

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// loadProgram puts a program that does nothing into the kernel.
func loadProgram(t *testing.T, name string) *ebpf.Program {
	t.Helper()
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name:         name,
		Type:         ebpf.SocketFilter,
		License:      "MIT",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	return program
}

func TestProgramsAreFoundByTheirCutNames(t *testing.T) {
	Root(t)
	const name = "nodetest_left_behind" // longer than the kernel keeps
	if got := len(programs(t, []string{name})); got != 0 {
		t.Fatalf("programs before = %d, want 0", got)
	}
	program := loadProgram(t, name)
	if got := len(programs(t, []string{"other", name})); got != 1 {
		t.Errorf("programs = %d, want 1", got)
	}
	program.Close()
	if got := len(programs(t, []string{name})); got != 0 {
		t.Errorf("programs after = %d, want 0", got)
	}
}

func TestNothingLeftForgivesWhatWasThereBefore(t *testing.T) {
	Root(t)
	loadProgram(t, "nodetest_before")
	t.Run("inner", func(t *testing.T) {
		NothingLeft(t, "nodetest_before")
		loadProgram(t, "nodetest_before").Close()
	})
}

func TestMustRunSkipsOnlyWhereSkippingIsAllowed(t *testing.T) {
	t.Setenv("USTACK_MUST_RUN", "")
	t.Run("skipped", func(t *testing.T) {
		defer func() {
			if !t.Skipped() {
				t.Error("the test was not skipped")
			}
		}()
		MustRun(t, "for the test's sake")
	})
}

func TestSinceSkipsOnOlderKernelsOnly(t *testing.T) {
	t.Setenv("USTACK_MUST_RUN", "1") // does not count on an older kernel
	t.Run("skipped", func(t *testing.T) {
		defer func() {
			if !t.Skipped() {
				t.Error("the test was not skipped")
			}
		}()
		Since(t, 99, 0, "for the test's sake")
	})
	for _, tt := range []struct {
		release      string
		major, minor int
		want         bool
	}{
		{"6.1.0-40-cloud-amd64", 6, 7, true},
		{"6.12.95+deb13-cloud-amd64", 6, 7, false},
		{"6.7-rc1", 6, 7, false},
		{"5.15.0", 6, 7, true},
		{"7.0.0", 6, 7, false},
	} {
		if got, err := olderThan(tt.release, tt.major, tt.minor); err != nil || got != tt.want {
			t.Errorf("%s is older than %d.%d: %t, %v, want %t", tt.release, tt.major, tt.minor, got, err, tt.want)
		}
	}
	if _, err := olderThan("none", 6, 7); err == nil {
		t.Error("a release without a version is no error, want one")
	}
}

func TestLockIsHeldByOneAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	var inside sync.Mutex
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			unlock, err := lock(path)
			if err != nil {
				t.Error(err)
				return
			}
			defer unlock()
			if !inside.TryLock() {
				t.Error("two hold the lock")
				return
			}
			inside.Unlock()
		})
	}
	wait.Wait()
}

func TestCacheIsWhereTheEnvironmentSays(t *testing.T) {
	want := filepath.Join(t.TempDir(), "cache")
	t.Setenv("USTACK_CACHE", want)
	got, err := cacheDir()
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("cache = %q, want %q", got, want)
	}
	if _, err := os.Stat(want); err != nil {
		t.Error(err)
	}
}

func TestMajor(t *testing.T) {
	for _, test := range []struct {
		version string
		want    int
	}{{"22.23.3", 22}, {"16", 16}, {"", 0}, {"v22", 0}} {
		if got := Major(test.version); got != test.want {
			t.Errorf("major of %q = %d, want %d", test.version, got, test.want)
		}
	}
}
