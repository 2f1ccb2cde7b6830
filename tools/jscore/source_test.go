package jscore

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/value"
)

// at returns the value at a path from the program's server.
func (l leaky) at(path string) v8.Value {
	l.t.Helper()
	slot, err := value.Lookup(l.Heap(), value.Slot{Value: l.of("Server")[0]}, path)
	if err != nil {
		l.t.Fatal(err)
	}
	return slot.Value
}

func testSources(t *testing.T, l leaky) {
	handle := l.function("handle")
	source, err := l.JSSource(handle, 0)
	like(t, textOf(t, source, err), `file: .*leaky.js

   \d\d   handle\(number\) {
   \d\d     const session = new Session\(this.bus, new Request\(number\)\);
.*
   \d\d     return session.id;
   \d\d   }
`)
	wide, err := l.JSSource(handle, 2)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(wide.Lines), len(source.Lines)+4; got != want {
		t.Errorf("lines with two before and after = %d, want %d", got, want)
	}
	if got := wide.Lines[2]; got != source.Lines[0] || got.Number != source.Line {
		t.Errorf("third line = %+v, want %+v, which is line %d", got, source.Lines[0], source.Line)
	}
	function, err := l.JSFunction(handle)
	like(t, textOf(t, function, err), `function: handle
    kind: method
    defined at: .*leaky.js line \d\d
    context: .*
    shared: [0-9a-f]+ \(SharedFunctionInfo: handle\)
`)
	shared := v8.Value(function.Rows[len(function.Rows)-1].Value.Address)
	again, err := l.JSSource(shared, 0)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(source.Lines, again.Lines); diff != "" {
		t.Errorf("lines by the shared function (-want +got):\n%s", diff)
	}
	if _, err := l.JSSource(l.at(""), 0); err == nil || !strings.Contains(err.Error(), "it is a JSObject, no JSFunction") {
		t.Errorf("error = %v, want that it is no function", err)
	}
}

func testConstructors(t *testing.T, l leaky) {
	for path, want := range map[string]string{"": "Server", "bus": "EventEmitter", "open": "Set", "bus._events.news": "Array"} {
		c, err := JSConstructor(l.Heap(), l.at(path), false)
		like(t, textOf(t, c, err), want+"\n")
		c, err = JSConstructor(l.Heap(), l.at(path), true)
		like(t, textOf(t, c, err), want+` \(JSFunction: [0-9a-f]+\)`+"\n")
		if got := value.BriefOf(l.Heap(), c.Addresses()[0]); string(got.Text) != want {
			t.Errorf("constructor = %v, want %s", got, want)
		}
	}
	if _, err := JSConstructor(l.Heap(), l.at("name"), false); err == nil {
		t.Error("constructor of a string has no error, want one")
	}
}

func testClosures(t *testing.T, l leaky) {
	closure, err := JSClosure(l.Heap(), l.at("bus._events.news.3"))
	like(t, textOf(t, closure, err), `function Session:
    "this": [0-9a-f]+: .*
function \(anonymous\):
.*    "server": [0-9a-f]+: .*`)
	if got := closure.Addresses(); len(got) < 3 || value.BriefOf(l.Heap(), got[0]).Class != "Session" {
		t.Errorf("captured = %x, want a Session first", got)
	}
	if _, err := JSClosure(l.Heap(), l.at("bus")); err == nil {
		t.Error("closure of an object has no error, want one")
	}
}

func testArrays(t *testing.T, l leaky) {
	listeners, err := JSArray(l.Heap(), l.at("bus._events.news"), false)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(listeners.Addresses()), 1000; got != want {
		t.Errorf("listeners = %d, want %d", got, want)
	}
	for i, v := range listeners.Values {
		if v.Index != i || v.Kind != "JSFunction" {
			t.Fatalf("element %d = %+v, want a JSFunction", i, v)
		}
	}
	listeners, err = JSArray(l.Heap(), l.at("bus._events.news"), true)
	like(t, textOf(t, listeners, err), ` +0: [0-9a-f]+ \(JSFunction: .*\)
 +1: .*`)
}

func testBuffers(t *testing.T, l leaky) {
	request := l.of("Request")[0]
	url, err := value.Lookup(l.Heap(), value.Slot{Value: request}, "url")
	if err != nil {
		t.Fatal(err)
	}
	text, _, err := l.Heap().Text(url.Value, -1)
	if err != nil {
		t.Fatal(err)
	}
	var number int
	if _, err := fmt.Sscanf(text, "/orders/%d", &number); err != nil {
		t.Fatal(err)
	}
	body, err := value.Lookup(l.Heap(), value.Slot{Value: request}, "body")
	if err != nil {
		t.Fatal(err)
	}
	buffer, err := l.NodeBuffer(body.Value, true)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(buffer.Bytes.Data), fmt.Sprintf("order=%d&quantity=%d", number, number%7); got != want {
		t.Errorf("bytes of %s = %q, want %q", text, got, want)
	}
	again, err := l.Bytes(uint64(buffer.Addresses()[0]), buffer.Length)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(buffer.Bytes, again); diff != "" {
		t.Errorf("bytes (-buffer +memory):\n%s", diff)
	}
}

func TestDumpMarksTheFirstByte(t *testing.T) {
	b := &Bytes{Address: 0x8db8c08, Data: []byte("\x00\x00\x00\x07options\x00\x00\x00\x04hi")}
	like(t, textOf(t, b, nil), `                0 1 2 3  4 5 6 7 \\/ 9 a b  c d e f  01234567v9abcdef
     8db8c00:                    00000007 6f707469          ....opti
     8db8c10:  6f6e7300 00000468 69                 ons....hi
`)
	b = &Bytes{Address: 0x10, Data: []byte("abc"), Error: "no memory there"}
	like(t, textOf(t, b, nil), `               \\/ 1 2 3  4 5 6 7  8 9 a b  c d e f  v123456789abcdef
          10:  616263                               abc
<bad>: no memory there
`)
}
