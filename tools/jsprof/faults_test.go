package jsprof

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ustack/symbolize"
	"ustack/symbolize/process"
	"ustack/symbolize/v8"
	"ustack/testdata/nodetest"
	"ustack/tools/profile"
	"ustack/tools/trace"
)

const anyVersion = "22.23.3" // for tests that do not depend on the version

func spin(t *testing.T) *nodetest.Target {
	t.Helper()
	return nodetest.Start(t, nodetest.Node(t, anyVersion), nodetest.Options{Script: "purecpu.js", MayFail: true})
}

// named counts the samples that have a JavaScript frame of that name.
func named(p *profile.Profile, name string) (samples uint64) {
	for _, s := range p.Stacks {
		for _, f := range s.Frames {
			if f.Name == name {
				samples += s.Value
				break
			}
		}
	}
	return samples
}

func TestNamesSurviveTargetsExit(t *testing.T) {
	nodetest.Root(t)
	nodetest.NothingLeft(t, programs...)
	target := spin(t)
	o := Options{Selection: trace.Selection{PIDs: []int{target.PID}}}
	o.Sampled = func(count uint64) {
		if count > 20 {
			target.Stop()
		}
	}
	p := takeProfile(t, o) // ends when the target does
	if got := named(p, "node::Start"); got < 20 {
		t.Errorf("samples from node::Start = %d, want 20 or more", got)
	}
	for _, s := range p.Stacks {
		for _, f := range s.Frames {
			if f.Kind == symbolize.JS && strings.Contains(f.File, "purecpu") && f.Line == 0 {
				t.Errorf("function %s has no line", f.Name)
			}
		}
	}
}

func TestStoppedTargetTakesNoSamples(t *testing.T) {
	nodetest.Root(t)
	nodetest.NothingLeft(t, programs...)
	target := spin(t)
	target.Signal(syscall.SIGSTOP)
	p := takeProfile(t, Options{Selection: trace.Selection{PIDs: []int{target.PID}}, Duration: time.Second})
	if p.Total > 2 { // one may be in progress
		t.Errorf("samples of a stopped process = %d, want none", p.Total)
	}
	target.Signal(syscall.SIGCONT)
	p = profileUntil(t, Options{Selection: trace.Selection{PIDs: []int{target.PID}}, Duration: time.Minute}, 20)
	if p.Total < 20 {
		t.Errorf("samples once it runs = %d, want 20 or more", p.Total)
	}
}

func TestExecIsFollowed(t *testing.T) {
	nodetest.Root(t)
	nodetest.NothingLeft(t, programs...)
	node := nodetest.Node(t, anyVersion)
	script := fmt.Sprintf("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; ulimit -t 2; exec %s %s", node, nodetest.Program("purecpu.js"))
	p, err := Run(t.Context(), Options{Selection: trace.Selection{Command: []string{"sh", "-c", script}, Stdout: devNull(t)}})
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	if got := named(p, "node::Start"); got < 50 {
		t.Errorf("samples from node::Start after exec = %d, want 50 or more", got)
	}
	js := 0
	for _, s := range p.Stacks {
		for _, f := range s.Frames {
			if f.Kind == symbolize.JS && filepath.Base(f.File) == "purecpu.js" {
				js++
			}
		}
	}
	if js == 0 {
		t.Errorf("no JavaScript frame after exec")
	}
}

func devNull(t *testing.T) *os.File {
	t.Helper()
	f, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func TestWrongPIDIsSaid(t *testing.T) {
	nodetest.Root(t)
	nodetest.NothingLeft(t, programs...)
	_, err := Run(t.Context(), Options{Selection: trace.Selection{PIDs: []int{1 << 22}}})
	if !errors.Is(err, process.ErrGone) {
		t.Errorf("error = %v, want %v", err, process.ErrGone)
	}
}

// warnings runs jsprof for some samples and returns its warnings.
func warnings(t *testing.T, pid int) (*profile.Profile, []error) {
	t.Helper()
	const enough = 100
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var warned []error
	p, err := Run(ctx, Options{
		Selection: trace.Selection{PIDs: []int{pid}}, Warn: func(err error) { warned = append(warned, err) },
		Sampled: func(count uint64) {
			if count >= enough {
				cancel()
			}
		},
	})
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	return p, warned
}

func TestProcessWithoutV8IsSaid(t *testing.T) {
	nodetest.Root(t)
	nodetest.NothingLeft(t, programs...)
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "while :; do :; done")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	p, warned := warnings(t, cmd.Process.Pid)
	if len(warned) != 1 || !errors.Is(warned[0], v8.ErrNotV8) {
		t.Errorf("warnings = %v, want %v", warned, v8.ErrNotV8)
	}
	if p.Total < 20 {
		t.Errorf("samples = %d, want 20 or more", p.Total)
	}
}

