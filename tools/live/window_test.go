package live

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ustack/symbolize"
	"ustack/tools/profile"
)

var (
	a      = symbolize.Frame{Kind: symbolize.JS, Name: "a", File: "/srv/App.js", Line: 1}
	b      = symbolize.Frame{Kind: symbolize.JS, Name: "b", File: "/srv/app.js", Line: 2}
	malloc = symbolize.Frame{Kind: symbolize.Native, Name: "malloc", Module: "/lib/libc.so.6"}
	stub   = symbolize.Frame{Kind: symbolize.Typed, Name: "<< entry >>"}
)

// second returns a second's samples, from second n on.
func second(n int, stacks ...profile.Stack) *profile.Profile {
	p := &profile.Profile{Start: time.Unix(int64(n), 0), Duration: time.Second, Stacks: stacks}
	for _, s := range stacks {
		p.Total += s.Value
	}
	return p
}

// sampled is a stack, leaf first, that was sampled so often.
func sampled(count uint64, frames ...symbolize.Frame) profile.Stack {
	return profile.Stack{Value: count, Frames: frames}
}

// rows returns a table's rows as text.
func rows(t Table) []string {
	var lines []string
	for _, r := range t.Rows {
		lines = append(lines, fmt.Sprintf("%s %d %d", r.Name, r.Self, r.Total))
	}
	return lines
}

func TestTable(t *testing.T) {
	w := NewWindow(10 * time.Second)
	w.Add(second(1, sampled(2, malloc, stub, b, a), sampled(1, a)))
	w.Add(second(2, sampled(3, b, a, b, a), sampled(4, malloc)))
	for _, tt := range []struct {
		v    View
		want []string
	}{
		{View{BySelf: true}, []string{"malloc 6 6", "b 3 5", "a 1 6"}},
		{View{}, []string{"malloc 6 6", "a 1 6", "b 3 5"}},
		{View{BySelf: true, JavaScript: true}, []string{"b 5 5", "[no javascript] 4 4", "a 1 6"}},
		{View{Filter: "APP.JS"}, []string{"a 1 6", "b 3 5"}},
		{View{Filter: "libc"}, []string{"malloc 6 6"}},
		{View{Filter: "nothing"}, nil},
	} {
		got := w.Table(tt.v)
		if diff := cmp.Diff(tt.want, rows(got)); diff != "" || got.Total != 10 {
			t.Errorf("%+v: total %d, want 10 (-want +got):\n%s", tt.v, got.Total, diff)
		}
	}
}

func TestCallersAndCallees(t *testing.T) {
	w := NewWindow(10 * time.Second)
	w.Add(second(1, sampled(2, malloc, stub, b, a), sampled(1, malloc, a), sampled(3, b, a, b, a), sampled(5, a, a), sampled(7, malloc)))
	for _, tt := range []struct {
		f                symbolize.Frame
		v                View
		callers, callees []string
	}{
		{a, View{Filter: "left out"}, []string{"b 0 3"}, []string{"b 3 5", "malloc 1 1"}},
		{b, View{BySelf: true}, []string{"a 0 5"}, []string{"a 0 3", "malloc 2 2"}},
		{malloc, View{}, []string{"b 0 2", "a 0 1"}, nil},
		{b, View{JavaScript: true}, []string{"a 0 5"}, []string{"a 0 3"}},
		{stub, View{}, nil, nil},
	} {
		callers, callees := w.Around(of(tt.f), tt.v)
		if diff := cmp.Diff(tt.callers, rows(callers)); diff != "" {
			t.Errorf("callers of %s, %+v (-want +got):\n%s", tt.f.Name, tt.v, diff)
		}
		if diff := cmp.Diff(tt.callees, rows(callees)); diff != "" {
			t.Errorf("callees of %s, %+v (-want +got):\n%s", tt.f.Name, tt.v, diff)
		}
	}
}

func TestWindowForgets(t *testing.T) {
	w := NewWindow(3 * time.Second)
	for n := range 5 {
		w.Add(second(n, sampled(uint64(1)<<n, a)))
	}
	if got, want := w.Table(View{}).Total, uint64(4+8+16); got != want {
		t.Errorf("samples of the last 3 s = %d, want %d", got, want)
	}
	if got := w.Span(); got != 3*time.Second {
		t.Errorf("span = %v, want 3s", got)
	}
	w.Add(second(100))
	if got := w.Table(View{}).Total; got != 0 {
		t.Errorf("samples after a long pause = %d, want 0", got)
	}
}

func TestFunctionsAreBounded(t *testing.T) {
	w := NewWindow(time.Hour)
	for n := range 3 {
		var stacks []profile.Stack
		for i := range maxFunctions / 2 {
			f := a
			f.Line, f.Column = i+1, n+1
			stacks = append(stacks, sampled(1, f, b))
		}
		w.Add(second(n, stacks...))
	}
	if got := len(w.functions); got > 2*maxFunctions {
		t.Errorf("functions = %d, want %d at most", got, 2*maxFunctions)
	}
	if got := len(w.Table(View{}).Rows); got < maxFunctions/2 {
		t.Errorf("rows = %d, want those of the last second at least", got)
	}
}
