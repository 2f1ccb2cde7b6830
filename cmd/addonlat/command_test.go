package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"ustack/cmd/internal/clitest"
	"ustack/testdata/nodetest"
	"ustack/tools/check"
)

func TestManPageHasEveryFlag(t *testing.T) {
	clitest.CheckManPage(t, command(), "addonlat.1")
}

// busy starts a program that hands jobs to the pool until it is killed, and
// prints a line a second.
func busy(t *testing.T) nodetest.Jobs {
	t.Helper()
	return busyNode(t, clitest.Node(t, programs...))
}

func busyNode(t *testing.T, node string) nodetest.Jobs {
	t.Helper()
	addon := nodetest.Addon(t, nodetest.Node(t, clitest.NodeVersion), "napi.c", nodetest.FramePointers)
	jobs := nodetest.StartJobs(t, node, nodetest.Plan{
		Addons: map[string]string{"napi.c": addon},
		Steps:  []nodetest.Step{{Addon: "napi.c", Call: "sleep", Micros: 500, InFlight: 2, Seconds: 3600}},
	})
	jobs.Begin()
	works(t, jobs)
	return jobs
}

// works checks that the program still does its jobs: of the two seconds that it
// tells next, one is still to come.
func works(t *testing.T, jobs nodetest.Jobs) {
	t.Helper()
	for range 2 {
		if jobs.Rate() == 0 {
			t.Error("the target does nothing")
		}
	}
}

// begin returns when addonlat measures.
func begin(t *testing.T, jobs nodetest.Jobs) *clitest.Process {
	t.Helper()
	p := clitest.Start(t, "addonlat", "-p", strconv.Itoa(jobs.PID))
	p.Line("^Measuring ")
	return p
}

func TestInterruptPrintsWhatWasSeen(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		jobs := busy(t)
		p := begin(t, jobs)
		works(t, jobs)
		if got := p.End(sig); got.ExitStatus() != 0 {
			t.Errorf("%v: exit status = %d, want 0", sig, got.ExitStatus())
		}
		for _, want := range []string{"  napi_c.node`begin_sleep ", "\npool of "} {
			if !strings.Contains(p.Stdout(), want) {
				t.Errorf("%v: stdout = %q, want %q in it", sig, p.Stdout(), want)
			}
		}
		works(t, jobs)
	}
}

func TestKillLeavesKernelAndTargetAsTheyWere(t *testing.T) {
	jobs := busy(t)
	p := begin(t, jobs)
	works(t, jobs)
	if got := p.End(syscall.SIGKILL); got.Signal() != syscall.SIGKILL {
		t.Errorf("end = %v, want SIGKILL", got)
	}
	works(t, jobs)
	// Uprobes are the perf events of their owner: once it is gone, so are they, and a
	// new one finds the target as it was.
	out, err := exec.Command("addonlat", "-p", strconv.Itoa(jobs.PID), "-d", "0.5").CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("napi_c")) {
		t.Errorf("addonlat again: %v\n%s", err, out)
	}
}

func TestEveryProcessOfAName(t *testing.T) {
	real := clitest.Node(t, programs...)
	const name = "addonlat-test"
	node := filepath.Join(t.TempDir(), name)
	if err := os.Symlink(real, node); err != nil {
		t.Fatal(err)
	}
	first, second := busyNode(t, node), busyNode(t, node)
	var messages bytes.Buffer
	cmd := exec.Command("addonlat", "--comm", name, "-d", "1s")
	cmd.Stderr = &messages
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &messages)
	}
	for _, jobs := range []nodetest.Jobs{first, second} {
		key := fmt.Sprintf(" %8d  %-50s\n", jobs.PID, "napi_c.node`begin_sleep")
		if !bytes.Contains(out, []byte(key)) || !bytes.Contains(out, fmt.Appendf(nil, "\npool of %d: ", jobs.PID)) {
			t.Errorf("output = %s, want process %d in it", out, jobs.PID)
		}
	}
}

// TestProgressIsForTerminals gives addonlat a terminal for stderr.
func TestProgressIsForTerminals(t *testing.T) {
	jobs := busy(t)
	command := fmt.Sprintf("addonlat -p %d -d 2s >%s", jobs.PID, filepath.Join(t.TempDir(), "out"))
	script := exec.Command("script", "-qec", command, os.DevNull)
	out, err := script.CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		nodetest.MustRun(t, err.Error())
	}
	if err != nil {
		t.Fatalf("script: %v\n%s", err, out)
	}
	if want := regexp.MustCompile(`\r\x1b\[K\d+ jobs submitted, \d+ completed, \d+ in flight`); !want.Match(out) {
		t.Errorf("output = %q, want a line of progress", out)
	}
}

func TestFullDiskLeavesNoPartialFile(t *testing.T) {
	jobs := busy(t)
	clitest.CheckFullDisk(t, "out.txt", "addonlat", "-p", strconv.Itoa(jobs.PID), "-d", "0.5")
	works(t, jobs)
}

func TestChaosOutputIsRefusedBeforeMeasuring(t *testing.T) {
	jobs := busy(t)
	clitest.CheckOutputPlaces(t, "out.txt", "addonlat", "-p", strconv.Itoa(jobs.PID))
	works(t, jobs)
}

func TestWithoutPrivilegesTheRemedyIsSaid(t *testing.T) {
	jobs := busy(t)
	clitest.CheckUnprivileged(t, jobs.PID, "addonlat", "-d", "1s")
	works(t, jobs)
}

func TestKernelThatLacksSomethingIsRefused(t *testing.T) {
	jobs := busy(t)
	clitest.CheckKernels(t, jobs.PID, "addonlat", "-d", "1s")
	works(t, jobs)
}

func TestCapabilitiesOfTheManualAreEnough(t *testing.T) {
	needed := []check.Capability{check.BPF, check.Perfmon, check.Ptrace}
	clitest.CheckCapabilities(t, needed, "addonlat", "-p", "{pid}", "-d", "0.5", "--builtin")
}

func TestCheckSaysWhatWorks(t *testing.T) { clitest.CheckCheck(t, "addonlat", "uprobes") }

func TestReleasesDenoIsNotUnderstood(t *testing.T) {
	clitest.CheckDeno(t, "addonlat", "-d", "1s", "--json")
}
