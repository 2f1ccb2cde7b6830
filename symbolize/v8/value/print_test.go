package value_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/stack"
	"ustack/symbolize/v8/value"
	"ustack/testdata/nodetest"
	"ustack/tools/jscore"
)

// printFacts is what print.js reports about itself.
type printFacts struct {
	Plain map[string]any    `json:"plain"`
	Texts map[string]string `json:"texts"`
}

// kept returns a core of print.js with the two values that it keeps.
func kept(t *testing.T, version string) (d *jscore.Dump, plain, awkward v8.Value, facts printFacts) {
	t.Helper()
	target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{Script: "print.js"})
	target.Facts(&facts)
	d = dumped(t, target.PID)
	frames := d.Stack(d.Threads()[0]).Frames
	at := slices.IndexFunc(frames, func(f stack.Frame) bool { return f.Name == "keep" })
	if at < 0 || len(frames[at].Call.Arguments) != 2 {
		t.Fatalf("no frame of keep with two arguments among %d", len(frames))
	}
	arguments := frames[at].Call.Arguments
	return d, arguments[0], arguments[1], facts
}

// asJSON converts a description to what encoding/json would decode.
func asJSON(t *testing.T, n *value.Node) any {
	t.Helper()
	if n.Trouble != "" || n.More > 0 {
		t.Errorf("%s of class %s: %d more, trouble %q", n.Type, n.Class, n.More, n.Trouble)
	}
	switch n.Type {
	case "number":
		f, err := strconv.ParseFloat(n.Text, 64)
		if err != nil {
			t.Error(err)
		}
		return f
	case "string":
		return n.Text
	case "boolean":
		return n.Text == "true"
	case "null":
		return nil
	case "array":
		list := make([]any, 0, n.Length)
		for _, m := range n.Members {
			list = append(list, asJSON(t, m.Value))
		}
		return list
	case "object":
		object := map[string]any{}
		for _, m := range n.Members {
			object[m.Name] = asJSON(t, m.Value)
		}
		return object
	}
	t.Errorf("type %s (%s) in plain data", n.Type, n.Text)
	return nil
}

// TestPrintEqualsTheProgramsOwnWords compares values of every kind with what the program
// that created them prints.
func TestPrintEqualsTheProgramsOwnWords(t *testing.T) {
	for _, version := range nodetest.Versions {
		t.Run(fmt.Sprintf("node%d", nodetest.Major(version)), func(t *testing.T) {
			d, plain, awkward, facts := kept(t, version)
			h := d.Heap()
			got := asJSON(t, value.Describe(h, value.Slot{Value: plain}, value.Options{Depth: 20}))
			if diff := cmp.Diff(any(facts.Plain), got); diff != "" {
				t.Errorf("plain data (-want +got):\n%s", diff)
			}
			for name, want := range facts.Texts {
				checkPrinted(t, h, awkward, name, want)
			}
		})
	}
}

func checkPrinted(t *testing.T, h *v8.Heap, v v8.Value, path, want string) {
	t.Helper()
	p, err := jscore.Print(h, v, jscore.PrintOptions{Options: value.Options{Depth: jscore.DefaultDepth}, Paths: []string{path}})
	if err != nil {
		t.Errorf("%s: %v", path, err)
		return
	}
	var got strings.Builder
	if err := p.WriteText(&got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want+"\n", got.String()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// TestPrintBounds checks what jsprint leaves out, and what it says about that.
func TestPrintBounds(t *testing.T) {
	d, plain, awkward, _ := kept(t, "22.23.3")
	h := d.Heap()
	options := func(o jscore.PrintOptions, paths ...string) jscore.PrintOptions {
		o.Paths = paths
		return o
	}
	for _, tt := range []struct {
		options jscore.PrintOptions
		want    string
	}{
		{options(jscore.PrintOptions{}, "nested"), "{...}\n"},
		{options(jscore.PrintOptions{Options: value.Options{Depth: 1}}, "nested"), "{\n    \"a\": {...},\n}\n"},
		{options(jscore.PrintOptions{Options: value.Options{Depth: 1, Members: 1}}, "doubles"), "[\n    0.5,\n    ... (2 more)\n]\n"},
		{options(jscore.PrintOptions{}, "nested.a.b.c.d.e"), "\"deep\"\n"},
		{options(jscore.PrintOptions{}, "mixed[1]", "mixed.length"), "mixed[1]: \"two\"\nmixed.length: 7\n"},
	} {
		p, err := jscore.Print(h, plain, tt.options)
		if err != nil {
			t.Errorf("%v: %v", tt.options.Paths, err)
			continue
		}
		var got strings.Builder
		if err := p.WriteText(&got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, got.String()); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tt.options.Paths, diff)
		}
	}
	if _, err := jscore.Print(h, awkward, options(jscore.PrintOptions{}, "nonesuch")); err == nil {
		t.Error("a member that is not there was found")
	}
	p, err := jscore.Print(h, plain, jscore.PrintOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]v8.Value{plain}, p.Addresses()); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
	if text, err := json.Marshal(p); err != nil || !strings.Contains(string(text), `"type":"object"`) {
		t.Errorf("JSON = %s, %v", text, err)
	}
}

// dumped takes a snapshot of a live process.
func dumped(t *testing.T, pid int) *jscore.Dump {
	t.Helper()
	d, err := jscore.Attach(t.Context(), pid, jscore.Options{})
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
