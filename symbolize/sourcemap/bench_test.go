package sourcemap

import (
	"bytes"
	"runtime"
	"strings"
	"testing"
)

// hugeMap returns a map of about that many bytes, half of it mappings and the rest the
// sources' text, as bundlers write it.
func hugeMap(size int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"version":3,"sources":["a.ts","b.ts"],"names":["first","second"],"sourcesContent":["`)
	b.WriteString(strings.Repeat(`const x = 1;\n`, size/2/14))
	b.WriteString(`",""],"mappings":"AAAA`)
	for i := 0; b.Len() < size; i++ {
		if i%200 == 0 {
			b.WriteString(";AAAA")
		}
		b.WriteString(",EAAEA,GAAGC,IACLD")
	}
	b.WriteString(`"}`)
	return b.Bytes()
}

const hugeBytes = 30 << 20

// TestHugeMapIsCheap bounds what a map of 30 MB takes to read.
func TestHugeMapIsCheap(t *testing.T) {
	const most = 200 << 20
	data := hugeMap(hugeBytes)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	m, err := Parse(data, "/")
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated+uint64(len(data)) > most {
		t.Errorf("allocated %d MB besides %d MB of text, want %d together at most", allocated>>20, len(data)>>20, most>>20)
	}
	if m.Size() > len(data)/2+len(data)/10 {
		t.Errorf("a map of %d bytes takes %d", len(data), m.Size())
	}
}

func BenchmarkParse(b *testing.B) {
	data := hugeMap(hugeBytes)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(data, "/"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOriginal(b *testing.B) {
	m, err := Parse(hugeMap(hugeBytes), "/")
	if err != nil {
		b.Fatal(err)
	}
	for i := 0; b.Loop(); i++ {
		m.Original(2+i%1000, 1+i%500)
	}
}

func BenchmarkFunction(b *testing.B) {
	m, err := Parse(hugeMap(hugeBytes), "/")
	if err != nil {
		b.Fatal(err)
	}
	for i := 0; b.Loop(); i++ {
		m.Function(2+i%1000, 1+i%500, "name")
	}
}
