package libuv

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestOnlyOneSubmitterIsBeyondDoubt: work that more than one function may submit has
// no submitter.
func TestOnlyOneSubmitterIsBeyondDoubt(t *testing.T) {
	const head = `
extern int create(void *, void (*)(void)), queue(void *);
static __attribute__((noipa)) void work(void) { queue(0); }
int submit(void *p) { create(p, work); return queue(p); }
`
	for name, test := range map[string]struct {
		more string
		want bool
	}{
		"one":             {"", true},
		"also called":     {"void call(void) { work(); create(0, 0); } void jump(void) { work(); }", true},
		"two":             {"int other(void *p) { create(p, work); return queue(p); }", false},
		"given elsewhere": {"int other(void *p) { return create(p, work) + 1; }", false},
		"kept":            {"void (*works[])(void) = { work };", false},
		"kept unchanging": {"static void (*const works[])(void) = { work, 0 }; int other(int i) { return create(0, works[i]); }", false},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "library.so")
			cmd := exec.CommandContext(t.Context(), "gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-o", path, "-")
			cmd.Stdin = strings.NewReader(head + test.more)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("compile: %v\n%s", err, out)
			}
			im, exported := openFile(t, path)
			submit, _ := exported("submit")
			want := uint64(0)
			if test.want {
				want = submit
			}
			if got := im.submitterOf(symbol(t, im, "work")); got != want {
				t.Errorf("submitter = %#x, want %#x", got, want)
			}
		})
	}
}

// symbol returns the address of a symbol in the file.
func symbol(t *testing.T, im *Image, name string) uint64 {
	t.Helper()
	symbols, err := im.file.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		if s.Name == name {
			return s.Value
		}
	}
	t.Fatalf("no symbol %s", name)
	return 0
}
