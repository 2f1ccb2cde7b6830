package main

import (
	"errors"
	"strings"
	"testing"

	"ustack/cmd/internal/cli"
	"ustack/symbolize/v8"
	"ustack/tools/jscore"
)

func TestAddressesAreHexadecimal(t *testing.T) {
	for text, want := range map[string]v8.Value{"1f3c9": 0x1f3c9, "0x1f3c9": 0x1f3c9, "0XA": 10, "10": 16, "0t10": 10, "0T255": 255, "0i101": 5, "0o17": 15, "ffffffffffffffff": 1<<64 - 1} {
		if got, err := parseAddress(text); err != nil || got != want {
			t.Errorf("address %s = %#x, %v, want %#x", text, uint64(got), err, uint64(want))
		}
	}
	for _, text := range []string{"", "0x", "0t", "0tff", "0i2", "0o8", "xyz", "-1", "1f3c9,10", "10000000000000000"} {
		if _, err := parseAddress(text); !errors.Is(err, cli.ErrUsage) {
			t.Errorf("address %q: error = %v, want one about usage", text, err)
		}
	}
}

func TestCountsAreMdbs(t *testing.T) {
	for text, want := range map[string]uint64{"10": 10, "0t10": 10, "0x10": 16, "0i11": 3, "1": 1} {
		if got, err := parseCount(text, new(session)); err != nil || got != want {
			t.Errorf("count %s = %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0", "0t0", "-1", "ten", "0tten"} {
		if _, err := parseCount(text, new(session)); !errors.Is(err, cli.ErrUsage) {
			t.Errorf("count %q: error = %v, want one about usage", text, err)
		}
	}
}

func TestObjectsMayBeGivenUntagged(t *testing.T) {
	const smi = 7 << 32
	for address, want := range map[v8.Value]v8.Value{0x1f3c8: 0x1f3c9, 0x1f3c9: 0x1f3c9, 0x1f3cb: 0x1f3cb, smi: smi, 0: 0} {
		if got := tagged(address); got != want {
			t.Errorf("tagged(%#x) = %#x, want %#x", uint64(address), uint64(got), uint64(want))
		}
	}
}

// TestExamplesCanBeRun prepares the commands of every example, as the prompt would.
func TestExamplesCanBeRun(t *testing.T) {
	all, examples := commands(), 0
	for _, c := range all {
		for _, line := range strings.Split(c.example, "\n") {
			if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "jscore ") { // for a shell
				continue
			}
			examples++
			statements, err := parse(line)
			if err != nil {
				t.Errorf("%s: %q: %v", c.name, line, err)
			}
			own := false
			for _, s := range statements {
				for i, call := range s.calls {
					stage, err := all.prepare(call, i > 0, nil)
					if err != nil {
						t.Errorf("%s: %q: %v", c.name, line, err)
						continue
					}
					own = own || stage.command.name == c.name
				}
			}
			if !own {
				t.Errorf("%s: the example %q does not use the command", c.name, line)
			}
		}
	}
	if examples < 10 {
		t.Errorf("examples = %d, want 10 or more", examples)
	}
}

func TestUsageIsWhatACommandTakes(t *testing.T) {
	for _, c := range commands() {
		if got := strings.Contains(c.usage, "ADDR") || strings.Contains(c.usage, "FP"); got != (c.input != noInput) {
			t.Errorf("%s: usage %q, and it takes addresses: %t", c.name, c.usage, c.input != noInput)
		}
		_, err := commands().prepare(call{name: c.name}, false, nil)
		if needs := c.input == required; needs != (err != nil && strings.Contains(err.Error(), "needs an address")) {
			t.Errorf("%s without arguments: error = %v, want one about an address: %t", c.name, err, needs)
		}
		if _, err := commands().prepare(call{name: c.name}, true, nil); (err != nil) != (c.input == noInput) {
			t.Errorf("%s in a pipeline: error = %v, want one: %t", c.name, err, c.input == noInput)
		}
	}
}

// TestHeapIsNeeded has a core in which no V8 was found.
func TestHeapIsNeeded(t *testing.T) {
	s, _, said := fakeSession(false)
	s.dump, s.commands = new(jscore.Dump), commands()
	for _, line := range []string{"jsprint 1f3c9", "findjsobjects", "jsretained", "v8print 1f3c9 ; strings"} {
		said.Reset()
		s.status = 0
		s.line(t.Context(), line)
		if s.status != cli.Failed || strings.Count(said.String(), "V8's heap cannot be read") < 1 {
			t.Errorf("%s: said %q with status %d, want that the heap cannot be read", line, said, s.status)
		}
	}
}
