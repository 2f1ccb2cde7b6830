package elfsym_test

import (
	"os"
	"testing"

	"ustack/symbolize/elfsym"
	"ustack/testdata/nodetest"
)

const newest = "26.10.0"

func BenchmarkOpen(b *testing.B) {
	path := nodetest.Node(b, newest)
	b.ReportAllocs()
	for b.Loop() {
		r, err := os.Open(path)
		if err != nil {
			b.Fatal(err)
		}
		f, err := elfsym.Open(r)
		if err != nil {
			b.Fatal(err)
		}
		f.Close()
	}
}

func BenchmarkLookup(b *testing.B) {
	f := open(b, nodetest.Node(b, newest))
	s, ok := f.Symbol("uv_run")
	if !ok {
		b.Fatal("no uv_run")
	}
	for b.Loop() {
		f.Lookup(s.Address + 3)
	}
}

func BenchmarkSymbol(b *testing.B) {
	f := open(b, nodetest.Node(b, newest))
	for b.Loop() {
		f.Symbol("v8dbg_FirstNonstringType")
	}
}

func BenchmarkSymbols(b *testing.B) {
	f := open(b, nodetest.Node(b, newest))
	for b.Loop() {
		for range f.Symbols("v8dbg_") {
		}
	}
}
