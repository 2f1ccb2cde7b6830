package value_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/value"
	"ustack/testdata/nodetest/calls"
	"ustack/tools/jscore"
)

// describedProgram keeps objects of kinds that store their contents elsewhere.
const describedProgram = `class Kept { constructor(o) { Object.assign(this, o); } }
const target = { answer: 42 };
function plus(a, b) { return a + b; }
function* numbers() { yield 1; }
const waiting = numbers();
waiting.next();
globalThis.kept = new Kept({
  proxy: new Proxy(target, {}), bound: plus.bind(target, 1), waiting,
  weak: new WeakRef(target), bytes: new Uint8Array([1, 2, 250]), wide: new BigUint64Array([1n << 63n]),
  view: new DataView(new ArrayBuffer(8)), buffer: Buffer.from('text').buffer.slice(0, 2),
  rejected: (() => { const p = Promise.reject(7); p.catch(() => {}); return p; })(),
  getter: Object.defineProperty({}, 'x', { get() { return 1; }, enumerable: true }),
});
console.log('ready');
setInterval(() => {}, 1 << 30);`

// keptObject returns the object that the program keeps.
func keptObject(t *testing.T, version string) (*v8.Heap, value.Slot) {
	t.Helper()
	d := dumped(t, calls.StartSource(t, version, describedProgram).PID)
	g, err := d.Graph(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	groups := g.Census(t.Context(), jscore.CensusOptions{Class: "Kept", Live: true, Property: "proxy"}).Groups
	if len(groups) != 1 {
		t.Fatalf("objects of Kept are of %d groups, want one", len(groups))
	}
	return d.Heap(), value.Slot{Value: v8.Value(groups[0].Address)}
}

func TestContentsThatAreElsewhere(t *testing.T) {
	for _, version := range []string{"18.20.8", "26.10.0"} {
		t.Run(version, func(t *testing.T) {
			h, kept := keptObject(t, version)
			for path, want := range map[string]string{
				"proxy.target.answer": "42",
				"bound.target":        "function plus",
				"weak.target.answer":  "42",
				"bytes.2":             "250",
				"wide.0":              "9223372036854775808n",
				"view.byteLength":     "8",
				"rejected.reason":     "7",
			} {
				slot, err := value.Lookup(h, kept, path)
				if err != nil {
					t.Errorf("%s: %v", path, err)
					continue
				}
				if got := value.Describe(h, slot, value.Options{}).Text; got != want {
					t.Errorf("%s = %q, want %q", path, got, want)
				}
			}
		})
	}
}

func TestWhatIsNotThereIsNotFound(t *testing.T) {
	h, kept := keptObject(t, "22.23.3")
	for _, path := range []string{"none", "getter.x", "bytes.3"} {
		if got, err := value.Lookup(h, kept, path); !errors.Is(err, value.ErrNoMember) {
			t.Errorf("%s = %+v, %v, want %v", path, got, err, value.ErrNoMember)
		}
	}
	for _, path := range []string{"bytes.1.more", "getter.x.y"} {
		if got, err := value.Lookup(h, kept, path); err == nil {
			t.Errorf("%s = %+v, want an error", path, got)
		}
	}
	bad := value.Describe(h, value.Slot{Value: v8.Ref(8)}, value.Options{})
	if bad.Type != "bad" || bad.Trouble == "" || bad.Text != "<bad 9>" {
		t.Errorf("an object at 8 is %+v, want a bad one", bad)
	}
	whole := value.Describe(h, kept, value.Options{Depth: 1, Members: 2})
	if whole.Class != "Kept" || len(whole.Members) != 2 || whole.More != 8 {
		t.Errorf("class %s with %d members and %d more, want Kept with 2 and 8", whole.Class, len(whole.Members), whole.More)
	}
	var text bytes.Buffer
	slot, err := value.Lookup(h, kept, "bytes")
	if err != nil {
		t.Fatal(err)
	}
	if err := value.Describe(h, slot, value.Options{Depth: 1, Members: 2}).Render(&text, value.TextOptions{}); err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(text.Bytes(), []byte("more)")) {
		t.Errorf("text = %q, want that there is more", text.String())
	}
	if diff := cmp.Diff("function plus", value.Describe(h, lookup(t, h, kept, "bound.target"), value.Options{}).Text); diff != "" {
		t.Errorf("target (-want +got):\n%s", diff)
	}
}

func lookup(t *testing.T, h *v8.Heap, s value.Slot, path string) value.Slot {
	t.Helper()
	found, err := value.Lookup(h, s, path)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return found
}
