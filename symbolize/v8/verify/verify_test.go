package verify

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"ustack/symbolize/contain"
	"ustack/symbolize/process"
	"ustack/symbolize/space"
	"ustack/symbolize/v8/release"
	"ustack/testdata/nodetest"
)

// waiting starts the newest Node.js, which then waits, and returns it with the layout of
// its own release.
func waiting(t *testing.T) Subject {
	t.Helper()
	node := nodetest.Node(t, newestNode)
	const program = "console.log('ready'); fs.readSync(0, Buffer.alloc(1))"
	paused := nodetest.Pause(t, node, "-e", program)
	p, err := process.Open(paused.PID)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	f := nodetest.OpenELF(t, node)
	return Subject{Memory: space.Live{Process: p}, Binary: inspected(t, f, newest()), File: f}
}

func TestOwnLayoutIsVerified(t *testing.T) {
	s := waiting(t)
	for _, running := range []bool{false, true} {
		s.Running = running
		called := 0
		got, err := Layout(t.Context(), s, Check{"the caller's", func() error { called++; return nil }})
		const want = "it is read as that of Node.js 26, which checks of the process confirm except for frames of regular expressions"
		if err != nil || !strings.HasPrefix(got, want) || called != 1 {
			t.Errorf("running %v: %q, %v after %d checks of the caller, want %q after one", running, got, err, called, want)
		}
	}
}

func TestShiftedLayoutIsRefused(t *testing.T) {
	s := waiting(t)
	for name, tt := range map[string]struct {
		want  string // the check that fails
		shift func(*release.Release)
	}{
		"types": {"instance types", func(r *release.Release) {
			r.Types = map[string]uint16{"HashTable": r.Types["TransitionArray"] + 2}
		}},
		"external strings":   {"code of V8", func(r *release.Release) { r.Strings.External += 8 }},
		"owners of pages":    {"pages", func(r *release.Release) { r.Pages.Owner += 8 }},
		"names of spaces":    {"pages", func(r *release.Release) { r.Pages.Spaces = r.Pages.Spaces[1:] }},
		"scripts":            {"functions of Node.js", func(r *release.Release) { r.Scripts.ID += 8 }},
		"positions":          {"functions of Node.js", func(r *release.Release) { r.Scopes.Positions++ }},
		"data of functions":  {"functions of Node.js", func(r *release.Release) { r.Functions.SharedData += 8 }},
		"kinds of functions": {"kinds of functions", func(r *release.Release) { r.Functions.MemberInitializerKind++ }},
		"builtins":           {"builtins", func(r *release.Release) { r.Functions.BuiltinID += 8 }},
		"code":               {"code of functions", func(r *release.Release) { r.Functions.Code += 8 }},
	} {
		for _, running := range []bool{false, true} {
			r := newest()
			tt.shift(&r)
			shifted := s
			shifted.Binary, shifted.Running = inspected(t, s.File, r), running
			got, err := Layout(t.Context(), shifted)
			if want := "it is not laid out as in Node.js 26: " + tt.want + ": "; err == nil || got != "" || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%s shifted, running %v: %q, %v, want %q", name, running, got, err, want)
			}
		}
	}
}

// TestAllObjectsOfAStoppedProcessAreVerified: of one that runs, only those that never change.
func TestAllObjectsOfAStoppedProcessAreVerified(t *testing.T) {
	s, r := waiting(t), newest()
	r.Sizes.DescriptorArray -= 8
	s.Binary = inspected(t, s.File, r)
	if got, err := Layout(t.Context(), s); err == nil || !strings.Contains(err.Error(), "Node.js 26: objects: ") {
		t.Errorf("sizes of descriptors shifted: %q, %v, want an error of objects", got, err)
	}
	s.Running = true
	if _, err := Layout(t.Context(), s); err != nil {
		t.Errorf("sizes of descriptors shifted, while the process runs: %v, want none", err)
	}
}

func TestChecksOfTheCallerAreContained(t *testing.T) {
	s := waiting(t)
	var none []int
	for name, check := range map[string]func() error{
		"fails":  func() error { return errWrong },
		"panics": func() error { none[0] = 1; return nil },
	} {
		_, err := Layout(t.Context(), s, Check{name, check})
		if want := "it is not laid out as in Node.js 26: " + name + ": "; err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("a check that %s: %v, want %q", name, err, want)
		}
		if got := isFault(err); got != (name == "panics") {
			t.Errorf("a check that %s: %v is a fault: %v", name, err, got)
		}
	}
}

// isFault reports whether an error is a panic that was contained.
func isFault(err error) bool {
	var fault *contain.Fault
	return errors.As(err, &fault)
}

func TestVerificationEndsWithItsContext(t *testing.T) {
	s := waiting(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Layout(ctx, s, Check{"cancels", func() error { cancel(); return nil }}, Check{"fails", func() error { return errWrong }})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled meanwhile: %v, want %v", err, context.Canceled)
	}
	if _, err := Layout(ctx, s); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before: %v, want %v", err, context.Canceled)
	}
}

// A damagedMemory is one in which random bytes are replaced.
type damagedMemory struct {
	space.Live
	random *rand.Rand
	each   int // bytes for each damaged one
}

func (m damagedMemory) ReadAt(p []byte, address uint64) (int, error) {
	n, err := m.Live.ReadAt(p, address)
	for range n / m.each {
		p[m.random.IntN(n)] = byte(m.random.Uint32())
	}
	return n, err
}

// TestDamagedMemoryIsRefused verifies memory with random damage. No check panics, and much
// damage is noticed.
func TestDamagedMemoryIsRefused(t *testing.T) {
	s := waiting(t)
	live := s.Memory.(space.Live)
	for seed, each := range []int{40, 400, 4000, 40_000} {
		for _, s.Running = range []bool{false, true} {
			s.Memory = damagedMemory{live, rand.New(rand.NewPCG(uint64(seed), 0)), each}
			got, err := Layout(t.Context(), s)
			if isFault(err) || each < 1000 && err == nil {
				t.Errorf("one byte of %d damaged, running %v: %q, %v, want an error of a check", each, s.Running, got, err)
			}
		}
	}
}

// nowhere is memory without anything that can be read.
type nowhere struct{ space.Live }

func (nowhere) Regions() []space.Region            { return nil }
func (nowhere) ReadAt([]byte, uint64) (int, error) { return 0, errWrong }

func TestNothingIsRefused(t *testing.T) {
	f := nodetest.OpenELF(t, nodetest.Node(t, newestNode))
	_, err := Layout(t.Context(), Subject{Memory: nowhere{}, Binary: inspected(t, f, newest()), File: f})
	const want = "it is not laid out as in Node.js 26: pages: none of 0 pages belongs to the readonly space"
	if err == nil || err.Error() != want {
		t.Errorf("no memory: %v, want %q", err, want)
	}
}
