package main

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"ustack/cmd/internal/clitest"
	"ustack/symbolize/reader"
	"ustack/testdata/nodetest"
	"ustack/tools/check"
)

// programs are the kernel's names of what must not stay behind.
var programs = []string{"on_usdt", "on_system_call_end", "on_exec"}

func TestMain(m *testing.M) {
	reader.Serve()
	testscript.Main(m, map[string]func(){"logsnoop": main})
}

func TestManPageHasEveryFlag(t *testing.T) {
	clitest.CheckManPage(t, command(), "logsnoop.1")
}

// TestScripts runs testdata/*.txtar, in which LOGGERS is a folder with npm's loggers.
func TestScripts(t *testing.T) {
	node := clitest.Node(t)
	clitest.Scripts{Programs: programs, Env: map[string]string{"LOGGERS": nodetest.Loggers(t, node)}}.Run(t)
}

// TestKillLeavesProbesUnwatched kills the command while it watches probes: the kernel sets their
// counters back to 0.
func TestKillLeavesProbesUnwatched(t *testing.T) {
	node := clitest.Node(t, programs...)
	target := nodetest.Start(t, node, nodetest.Options{Script: "provider.js", Args: []string{nodetest.Loggers(t, node)}})
	counters := func() (f struct{ Counters []int }) {
		t.Helper()
		target.Signal(syscall.SIGUSR2)
		if err := json.Unmarshal([]byte(strings.TrimPrefix(target.Line(), "done ")), &f); err != nil {
			t.Fatal(err)
		}
		return f
	}
	p := clitest.Start(t, "logsnoop", "-p", strconv.Itoa(target.PID), "--probe", "shop:*")
	p.Line("^Watching")
	if got := counters().Counters; !slices.Equal(got, []int{1, 1, 1}) {
		t.Errorf("while watched, the counters are %v, want 1 each", got)
	}
	if got := p.End(syscall.SIGKILL); got.Signal() != syscall.SIGKILL {
		t.Errorf("end = %v, want SIGKILL", got)
	}
	// The kernel detaches from probes once the last descriptor is closed, maybe a moment later.
	for tries := 0; !slices.Equal(counters().Counters, []int{0, 0, 0}); tries++ {
		if tries == 1000 {
			t.Fatal("the probes are still watched")
		}
	}
}

func TestWithoutPrivilegesTheRemedyIsSaid(t *testing.T) {
	node := clitest.Node(t, programs...)
	target := nodetest.Start(t, node, nodetest.Options{Script: "provider.js", Args: []string{nodetest.Loggers(t, node)}})
	clitest.CheckUnprivileged(t, target.PID, "logsnoop", "-d", "1s")
}

func TestCapabilitiesOfTheManualAreEnough(t *testing.T) {
	clitest.Node(t, programs...)
	needed := []check.Capability{check.BPF, check.Perfmon, check.Ptrace}
	clitest.CheckCapabilities(t, needed, "logsnoop", "-p", "{pid}", "-d", "0.5")
}

func TestCheckSaysWhatWorks(t *testing.T) { clitest.CheckCheck(t, "logsnoop", "raw tracepoints") }
