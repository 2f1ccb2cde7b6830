package jscore

import (
	"strings"
	"testing"

	"ustack/testdata/nodetest/calls"

	"ustack/symbolize"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/release"
	"ustack/symbolize/v8/verify"
	"ustack/testdata/nodetest"
)

// maxLost is how many bytes of a page may belong to no object: memory that V8 reserved
// for its next objects still holds the previous ones.
const maxLost = 1 << 18

// attached takes a snapshot of a process and opens it.
func attached(t *testing.T, pid int) *Dump {
	t.Helper()
	d, err := Attach(t.Context(), pid, Options{})
	if err != nil {
		t.Fatalf("Attach: %v", err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return d
}

// startNewer starts a Node.js whose V8 reports version 15.0, and returns what it should
// be seen to run.
func startNewer(t *testing.T) calls.Chain {
	t.Helper()
	const version, tier = "26.10.0", symbolize.Turbofan
	flags, _ := nodetest.TierFlags(version, tier)
	target := nodetest.Start(t, nodetest.NodeOfV8(t, version, 15, 0), nodetest.Options{
		Flags: flags, Script: "postmortem_stack.js", Args: []string{"--tier=" + tier.String()},
	})
	var c calls.Chain
	target.Facts(&c)
	return c
}

// missing returns the line about something a dump lacks that contains text.
func missing(d *Dump, text string) string {
	for _, m := range d.Missing() {
		if strings.Contains(m.String(), text) {
			return m.String()
		}
	}
	return ""
}

func newestRelease() release.Release {
	all := release.All()
	return *all[len(all)-1]
}

// TestNewerV8IsReadIfItIsLaidOutAlike examines a process with a V8 that no known release has.
func TestNewerV8IsReadIfItIsLaidOutAlike(t *testing.T) {
	c := startNewer(t)
	d := attached(t, c.PID)
	const warning = "V8 15.0.202.34 has a layout not known here"
	if got := missing(d, warning); len(d.Missing()) != 1 || !strings.Contains(got, "read as that of Node.js 26") {
		t.Errorf("missing = %v, want %q only", d.Missing(), warning)
	}
	calls.Check(t, d.Unwinder, c, d.Threads()[0])
}

// TestNewerV8IsRefusedIfItIsLaidOutOtherwise reads a process with layouts that are not
// its own.
func TestNewerV8IsRefusedIfItIsLaidOutOtherwise(t *testing.T) {
	d := attached(t, startNewer(t).PID)
	for _, tt := range []struct {
		name, want string
		shift      func(*release.Release)
	}{
		{"types", "instance types: type", func(r *release.Release) { r.Types = map[string]uint16{"HashTable": r.Types["TransitionArray"] + 2} }},
		{"owner of pages", "pages: none of 0 pages", func(r *release.Release) { r.Pages.Owner += 8 }},
		{"names of spaces", "pages: none of", func(r *release.Release) { r.Pages.Spaces = r.Pages.Spaces[1:] }},
		{"bytecode", "objects:", func(r *release.Release) { r.Sizes.BytecodeArray += 8 }},
		{"descriptors", "objects:", func(r *release.Release) { r.Sizes.DescriptorArray -= 8 }},
		{"positions of scopes", "functions of Node.js:", func(r *release.Release) { r.Scopes.Positions++ }},
		{"nothing", "", func(*release.Release) {}},
	} {
		r := newestRelease()
		tt.shift(&r)
		var err error
		if d.v8.Binary, err = v8.InspectAs(d.v8.Module.ELF, &r); err != nil {
			t.Fatal(err)
		}
		if d.v8.Heap, err = v8.NewHeap(d, d.v8.Binary); err != nil {
			t.Fatal(err)
		}
		subject := verify.Subject{Memory: d, Binary: d.v8.Binary, File: d.v8.Module.ELF, Bias: d.v8.Module.Bias}
		_, err = verify.Layout(t.Context(), subject, verify.Check{Name: "stacks", Holds: d.checkStacks})
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s shifted: %v, want %q", tt.name, err, tt.want)
		}
	}
	r := newestRelease()
	r.Scopes.Positions++
	d.v8.Binary, _ = v8.InspectAs(d.v8.Module.ELF, &r)
	d.v8.Heap, _ = v8.NewHeap(d, d.v8.Binary)
	d.missing = nil
	d.settle(t.Context())
	if got := missing(d, "V8 15.0.202.34"); d.v8.Binary != nil || !strings.Contains(got, "not laid out as in Node.js 26") {
		t.Errorf("missing = %v, want that V8 is not laid out alike", d.Missing())
	}
}

// TestNewReleaseNeedsItsFileOnly adds a release that does not exist, as the file for a
// new one does, and examines a live process of it.
func TestNewReleaseNeedsItsFileOnly(t *testing.T) {
	made := newestRelease()
	made.Version, made.Node = release.Version{Major: 15}, "27"
	t.Cleanup(release.Register(made))
	c := startNewer(t)
	d := attached(t, c.PID)
	if len(d.Missing()) > 0 {
		t.Errorf("missing: %v, want nothing", d.Missing())
	}
	calls.Check(t, d.Unwinder, c, d.Threads()[0])
	g, err := d.Graph(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if g.Doubts.Loose || g.Doubts.Overlong > 0 || g.Doubts.Dangling > 0 || g.Doubts.Lost > maxLost {
		t.Errorf("doubts = %+v, want none", g.Doubts)
	}
}
