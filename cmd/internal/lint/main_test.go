package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestImportsGoOneWay(t *testing.T) {
	packages := map[string][]string{
		"ustack/cmd/jsprof":              {"fmt", "ustack/tools/jsprof", "ustack/cmd/internal/cli"},
		"ustack/tools/jsprof":            {"ustack/tools/trace", "ustack/bpf", "ustack/tools/jsprof/internal/x"},
		"ustack/tools/stopon":            {"ustack/tools/jsprof"},
		"ustack/tools/profile":           {"ustack/symbolize", "ustack/tools/jsprof"},
		"ustack/loader":                  {"ustack/bpf"},
		"ustack/bpf":                     {"github.com/cilium/ebpf"},
		"ustack/symbolize/v8":            {"ustack/symbolize/v8/disasm", "ustack/symbolize/elfsym", "ustack/cmd/jsprof"},
		"ustack/symbolize/space":         {"ustack/symbolize/elfsym", "ustack/symbolize/v8"},
		"ustack/symbolize/v8/heap":       {"ustack/symbolize/space", "ustack/symbolize/v8", "ustack/symbolize/v8/stack"},
		"ustack/symbolize/v8/stack":      {"ustack/symbolize/v8/heap", "ustack/symbolize/process"},
		"ustack/tools/trace":             {"ustack/testdata/nodetest"},
		"ustack/testdata/nodetest":       {"ustack/symbolize"},
		"ustack/somewhere/of/its/own":    {"ustack/symbolize"},
		"ustack/cmd/addonlat":            {"ustack/tools/addonlat", "ustack/symbolize"},
		"ustack/cmd/internal/cli":        {"ustack/cmd/internal/clitest", "ustack/symbolize/v8"},
		"ustack/cmd/internal/clitest":    {"ustack/cmd/internal/cli", "ustack/testdata/nodetest", "ustack/loader"},
		"ustack/tools/jsprof/internal/x": {"ustack/tools/quantize"},
	}
	want := []string{
		"ustack/cmd/internal/cli must not import ustack/cmd/internal/clitest",
		"ustack/cmd/internal/clitest must not import ustack/loader",
		"ustack/loader must not import ustack/bpf",
		"ustack/somewhere/of/its/own must not import ustack/symbolize",
		"ustack/symbolize/space must not import ustack/symbolize/v8",
		"ustack/symbolize/v8 must not import ustack/cmd/jsprof",
		"ustack/symbolize/v8/heap must not import ustack/symbolize/v8/stack",
		"ustack/symbolize/v8/stack must not import ustack/symbolize/process",
		"ustack/tools/profile must not import ustack/tools/jsprof",
		"ustack/tools/stopon must not import ustack/tools/jsprof",
		"ustack/tools/trace must not import ustack/testdata/nodetest",
	}
	if diff := cmp.Diff(want, violations(packages)); diff != "" {
		t.Errorf("violations (-want +got):\n%s", diff)
	}
}

func TestPackagesAreInGroups(t *testing.T) {
	for path, want := range map[string]string{
		"ustack/cmd/jsprof": "cmd", "ustack/cmd/internal/cli": "cmd", "ustack/cmd/internal/clitest": "clitest",
		"ustack/tools/stopon": "tool", "ustack/tools/jsprof/internal/x": "tool", "ustack/tools/profile": "library",
		"ustack/symbolize/v8/heap": "symbolize", "ustack/bpf": "bpf", "ustack/testdata/nodetest/calls": "testdata",
	} {
		if got := group(path); got != want {
			t.Errorf("group(%s) = %q, want %q", path, got, want)
		}
	}
}

// TestRulesAreAboutPackagesThatExist: a rule about another name would never apply.
func TestRulesAreAboutPackagesThatExist(t *testing.T) {
	t.Chdir("../../..")
	packages, err := list()
	if err != nil {
		t.Fatal(err)
	}
	exists := func(name string) {
		t.Helper()
		if _, ok := packages[module+name]; !ok {
			t.Errorf("a rule is about %s, which does not exist", name)
		}
	}
	for importer, imported := range below {
		exists(importer)
		for _, name := range imported {
			exists(name)
		}
	}
	for _, name := range tools {
		exists("tools/" + name)
	}
	if wrong := violations(packages); len(wrong) > 0 {
		t.Errorf("violations = %q, want none", wrong)
	}
}
