package nodesnoop

import (
	"fmt"
	"testing"
	"time"
)

func TestRoutes(t *testing.T) {
	for path, want := range map[string]string{
		"/": "/", "/users/12": "/users/:num", "/a/0f8fad5b-d9cb-469f-a165-70867728950e/b": "/a/:uuid/b",
		"/c/deadbeef1": "/c/:hash", "/c/deadbeef": "/c/deadbeef", "/c/cafe1": "/c/cafe1", "/v2/x": "/v2/x",
		"/t/abcdefghijklmnopqrst1": "/t/:id", "": "",
	} {
		if got := Route(path); got != want {
			t.Errorf("Route(%q) = %q, want %q", path, got, want)
		}
	}
	for target, want := range map[string]string{
		"/a?b": "/a", "http://host/a?b": "/a", "https://host?b": "/", "host:443": "host:443", "*": "*",
	} {
		if got := Path(target); got != want {
			t.Errorf("Path(%q) = %q, want %q", target, got, want)
		}
	}
}

func TestGroupsAreBounded(t *testing.T) {
	s := Summary{By: ByPath}
	for i := range 3 * maxGroups {
		s.Add(&Event{Method: "GET", URL: fmt.Sprintf("/%d", i), Latency: time.Millisecond, Status: 500})
	}
	groups := s.Groups()
	if len(groups) != maxGroups+1 {
		t.Errorf("groups = %d, want %d", len(groups), maxGroups+1)
	}
	if g := groups[0]; g.Key != OtherKey || g.Errors != 2*maxGroups {
		t.Errorf("first group = %s with %d errors, want %s with %d", g.Key, g.Errors, OtherKey, 2*maxGroups)
	}
	if total := s.Total(Server); total.Latency.Count != 3*maxGroups {
		t.Errorf("total = %d, want %d", total.Latency.Count, 3*maxGroups)
	}
}
