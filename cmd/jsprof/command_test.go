package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"ustack/cmd/internal/clitest"
	"ustack/testdata/nodetest"
	"ustack/tools/check"
)

func TestManPageHasEveryFlag(t *testing.T) {
	clitest.CheckManPage(t, command(), "jsprof.1")
}

// spin starts a program that computes forever.
func spin(t *testing.T) *nodetest.Target {
	t.Helper()
	return nodetest.Start(t, clitest.Node(t, programs...), nodetest.Options{Script: "purecpu.js"})
}

// ticks waits until the process has used CPU time since now.
func ticks(t *testing.T, target *nodetest.Target) {
	t.Helper()
	used := func() string {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", target.PID))
		if err != nil {
			t.Fatal(err)
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')'):]))
		return fields[12] // utime, in ticks: field 14 of proc(5)
	}
	for before := used(); used() == before; {
		if !target.Alive() {
			t.Fatal("the target has ended")
		}
	}
}

func TestInterruptPrintsWhatWasGathered(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		target := spin(t)
		p := clitest.Start(t, "jsprof", "-p", strconv.Itoa(target.PID))
		p.Line(`^Sampling \d+ at 99 Hz. Ctrl-C to end.$`)
		for range 30 {
			ticks(t, target)
		}
		if got := p.End(sig); got.ExitStatus() != 0 {
			t.Errorf("%v: exit status = %d, want 0", sig, got.ExitStatus())
		}
		if got, want := p.Stdout(), "pureMain"; !strings.Contains(got, want) {
			t.Errorf("%v: stdout = %q, want %s in it", sig, got, want)
		}
		ticks(t, target)
	}
}

func TestKillLeavesKernelAndTargetAsTheyWere(t *testing.T) {
	target := spin(t)
	p := clitest.Start(t, "jsprof", "-p", strconv.Itoa(target.PID))
	p.Line("^Sampling ")
	if got := p.End(syscall.SIGKILL); got.Signal() != syscall.SIGKILL {
		t.Errorf("end = %v, want SIGKILL", got)
	}
	ticks(t, target)
}

func TestWebPagesAreServedUntilInterrupt(t *testing.T) {
	target := spin(t)
	p := clitest.Start(t, "jsprof", "-p", strconv.Itoa(target.PID), "-d", "1s", "--http", "127.0.0.1:0")
	url := p.Line(`^Serving the profile at (http://127\.0\.0\.1:\d+/[A-Z0-9]{26}/)\. Ctrl-C to end\.$`)
	for _, page := range []string{"top", "flamegraph", "peek?f=fib"} {
		response, err := http.Get(url + page)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		if err := errors.Join(err, response.Body.Close()); err != nil {
			t.Fatal(err)
		}
		if got, want := response.StatusCode, http.StatusOK; got != want {
			t.Errorf("%s: status = %d, want %d", page, got, want)
		}
		if !bytes.Contains(body, []byte("fib")) {
			t.Errorf("%s does not name fib", page)
		}
	}
	if got := p.End(syscall.SIGINT); got.ExitStatus() != 0 {
		t.Errorf("exit status = %d, want 0", got.ExitStatus())
	}
	if _, err := http.Get(url); err == nil {
		t.Error("the pages are still served")
	}
}

func TestAddressInUseIsSaidBeforeSampling(t *testing.T) {
	listener, err := listen(":0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	cmd := exec.Command("jsprof", "-p", strconv.Itoa(os.Getpid()), "--http", listener.Addr().String())
	if out := clitest.Fails(t, cmd, "address already in use"); strings.Contains(out, "Sampling") {
		t.Errorf("output = %q, want no sampling", out)
	}
}

func TestFullDiskLeavesNoPartialFile(t *testing.T) {
	target := spin(t)
	clitest.CheckFullDisk(t, "out.svg", "jsprof", "-p", strconv.Itoa(target.PID), "-d", "0.5")
	ticks(t, target)
}

func TestChaosOutputIsRefusedBeforeSampling(t *testing.T) {
	target := spin(t)
	clitest.CheckOutputPlaces(t, "out.svg", "jsprof", "-p", strconv.Itoa(target.PID))
	ticks(t, target)
}

func TestWithoutPrivilegesTheRemedyIsSaid(t *testing.T) {
	target := spin(t)
	clitest.CheckUnprivileged(t, target.PID, "jsprof", "-d", "1s")
	ticks(t, target)
}

func TestKernelThatLacksSomethingIsRefused(t *testing.T) {
	target := spin(t)
	for _, flags := range [][]string{{"-F", "99"}, {"-e", "page-faults"}, {"-e", "syscall:close"}, {"--off-cpu"}, {"--alloc"}} {
		clitest.CheckKernels(t, target.PID, append([]string{"jsprof", "-d", "1s"}, flags...)...)
	}
	ticks(t, target)
}

func TestCapabilitiesOfTheManualAreEnough(t *testing.T) {
	needed := []check.Capability{check.BPF, check.Perfmon, check.Ptrace}
	clitest.CheckCapabilities(t, needed, "jsprof", "-p", "{pid}", "-d", "0.5", "-F", "499", "--filter", "setInterval|listOnTimeout")
}

func TestCheckSaysWhatWorks(t *testing.T) { clitest.CheckCheck(t, "jsprof", "perf events") }

func TestReleasesDenoIsNotUnderstood(t *testing.T) {
	clitest.CheckDeno(t, "jsprof", "-d", "2s", "--json")
}
