package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"ustack/cmd/internal/clitest"
	"ustack/symbolize/reader"
)

// programs are the kernel's names of what must not stay behind.
var programs = []string{"on_sample", "on_exec"}

func TestMain(m *testing.M) {
	reader.Serve()
	testscript.Main(m, map[string]func(){"jsprof": main})
}

// TestScripts runs testdata/*.txtar. Their commands beyond those of every command:
//
//	contract FILE               FILE is JSON as the manual page has it
//	annotated FILE NAME LINE    FILE is a function's source in JSON; most of it runs in LINE
//	[!] kind FILE KIND          a frame in FILE, JSON, is of this kind
//	[!] above FILE NAME OTHER   a stack in FILE, JSON, has OTHER further from the leaf than NAME
func TestScripts(t *testing.T) {
	clitest.Scripts{
		Programs: programs,
		Commands: map[string]func(*testscript.TestScript, bool, []string){
			"contract": contract, "annotated": annotated, "kind": kind, "above": above,
		},
	}.Run(t)
}

// The JSON format as the manual page describes it, written down a second time
// on purpose: a field that is renamed breaks other people's programs.
type (
	report struct {
		ValueType struct {
			Type string `json:"type"`
			Unit string `json:"unit"`
		} `json:"value_type"`
		Node          *string           `json:"node"`
		V8            *string           `json:"v8"`
		Hz            *int              `json:"hz"`
		HzAsked       *int              `json:"hz_asked"`
		Throttled     *uint64           `json:"throttled"`
		Samples       *uint64           `json:"samples"`
		Lost          *uint64           `json:"lost"`
		Truncated     *uint64           `json:"truncated"`
		UnknownFrames *uint64           `json:"unknown_frames"`
		Failures      map[string]uint64 `json:"failures"`
		Processes     []struct {
			PID     int     `json:"pid"`
			Title   *string `json:"title"`
			Node    *string `json:"node"`
			V8      *string `json:"v8"`
			Samples uint64  `json:"samples"`
		} `json:"processes"`
		Stacks []stack `json:"stacks"`

		Event  string `json:"event"`
		Events uint64 `json:"events"`
		Every  uint64 `json:"every"`
		Seen   uint64 `json:"seen"`
	}
	stack struct {
		Count  uint64          `json:"count"`
		Events uint64          `json:"events"`
		PID    int             `json:"pid"`
		TID    int             `json:"tid"`
		Thread *string         `json:"thread"`
		Frames []clitest.Frame `json:"frames"`
	}
)

// decode reads a file that holds one report.
func decode(ts *testscript.TestScript, file string) report {
	reports := clitest.Decode[report](ts, file)
	if len(reports) != 1 {
		ts.Fatalf("reports in %s = %d, want 1", file, len(reports))
	}
	return reports[0]
}

func contract(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: contract FILE")
	}
	r := decode(ts, args[0])
	if r.Node == nil || r.V8 == nil || r.Hz == nil || r.Samples == nil || r.Lost == nil ||
		r.Truncated == nil || r.UnknownFrames == nil || r.Failures == nil || r.Stacks == nil {
		ts.Fatalf("a field is missing: %+v", r)
	}
	if r.ValueType.Type != "samples" || r.ValueType.Unit != "count" {
		ts.Fatalf("value type = %+v, want samples, count", r.ValueType)
	}
	if r.Event != "cpu" || r.Events+r.Every+r.Seen > 0 {
		ts.Fatalf("event = %s with %d events, one in %d of %d, want cpu and no other field", r.Event, r.Events, r.Every, r.Seen)
	}
	var samples, lineless, unnamed uint64
	for _, s := range r.Stacks {
		samples += s.Count
		if s.Count == 0 || s.PID == 0 || s.TID == 0 || s.Thread == nil || len(s.Frames) == 0 {
			ts.Fatalf("stack with a field missing: %+v", s)
		}
		for _, f := range s.Frames {
			checkFrame(ts, f)
			if isUnnamed(f) {
				unnamed += s.Count
			}
		}
		if slices.ContainsFunc(s.Frames, isLineless) {
			lineless += s.Count
		}
	}
	if most := max(maxLineless, samples/100); lineless > most {
		ts.Fatalf("samples with a line missing = %d, want %d at most", lineless, most)
	}
	if unnamed > *r.UnknownFrames {
		ts.Fatalf("JavaScript frames without a name = %d, want them to be among the %d that are unknown", unnamed, *r.UnknownFrames)
	}
	if samples != *r.Samples {
		ts.Fatalf("sum of counts = %d, want %d", samples, *r.Samples)
	}
}

// maxLineless is how many samples may lack a line, as those do that are taken when a
// program ends in a script of Node.js's that was not met before; or one percent, where V8
// collects most of the time.
const maxLineless = 2

func isLineless(f clitest.Frame) bool {
	return f.Kind == "js" && f.Line == 0 && f.Column == 0 && strings.HasPrefix(f.File, "node:") || isUnnamed(f)
}

// isUnnamed reports whether a function could not be read: then its address is its name.
func isUnnamed(f clitest.Frame) bool {
	return f.Kind == "js" && f.Name != nil && strings.HasPrefix(*f.Name, "0x") && f.File == ""
}

func checkFrame(ts *testscript.TestScript, f clitest.Frame) {
	switch f.Kind {
	case "js": // code made by eval and Function has no file; a stub's caller may be of any tier
		if f.Name == nil || *f.Name == "" || !isLineless(f) && (f.Line == 0 || f.Column == 0) {
			ts.Fatalf("JavaScript frame with a field missing: %+v", f)
		}
	case "runtime":
		if f.Name == nil || !strings.HasPrefix(*f.Name, "[") {
			ts.Fatalf("frame for what V8 does without a name in brackets: %+v", f)
		}
	case "regexp", "builtin", "typed", "native", "kernel":
		if f.Name == nil || *f.Name == "" && f.Module == "" {
			ts.Fatalf("frame without a name and module: %+v", f)
		}
	default:
		ts.Fatalf("unknown kind %q", f.Kind)
	}
}

func kind(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: [!] kind FILE KIND")
	}
	found := slices.ContainsFunc(decode(ts, args[0]).Stacks, func(s stack) bool {
		return slices.ContainsFunc(s.Frames, func(f clitest.Frame) bool { return f.Kind == args[1] })
	})
	if found == neg {
		ts.Fatalf("frames of kind %s: %v, want %v", args[1], found, !neg)
	}
}

func above(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: [!] above FILE NAME OTHER")
	}
	at := func(s stack, name string) int {
		return slices.IndexFunc(s.Frames, func(f clitest.Frame) bool { return *f.Name == name })
	}
	found := slices.ContainsFunc(decode(ts, args[0]).Stacks, func(s stack) bool {
		name := at(s, args[1])
		return name >= 0 && name < at(s, args[2])
	})
	if found == neg {
		ts.Fatalf("stacks with %s above %s: %v, want %v", args[1], args[2], found, !neg)
	}
}
