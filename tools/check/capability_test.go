package check

import (
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"ustack/testdata/nodetest"
)

// TestToolsNeedTheirCapabilities gives a user all capabilities that a tool needs, and then
// all but one.
func TestToolsNeedTheirCapabilities(t *testing.T) {
	needed := []Capability{BPF, Perfmon, Ptrace}
	whole := run(t, job{Tools: tracers}, nobody(needed...))
	for _, tool := range tracers {
		if r := whole.Reports[tool]; !r.Works && !needsAdmin(t, r) {
			t.Errorf("%s does not work with %v: %+v", tool, needed, r.Checks)
		}
	}
	if r := whole.result(t, "stopon", Kill.String()); r.OK || r.For != "actions" || !strings.HasPrefix(r.Detail, "operation not permitted: CAP_KILL is missing") {
		t.Errorf("CAP_KILL = %+v, want that it is missing, for actions", r)
	}
	for i, c := range needed {
		t.Run("without "+c.String(), func(t *testing.T) {
			a := run(t, job{Tools: tracers}, nobody(slices.Delete(slices.Clone(needed), i, i+1)...))
			for _, tool := range tracers {
				if r := a.result(t, tool, c.String()); a.Reports[tool].Works || !strings.Contains(r.Detail, c.String()+" is missing (run as root, or with "+c.String()+")") {
					t.Errorf("%s works = %t, with %+v, want that %v is missing", tool, a.Reports[tool].Works, r, c)
				}
				for _, other := range needed {
					if r := a.result(t, tool, other.String()); r.OK != (other != c) {
						t.Errorf("%s: %v = %+v, want ok = %t", tool, other, r, other != c)
					}
				}
			}
		})
	}
}

// needsAdmin reports whether all that does not work of what a tool needs is refused as older
// kernels do, and Debian's at a high level of kernel.perf_event_paranoid.
func needsAdmin(t *testing.T, r Report) bool {
	t.Helper()
	old, err := nodetest.OlderThan(6, 10)
	if err != nil {
		t.Fatal(err)
	}
	const most = 2
	level, err := strconv.Atoi(sysctl("kernel/perf_event_paranoid"))
	return err == nil && !slices.ContainsFunc(r.Checks, func(c Result) bool {
		paranoid := level > most && strings.Contains(c.Detail, fmt.Sprintf("kernel.perf_event_paranoid is %d: run as root", level))
		return c.Needed && !c.OK && !paranoid && !(old && strings.Contains(c.Detail, "before Linux 6.10"))
	})
}

// TestProgramsCannotBeLoadedByNobody has the probes show what the capabilities say.
func TestProgramsCannotBeLoadedByNobody(t *testing.T) {
	a := run(t, job{Tools: all}, nobody())
	for _, tool := range tracers {
		for _, check := range []string{"BPF programs", "raw tracepoints"} {
			if r := a.result(t, tool, check); r.OK || !r.Needed {
				t.Errorf("%s of nobody = %+v, want that it does not work", check, r)
			}
		}
	}
	if r := a.Reports["jscore"]; !r.Works {
		t.Errorf("jscore does not work for nobody: %+v, want that it opens cores", r.Checks)
	}
	if r := a.result(t, "jscore", Ptrace.String()); r.OK || r.Needed || r.For != "-p" {
		t.Errorf("CAP_SYS_PTRACE = %+v, want that -p lacks it", r)
	}
}

// TestAccessNamesWhatIsMissing has a process of another user.
func TestAccessNamesWhatIsMissing(t *testing.T) {
	nodetest.Root(t)
	const id = 65533
	other := exec.CommandContext(t.Context(), "sleep", "600")
	other.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: id, Gid: id}}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = other.Process.Kill() // it runs until then
		_ = other.Wait()
	}()
	const gone = 1<<22 + 1 // above the kernel's highest number
	for name, tt := range map[string]struct {
		held               []Capability
		read, dump, signal string // the capability that is missing
	}{
		"none":        {nil, "CAP_SYS_PTRACE", "CAP_SYS_PTRACE", "CAP_KILL"},
		"ptrace":      {[]Capability{Ptrace}, "", "CAP_DAC_OVERRIDE", "CAP_KILL"},
		"files":       {[]Capability{DACOverride}, "CAP_SYS_PTRACE", "CAP_SYS_PTRACE", "CAP_KILL"},
		"signals":     {[]Capability{Kill}, "CAP_SYS_PTRACE", "CAP_SYS_PTRACE", ""},
		"for reading": {[]Capability{Ptrace, DACReadSearch, Kill}, "", "", ""},
		"all":         {[]Capability{Ptrace, DACOverride, Kill}, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := run(t, job{PIDs: []int{other.Process.Pid, gone}}, nobody(tt.held...))
			for _, got := range []struct{ what, err, want string }{
				{"read", a.Access[0].Read, tt.read}, {"dump", a.Access[0].Dump, tt.dump}, {"signal", a.Access[0].Signal, tt.signal},
			} {
				if got.want == "" && got.err != "" || !strings.Contains(got.err, got.want) {
					t.Errorf("%s: error = %q, want %q", got.what, got.err, got.want)
				}
			}
			if a.Access[1] != (access{}) {
				t.Errorf("a process that does not exist: %+v, want no refusal", a.Access[1])
			}
		})
	}
}

func TestCapabilitiesAreListed(t *testing.T) {
	for want, missing := range map[string][]Capability{
		"operation not permitted: CAP_BPF is missing (run as root, or with CAP_BPF)":                                                          {BPF},
		"operation not permitted: CAP_BPF and CAP_KILL are missing (run as root, or with CAP_BPF and CAP_KILL)":                               {BPF, Kill},
		"operation not permitted: CAP_BPF, CAP_PERFMON and CAP_SYSLOG are missing (run as root, or with CAP_BPF, CAP_PERFMON and CAP_SYSLOG)": {BPF, Perfmon, Syslog},
	} {
		if got := lacking(missing...).Error(); got != want {
			t.Errorf("lacking(%v) = %q, want %q", missing, got, want)
		}
	}
	if got := list(nil); got != "" {
		t.Errorf("a list of none = %q, want nothing", got)
	}
}
