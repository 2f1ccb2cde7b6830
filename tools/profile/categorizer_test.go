package profile

import (
	"fmt"
	"testing"

	"ustack/symbolize"
)

func TestCategorizer(t *testing.T) {
	var c Categorizer
	js := symbolize.Frame{Kind: symbolize.JS, Name: "work"}
	native := func(name string) symbolize.Frame { return symbolize.Frame{Name: name} }
	for range 2 { // the second time from memory
		for _, tt := range []struct {
			frames []symbolize.Frame
			want   string
		}{
			{[]symbolize.Frame{js}, "JavaScript"},
			{[]symbolize.Frame{native("v8::internal::Heap::Scavenge"), js}, "GC"},
			{[]symbolize.Frame{native("deflate"), js}, "native"},
			{[]symbolize.Frame{native("epoll_wait"), native("uv__io_poll")}, "idle"},
			{nil, "native"},
		} {
			if got := c.Category(tt.frames); got != tt.want {
				t.Errorf("category of %v = %s, want %s", tt.frames, got, tt.want)
			}
		}
	}
	for i := range maxMeanings + 100 {
		c.Category([]symbolize.Frame{native(fmt.Sprint("function", i))})
	}
	if got := len(c.names); got > maxMeanings+1 {
		t.Errorf("names remembered = %d, want %d at most", got, maxMeanings+1)
	}
}
