package jscore

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/heap"
	"ustack/symbolize/v8/value"
	"ustack/testdata/nodetest"
)

// leakyVersions are those on which V8's own objects in leaky.js are tested.
func leakyVersions() []string {
	if matrix() {
		return nodetest.Versions
	}
	return []string{anyVersion, "26.10.0"}
}

// A leaky is a core of leaky.js and what is known to be in it.
type leaky struct {
	*Dump
	t       *testing.T
	objects *Graph
}

// TestLeakyProgramIsUnderstood examines one core of each version in many ways.
func TestLeakyProgramIsUnderstood(t *testing.T) {
	for _, version := range leakyVersions() {
		t.Run(version, func(t *testing.T) {
			target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{Flags: nodetest.CalmFlags(version), Script: "leaky.js"})
			nodetest.WaitUntilIdle(t, target.PID)
			d := dumped(t, target.PID, Options{})
			graph, err := d.Graph(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, test := range []struct {
				name string
				run  func(t *testing.T, l leaky)
			}{
				{"objects", testObjects},
				{"functions", testFunctions},
				{"classes", testClasses},
				{"addresses", testAddresses},
				{"strings", testStrings},
				{"sources", testSources},
				{"constructors", testConstructors},
				{"closures", testClosures},
				{"arrays", testArrays},
				{"buffers", testBuffers},
				{"node", testNode},
				{"lists", testLists},
				{"references", testUgrep},
				{"status", testStatus},
			} {
				t.Run(test.name, func(t *testing.T) { test.run(t, leaky{d, t, graph}) })
			}
		})
	}
}

// of returns the objects of one of the program's own classes, without its prototype.
func (l leaky) of(class string) []v8.Value {
	l.t.Helper()
	var found []v8.Value
	for id := range heap.ID(l.objects.Len()) {
		o := l.objects.Object(id)
		if name, err := l.Heap().Class(o); o.Map.Kind != "JSObject" || err != nil || name != class {
			continue
		}
		if _, isPrototype, _ := l.Heap().Own(o, "constructor"); !isPrototype {
			found = append(found, o.Ref())
		}
	}
	if len(found) == 0 {
		l.t.Fatalf("objects of class %s = 0, want some", class)
	}
	return found
}

// function returns a function of that name.
func (l leaky) function(name string) v8.Value {
	l.t.Helper()
	for id := range heap.ID(l.objects.Len()) {
		o := l.objects.Object(id)
		if !l.Heap().IsFunction(o) {
			continue
		}
		if f, err := l.Heap().Function(o); err == nil && f.Name == name && f.Script != 0 && strings.HasSuffix(l.Script(f).Name, "leaky.js") {
			return o.Ref()
		}
	}
	l.t.Fatalf("no function %s", name)
	return 0
}

