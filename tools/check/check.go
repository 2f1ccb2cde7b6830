// Package check finds out which functions of the tools work on a machine, and
// why the others do not: by trying them, and by checking the process's
// capabilities. Everything is undone before it returns.
package check

import (
	"fmt"
	"slices"
)

// A Result is the outcome of checking one thing that a tool needs.
type Result struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Needed bool   `json:"needed"`        // the tool does not work without it at all
	For    string `json:"for,omitempty"` // otherwise, what in the tool does not work without it
	Detail string `json:"detail"`        // what was found, or why it does not work and what to do about it
}

// A Report says what works of a tool on this machine.
type Report struct {
	Tool    string   `json:"tool"`
	Version string   `json:"version"`
	Works   bool     `json:"works"` // everything that the tool needs is available
	Checks  []Result `json:"checks"`
}

// always is the use of a check for a tool that does not work without it.
const always = ""

// informs is the use of a check that cannot fail: it only gives information.
const informs = "-"

// A probe is one thing to try.
type probe struct {
	name string
	// uses says what each tool needs it for: always, or a flag or command.
	uses map[string]string
	// try returns what it found, or an error that says what does not work.
	try func() (detail string, err error)
}

// Tool returns what works here of the named tool: jsprof, addonlat, stopon,
// nodesnoop, logsnoop or jscore.
func Tool(name string) Report { return report(name, probes()) }

// report tries those of the probes that the tool has a use for.
func report(name string, probes []probe) Report {
	r := Report{Tool: name, Works: true}
	for _, p := range probes {
		use, ok := p.uses[name]
		if !ok {
			continue
		}
		detail, err := p.try()
		result := Result{Name: p.name, OK: err == nil, Needed: use == always, Detail: detail}
		if use != informs {
			result.For = use
		}
		if err != nil {
			result.Detail = err.Error()
		}
		r.Works = r.Works && (result.OK || !result.Needed)
		r.Checks = append(r.Checks, result)
	}
	return r
}

// all are the tools' names.
var all = []string{"jsprof", "addonlat", "stopon", "nodesnoop", "logsnoop", "jscore"}

// tracers are the tools that run programs in the kernel.
var tracers = all[:len(all)-1]

// used returns the uses of these tools, which all need a thing for the same
// use.
func used(use string, tools ...string) map[string]string {
	uses := make(map[string]string)
	for _, tool := range tools {
		uses[tool] = use
	}
	return uses
}

// with returns uses with one more.
func with(uses map[string]string, tool, use string) map[string]string {
	uses[tool] = use
	return uses
}

// probes returns all probes, in the order in which they are shown.
func probes() []probe {
	capability := func(c Capability, uses map[string]string) probe {
		return probe{c.String(), uses, func() (string, error) { return "held", Capabilities(c) }}
	}
	return slices.Concat(
		[]probe{
			{"architecture", used(always, all...), architecture},
			{"kernel", with(used(always, tracers...), "jscore", informs), kernel},
			{"container", used(informs, all...), container},
			{"user namespace", with(used(always, tracers...), "jscore", "-p"), userNamespace},
			{"pid namespace", used(always, all...), pidNamespace},
			capability(BPF, used(always, tracers...)),
			capability(Perfmon, used(always, tracers...)),
			capability(Ptrace, with(used(always, tracers...), "jscore", "-p")),
			capability(Kill, used("actions", "stopon")),
			capability(DACOverride, with(used("--gcore of others", "stopon"), "jscore", "-p of others")),
			capability(Syslog, map[string]string{"jsprof": "--kernel", "stopon": "--kernel-stack"}),
		},
		kernelProbes(),
		[]probe{
			{"ptrace", map[string]string{"stopon": "--gcore", "jscore": "-p"}, ptraceChild},
			{"control groups", used("--cgroup", tracers...), controlGroups},
			{"kernel symbols", map[string]string{"jsprof": "--kernel", "stopon": "--kernel-stack"}, kernelSymbols},
		})
}

// missing returns the error for something that is not available, with its
// remedy.
func missing(what, remedy string) error { return fmt.Errorf("%s (%s)", what, remedy) }