func TestStrippedNodeStillHasNativeFrames(t *testing.T) {
	nodetest.Root(t)
	nodetest.NothingLeft(t, programs...)
	stripped := filepath.Join(t.TempDir(), "node")
	strip := exec.CommandContext(t.Context(), "strip", "--strip-all", "-o", stripped, nodetest.Node(t, "24.21.0"))
	if out, err := strip.CombinedOutput(); err != nil {
		nodetest.MustRun(t, fmt.Sprintf("strip: %v: %s", err, out))
	}
	target := nodetest.Start(t, stripped, nodetest.Options{Script: "mixed.js"})
	p, warned := warnings(t, target.PID)
	if len(warned) != 1 || !strings.Contains(warned[0].Error(), "stripped") {
		t.Errorf("warnings = %v, want one that says what is missing", warned)
	}
	if named(p, "node::Start") < 20 {
		t.Errorf("samples from node::Start = %d, want 20 or more: .dynsym has it", named(p, "node::Start"))
	}
}

func TestDeepStackIsMarkedTruncated(t *testing.T) {
	nodetest.Root(t)
	nodetest.NothingLeft(t, programs...)
	target := nodetest.Start(t, nodetest.Node(t, anyVersion), nodetest.Options{Script: "deep.js", Args: []string{"1000"}})
	p := profileUntil(t, Options{Selection: trace.Selection{PIDs: []int{target.PID}}, Duration: time.Minute}, 100)
	main := p.Total - named(p, symbolize.Truncated)
	if p.Total < 20 || p.Truncated < p.Total-main || main*10 > p.Total {
		t.Errorf("truncated = %d of %d samples, want almost all", p.Truncated, p.Total)
	}
	if got := p.Failures["too_deep"]; got != p.Truncated {
		t.Errorf("stacks too deep = %d, want %d", got, p.Truncated)
	}
	if named(p, "bottom") < p.Total*9/10 {
		t.Errorf("samples with the leaf = %d of %d, want almost all", named(p, "bottom"), p.Total)
	}
}

func TestWorkersAreNamedApart(t *testing.T) {
	nodetest.Root(t)
	for _, version := range someVersions() {
		t.Run(fmt.Sprintf("node%d", nodetest.Major(version)), func(t *testing.T) {
			nodetest.NothingLeft(t, programs...)
			target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{Script: "workers.js", Args: []string{"3"}})
			p := profileUntil(t, Options{Selection: trace.Selection{PIDs: []int{target.PID}}, Hz: 499, Duration: time.Minute}, 300)
			threads := make(map[string]map[int]bool)
			for _, s := range p.Stacks {
				for _, f := range s.Frames {
					if strings.HasSuffix(f.Name, "_spin") {
						if threads[f.Name] == nil {
							threads[f.Name] = make(map[int]bool)
						}
						threads[f.Name][s.TID] = true
					}
				}
			}
			for _, name := range []string{"main_spin", "worker_0_spin", "worker_1_spin", "worker_2_spin"} {
				if len(threads[name]) != 1 {
					t.Errorf("%s seen on %d threads, want 1", name, len(threads[name]))
				}
			}
		})
	}
}

func TestCancelIsNoError(t *testing.T) {
	nodetest.Root(t)
	nodetest.NothingLeft(t, programs...)
	target := spin(t)
	ctx, cancel := context.WithCancel(t.Context())
	p, err := Run(ctx, Options{Selection: trace.Selection{PIDs: []int{target.PID}}, Sampled: func(count uint64) {
		if count > 10 {
			cancel()
		}
	}})
	cancel()
	if err != nil || p.Total <= 10 {
		t.Errorf("samples, error = %d, %v, want more than 10, nil", p.Total, err)
	}
}

// TestEverySampleIsCounted compares the kernel's count of samples with the sum
// over all stacks.
func TestEverySampleIsCounted(t *testing.T) {
	nodetest.Root(t)
	nodetest.NothingLeft(t, programs...)
	target := nodetest.Start(t, nodetest.Node(t, anyVersion), nodetest.Options{Script: "mixed.js"})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := open(t.Context(), Options{Selection: trace.Selection{PIDs: []int{target.PID}}, Hz: 997, Sampled: func(count uint64) {
		if count > 500 {
			cancel()
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	profiles, err := s.run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	p := profiles[0]
	taken := s.taken()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if p.Total+p.Lost != taken || taken < 500 {
		t.Errorf("stacks + lost = %d + %d, want %d samples, 500 or more", p.Total, p.Lost, taken)
	}
}
