package value_test

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/value"
	"ustack/testdata/nodetest/calls"
	"ustack/tools/jscore"
)

// briefProgram keeps a value of each kind that is described in a way of its own.
const briefProgram = `class Kept { constructor(o) { Object.assign(this, o); } }
function plus(a, b) { return a + b; }
const left = 'the left part, which is long enough, and '.repeat(8), right = 'the right part'.repeat(2);
globalThis.kept = new Kept({
  small: -7, number: 1.5, text: 'ab"c', long: 'x'.repeat(300), nothing: null, yes: true, symbol: Symbol('tag'),
  plus, bound: plus.bind(null, 1), list: [1], map: new Map(), object: new Kept({}),
  joined: left + right, slice: left.slice(3, 40),
});
console.log('ready');
setInterval(() => {}, 1 << 30);`

// briefly returns the object that briefProgram keeps.
func briefly(t *testing.T, version string) (h *v8.Heap, member func(name string) v8.Value) {
	t.Helper()
	d := dumped(t, calls.StartSource(t, version, briefProgram).PID)
	g, err := d.Graph(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	groups := g.Census(t.Context(), jscore.CensusOptions{Class: "Kept", Live: true, Property: "small"}).Groups
	if len(groups) != 1 {
		t.Fatalf("objects of Kept are of %d groups, want one", len(groups))
	}
	kept := value.Slot{Value: v8.Value(groups[0].Address)}
	return d.Heap(), func(name string) v8.Value {
		slot, err := value.Lookup(d.Heap(), kept, name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return slot.Value
	}
}

func TestValuesAreDescribedBriefly(t *testing.T) {
	for _, version := range []string{"18.20.8", "26.10.0"} {
		t.Run(version, func(t *testing.T) {
			h, member := briefly(t, version)
			for name, want := range map[string]string{
				"small":   `SMI: value = -7`,
				"text":    `\w*String: "ab\\"c"`,
				"long":    `\w*String: "x{255}…"`,
				"nothing": `\w+: "null"`,
				"yes":     `\w+: "true"`,
				"symbol":  `Symbol: "tag"`,
				"plus":    `JSFunction: plus`,
				"bound":   `JSBoundFunction: bound plus`,
				"list":    `JSArray`,
				"map":     `JSMap`,
				"object":  `JSObject: Kept`,
			} {
				if got := value.BriefOf(h, member(name)).String(); !regexp.MustCompile("^" + want + "$").MatchString(got) {
					t.Errorf("%s = %s, want %s", name, got, want)
				}
			}
			checkBriefOfNothing(t, h)
			checkFunctions(t, h, member)
		})
	}
}

// checkBriefOfNothing describes words that are no values.
func checkBriefOfNothing(t *testing.T, h *v8.Heap) {
	t.Helper()
	for word, want := range map[v8.Value]string{0x11: "<bad>", 3: "cleared weak reference"} {
		if got := value.BriefOf(h, word).String(); got != want {
			t.Errorf("text of %#x = %q, want %q", uint64(word), got, want)
		}
	}
	var b strings.Builder
	if err := (value.Brief{Address: 0x2a, Kind: "SMI", Text: "21"}).WriteText(&b); err != nil || b.String() != "0x2a: SMI: value = 21\n" {
		t.Errorf("line = %q, %v", b.String(), err)
	}
}

// checkFunctions reads a function and one made of it by bind().
func checkFunctions(t *testing.T, h *v8.Heap, member func(string) v8.Value) {
	t.Helper()
	if got, want := value.Unbound(h, member("bound")), member("plus"); got != want {
		t.Errorf("target of the bound function = %#x, want %#x", uint64(got), uint64(want))
	}
	for _, name := range []string{"plus", "bound"} {
		if f, err := value.FunctionOf(h, member(name)); err != nil || f.Name != "plus" {
			t.Errorf("function of %s = %v, %v, want plus", name, f, err)
		}
	}
	if _, err := value.FunctionOf(h, member("list")); err == nil || err.Error() != "it is a JSArray, no JSFunction or SharedFunctionInfo" {
		t.Errorf("function of an array: %v, want an error that says what it is", err)
	}
}

func TestPartsOfStringsAreShown(t *testing.T) {
	h, member := briefly(t, "22.23.3")
	parts := value.Parts(h, member("joined"))
	if parts.Kind != "ConsString" || len(parts.Parts) != 2 || parts.Trouble != "" {
		t.Fatalf("parts = %+v, want two", parts)
	}
	length := parts.Parts[0].Length + parts.Parts[1].Length
	if parts.Length != length || parts.Text != "" {
		t.Errorf("length = %d, want %d, that of the parts", parts.Length, length)
	}
	var b bytes.Buffer
	if err := parts.Render(&b, ""); err != nil || !bytes.Contains(b.Bytes(), fmt.Appendf(nil, "ptr2: %s\n", parts.Parts[1].Address)) {
		t.Errorf("text = %v\n%s", err, b.Bytes())
	}
	slice := value.Parts(h, member("slice"))
	if slice.Kind != "SlicedString" || slice.Offset != 3 || slice.Length != 37 || len(slice.Parts) != 1 {
		t.Errorf("slice = %+v, want one of 37 characters from the third", slice)
	}
	if got := value.Parts(h, member("list")); got.Trouble != "no string" {
		t.Errorf("parts of an array = %+v, want trouble", got)
	}
}
