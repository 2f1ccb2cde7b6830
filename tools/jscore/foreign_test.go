package jscore

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"ustack/symbolize/process"
	"ustack/testdata/nodetest"
	"ustack/testdata/nodetest/calls"
	"ustack/tools/core"
)

// Names of the files of TestCoresCrossArchitectures.
const (
	chainName  = "chain"
	censusName = "census"
)

// TestCoresCrossArchitectures writes cores on one architecture, with what the programs say of
// themselves, and reads them on another: see make test-arm64.
func TestCoresCrossArchitectures(t *testing.T) {
	to, from := os.Getenv("USTACK_CORES_TO"), os.Getenv("USTACK_CORES_FROM")
	if to == "" && from == "" {
		t.Skip("USTACK_CORES_TO=FOLDER writes cores, and USTACK_CORES_FROM=FOLDER reads those of another machine")
	}
	if to != "" {
		t.Run("written", func(t *testing.T) { writeCores(t, to) })
	}
	if from != "" {
		t.Run("read", func(t *testing.T) { readCores(t, from) })
	}
}

func writeCores(t *testing.T, dir string) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	node := nodetest.Node(t, anyVersion)
	for name, o := range map[string]nodetest.Options{
		chainName:  {Script: "postmortem_stack.js"},
		censusName: {Script: "census.js", Args: []string{"1000", "500"}},
	} {
		target := nodetest.Start(t, node, o)
		if err := os.WriteFile(filepath.Join(dir, name+".json"), target.Ready, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := core.Write(t.Context(), target.PID, filepath.Join(dir, name+".core.zst"), core.Options{}); err != nil {
			t.Fatal(err)
		}
		keepLibraries(t, target.PID, dir)
		target.Stop()
	}
}

// keepLibraries copies the libraries of a process.
func keepLibraries(t *testing.T, pid int, dir string) {
	t.Helper()
	p, err := process.Open(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	maps, err := p.Maps()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range maps {
		if !m.Perms.Exec() || !strings.Contains(filepath.Base(m.Path), ".so") {
			continue
		}
		text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/root" + m.Path)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.Base(m.Path)), text, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func readCores(t *testing.T, dir string) {
	read := func(name string, facts any) *Dump {
		text, err := os.ReadFile(filepath.Join(dir, name+".json"))
		if err == nil {
			err = json.Unmarshal(text, facts)
		}
		if err != nil {
			t.Fatal(err)
		}
		d := opened(t, filepath.Join(dir, name+".core.zst"), Options{Folders: []string{dir}})
		if len(d.Missing()) != 0 {
			t.Errorf("%s: missing: %v, want nothing", name, d.Missing())
		}
		return d
	}
	var c calls.Chain
	d := read(chainName, &c)
	calls.Check(t, d.Unwinder, c, d.Threads()[0])

	var facts censusFacts
	d = read(censusName, &facts)
	if d.core.Machine() == core.Machine() {
		t.Errorf("the core is of this architecture, %v", core.Machine())
	}
	g, err := d.Graph(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, class := range facts.Classes {
		live := 0
		for _, group := range g.Census(t.Context(), CensusOptions{Class: class, Live: true}).Groups {
			live += group.Live
		}
		if want := counted(class, facts.Keep); live != want {
			t.Errorf("live objects of %s = %d, want %d", class, live, want)
		}
	}
}