// textOf returns a result's text.
func textOf(t *testing.T, r Result, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// like checks that a text matches a pattern.
func like(t *testing.T, got, pattern string) {
	t.Helper()
	if !regexp.MustCompile("(?s)^" + pattern + "$").MatchString(got) {
		t.Errorf("text =\n%s\nwant it like\n%s", got, pattern)
	}
}

func testObjects(t *testing.T, l leaky) {
	h := l.Heap()
	server := l.of("Server")[0]
	for _, tt := range []struct {
		path, brief string
	}{
		{"", "JSObject: Server"},
		{"name", `(Internalized|SeqOneByte)String: "orders"`},
		{"served", "SMI: value = 1000"},
		{"bus", "JSObject: EventEmitter"},
		{"open", "JSSet"},
		{"bus._events.news", "JSArray"},
	} {
		slot, err := value.Lookup(h, value.Slot{Value: server}, tt.path)
		if err != nil {
			t.Fatal(err)
		}
		brief := value.BriefOf(h, slot.Value)
		like(t, brief.String(), tt.brief)
		like(t, textOf(t, brief, nil), fmt.Sprintf("0x%x: %s\n", uint64(slot.Value), tt.brief))
	}
	printed, err := l.V8Print(server)
	like(t, textOf(t, printed, err), `[0-9a-f]+ JSObject \{
    [0-9a-f]+ JSReceiver \{
        [0-9a-f]+ HeapObject \{
            [0-9a-f]+ map = [0-9a-f]+ \(Map\)
        \}
        [0-9a-f]+ raw_properties_or_hash = .*
    \}
    [0-9a-f]+ elements = [0-9a-f]+ \(FixedArray\)
.*\}
`)
	mapped, err := V8Map(h, server)
	like(t, textOf(t, mapped, err), `[0-9a-f]+: Map of JSObject
.*own properties: 4
.*"name": at offset 24
    "bus": at offset 32
    "open": at offset 40
    "served": at offset 48
`)
}

func testFunctions(t *testing.T, l leaky) {
	h := l.Heap()
	handle := l.function("handle")
	table, err := l.V8Function(handle)
	like(t, textOf(t, table, err), `[0-9a-f]+: JSFunction: handle
    defined at: .*leaky.js line \d\d
    context: [0-9a-f]+ \(.*Context.*
    shared: [0-9a-f]+ \(SharedFunctionInfo: handle\)
.*    script: [0-9a-f]+ \(Script: ".*leaky.js"\)
    code: [0-9a-f]+
    instructions: [0-9a-f]+ to [0-9a-f]+
    tier: .*
`)
	code, err := l.V8Code(handle)
	like(t, textOf(t, code, err), "[0-9a-f]+: JSFunction\n    code: .*tier: .*\n")
	listener, err := value.Lookup(h, value.Slot{Value: l.of("Server")[0]}, "bus._events.news.17")
	if err != nil {
		t.Fatal(err)
	}
	o, err := h.Object(listener.Value)
	if err != nil {
		t.Fatal(err)
	}
	context, err := h.FieldOf(o, "JSFunction", "context")
	if err != nil {
		t.Fatal(err)
	}
	table, err = V8Context(h, context)
	like(t, textOf(t, table, err), `[0-9a-f]+: \w*Context of a function scope
    function: Session
    previous context: [0-9a-f]+ \(.*Context\)
    slot \d: this: [0-9a-f]+ \(JSObject: Session\)
`)
	words, err := V8Array(h, v8.Value(context))
	if err == nil {
		table, err = V8Scope(h, v8.Value(words.Values[0].Address))
	}
	like(t, textOf(t, table, err), `[0-9a-f]+: ScopeInfo of a function scope
    function: Session
    position: \d+ to \d+
    context local 0: this
`)
}

func testClasses(t *testing.T, l leaky) {
	classes, err := l.V8Classes("", "")
	like(t, textOf(t, classes, err), ".*\nConsString\n.*\nJSFunction\n.*\nMap\n.*")
	classes, err = l.V8Classes("ConsString", "")
	like(t, textOf(t, classes, err), `ConsString < String
    16  first .*String
    24  second .*String
`)
	classes, err = l.V8Classes("ConsString", "second")
	like(t, textOf(t, classes, err), "ConsString < String\n    24  second .*String\n")
	if _, err := l.V8Classes("Nothing", ""); err == nil || !strings.HasPrefix(err.Error(), "find class Nothing: V8 ") {
		t.Errorf("error = %v, want that there is no such class", err)
	}
	types, err := l.V8Types()
	like(t, textOf(t, types, err), ".* 1057  JS_OBJECT_TYPE +JSObject\n.*")
	frames, err := l.V8FrameTypes()
	like(t, textOf(t, frames, err), "    1  EntryFrame\n.*InternalFrame\n.*")
	like(t, textOf(t, l.V8Isolates(), nil), fmt.Sprintf("[0-9a-f]+ threads %d.*\n", l.Info().PID))
}

func testAddresses(t *testing.T, l leaky) {
	server := l.of("Server")[0]
	for offset := range v8.Value(24) {
		got, err := l.Whatis(server - 1 + offset)
		if err != nil || got.Object == nil || v8.Value(got.Object.Address) != server {
			t.Errorf("at offset %d is %+v, %v, want %x", offset, got, err, uint64(server))
		}
	}
	inside, err := l.V8Whatis(server+8, 0)
	like(t, textOf(t, inside, err), fmt.Sprintf("%x\n", uint64(server)))
	if _, err := l.V8Whatis(server+8, 4); err == nil {
		t.Error("an object that begins 8 bytes before is found within 4")
	}
	inside, err = l.V8Whatis(server+8, 8)
	if err == nil {
		inside.Verbose = true
	}
	like(t, textOf(t, inside, err), `[0-9a-f]+ is at offset 8 in [0-9a-f]+ \(JSObject: Server\)
    in anonymous memory, [0-9a-f]+ to [0-9a-f]+
`)
	sp := l.Threads()[0].Registers.SP
	got, err := l.Whatis(v8.Value(sp))
	like(t, textOf(t, got, err), fmt.Sprintf(".*\n    in stack of thread %d, .*\n", l.Info().PID))
	got, err = l.Whatis(v8.Value(l.Threads()[0].Registers.PC))
	like(t, textOf(t, got, err), "[0-9a-f]+ is epoll_p?wait\n    in .*libc.*\n")
	if _, err := l.Whatis(8); err == nil {
		t.Error("what is at 8 has no error, want one")
	}
}

func testStrings(t *testing.T, l leaky) {
	h := l.Heap()
	slot, err := value.Lookup(h, value.Slot{Value: l.of("Server")[0]}, "bus._events.news.17")
	if err != nil {
		t.Fatal(err)
	}
	closure, err := JSClosure(h, slot.Value)
	if err != nil {
		t.Fatal(err)
	}
	url, err := value.Lookup(h, value.Slot{Value: closure.Addresses()[0]}, "request.url")
	if err != nil {
		t.Fatal(err)
	}
	s, err := V8Str(h, url.Value, false)
	like(t, textOf(t, s, err), "/orders/17\n")
	s, err = V8Str(h, url.Value, true)
	like(t, textOf(t, s, err), `[0-9a-f]+ \w+String
    length: 10
.*
/orders/17
`)
	if _, err := V8Str(h, closure.Addresses()[0], false); err == nil || !strings.Contains(err.Error(), "it is a JSObject") {
		t.Errorf("error = %v, want that it is no string", err)
	}
}
