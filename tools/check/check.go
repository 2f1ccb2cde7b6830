// Package check finds out what of the tools works on a machine, and why the rest
// does not: by doing it, and by the process's capabilities. Everything is undone
// before it returns.
package check

import (
	"fmt"
	"slices"
)

// A Result is what was found out about one thing that a tool needs.
type Result struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Needed bool   `json:"needed"`        // the tool does not work without it at all
	For    string `json:"for,omitempty"` // otherwise: what of the tool does not
	Detail string `json:"detail"`        // what was found, or why it does not work and what to do about it
}

// A Report is what works of a tool on this machine.
type Report struct {
	Tool    string   `json:"tool"`
	Version string   `json:"version"`
	Works   bool     `json:"works"` // all that the tool needs is there
	Checks  []Result `json:"checks"`
}

// always is the use of a check by a tool that does not work without it.
const always = ""

// informs is the use of a check that cannot fail: it only says what is so.
const informs = "-"

// A probe is one thing that is tried.
type probe struct {
	name string
	// uses says what each tool needs it for: always, or a flag or command.
	uses map[string]string
	// try returns what it has found, or an error that says what does not work.
	try func() (detail string, err error)
}

// Tool returns what works here of the tool of that name: jsprof, addonlat, stopon
// or jscore.
func Tool(name string) Report {
	r := Report{Tool: name, Works: true}
	for _, p := range probes() {
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

// all are the tools.
var all = []string{"jsprof", "addonlat", "stopon", "jscore"}

// tracers are the tools that run programs in the kernel.
var tracers = all[:3]

// used returns the uses of what these tools need for one and the same thing.
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

// probes are all that is tried, in the order in which it is shown.
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

// missing is the error of something that is not there, with its remedy.
func missing(what, remedy string) error { return fmt.Errorf("%s (%s)", what, remedy) }
