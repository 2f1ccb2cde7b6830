package value

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func number(n int) *Node { return &Node{Type: "number", Text: strconv.Itoa(n)} }

func element(index int, n *Node) Member {
	return Member{Name: strconv.Itoa(index), Kind: "element", Value: n}
}

func array(length int, members ...Member) *Node {
	return &Node{Type: "array", Class: "Array", Length: length, Members: members}
}

func TestRender(t *testing.T) {
	text := &Node{Type: "string", Text: "a \"b\"\n", Length: 6}
	tests := []struct {
		name string
		node *Node
		want string
	}{
		{"number", number(-7), "-7"},
		{"string", text, `"a \"b\"\n"`},
		{"cut string", &Node{Type: "string", Text: "abc", Length: 10, More: 7}, `"abc"... (7 more)`},
		{"empty object", &Node{Type: "object", Class: "Object"}, "{}"},
		{"deep object", &Node{Type: "object", Class: "Server", Hidden: true}, "Server {...}"},
		{"object", &Node{Type: "object", Class: "Point", Members: []Member{
			{Name: "x", Value: number(1)},
			{Name: "tag", Kind: "symbol", Value: text},
			{Name: "of", Kind: "slot", Value: &Node{Type: "object", Class: "Object", Members: []Member{{Name: "y", Value: number(2)}}}},
		}}, "Point {\n    \"x\": 1,\n    [tag]: \"a \\\"b\\\"\\n\",\n    <of>: {\n        \"y\": 2,\n    },\n}"},
		{"empty array", array(0), "[]"},
		{"short array", array(2, element(0, number(1)), element(1, text)), `[ 1, "a \"b\"\n" ]`},
		{
			"array with holes", array(9, element(1, number(1)), element(4, number(2))),
			"[\n    <1 holes>,\n    1,\n    <2 holes>,\n    2,\n    <4 holes>,\n]",
		},
		{
			"cut array", &Node{Type: "array", Class: "Array", Length: 3, More: 2, Members: []Member{element(0, number(1))}},
			"[\n    1,\n    ... (2 more)\n]",
		},
		{"array of a class", &Node{Type: "array", Class: "List", Length: 1, Members: []Member{element(0, number(1))}}, "List(1) [ 1 ]"},
		{
			"Map", &Node{Type: "object", Class: "Map", Length: 1, Members: []Member{{Kind: "entry", Key: text, Value: number(1)}}},
			"Map(1) {\n    \"a \\\"b\\\"\\n\" => 1,\n}",
		},
		{"Set", &Node{Type: "object", Class: "Set", Length: 1, Members: []Member{{Kind: "entry", Value: number(1)}}}, "Set(1) {\n    1,\n}"},
		{"function", &Node{Type: "function", Text: "function f"}, "function f"},
		{
			"function with properties", &Node{Type: "function", Text: "function f", Members: []Member{{Name: "a", Value: number(1)}}},
			"function f {\n    \"a\": 1,\n}",
		},
		{"trouble", &Node{Type: "object", Class: "Object", Trouble: "no\nmemory"}, "{\n    <bad: no; memory>\n}"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got strings.Builder
			if err := tt.node.Render(&got, TextOptions{}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want+"\n", got.String()); diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRenderAddresses(t *testing.T) {
	n := array(1, element(0, &Node{Type: "object", Class: "Object", Address: 0x2b1, Hidden: true}))
	n.Address = 0x1a1
	var got strings.Builder
	if err := n.Render(&got, TextOptions{Addresses: true}); err != nil {
		t.Fatal(err)
	}
	if want := "1a1: [\n    2b1: {...},\n]\n"; got.String() != want {
		t.Errorf("text = %q, want %q", got.String(), want)
	}
}

func TestFormatNumber(t *testing.T) {
	for want, f := range map[string]float64{
		"0": 0, "-0": math.Copysign(0, -1), "NaN": math.NaN(), "Infinity": math.Inf(1), "-Infinity": math.Inf(-1),
		"0.1": 0.1, "-1.5": -1.5, "4294967296": 1 << 32, "1e+21": 1e21, "123456789012345680000": 123456789012345680000,
		"0.000001": 1e-6, "1e-7": 1e-7, "-2.5e-10": -2.5e-10, "1.7976931348623157e+308": math.MaxFloat64, "5e-324": 5e-324,
	} {
		if got := FormatNumber(f); got != want {
			t.Errorf("%g = %q, want %q", f, got, want)
		}
	}
}

func TestSplitPath(t *testing.T) {
	for path, want := range map[string][]string{"": {}, "a": {"a"}, "a.b.0": {"a", "b", "0"}, "list[3].name": {"list", "3", "name"}} {
		if diff := cmp.Diff(want, splitPath(path)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", path, diff)
		}
	}
}
