package profile

import (
	"strings"
	"testing"
)

// TestNumberInsideIsWrittenWhereItDiffers has a process in a container and one outside.
func TestNumberInsideIsWrittenWhereItDiffers(t *testing.T) {
	p := &Profile{
		Processes: []Process{{PID: 41, Inside: 1, Title: "node 41 (1 inside) a.js"}, {PID: 42, Title: "node 42 b.js"}},
		Stacks:    []Stack{{PID: 41, Value: 3}, {PID: 42, Value: 2}},
		Total:     5,
	}
	var out strings.Builder
	if err := writeJSON(&out, p, Options{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`{"pid":41,"namespace_pid":1,"title"`, `{"pid":42,"title"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("profile = %s, want %s in it", out.String(), want)
		}
	}
}
