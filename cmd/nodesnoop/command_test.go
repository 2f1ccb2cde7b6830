package main

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
	"time"

	"ustack/cmd/internal/clitest"
	"ustack/tools/nodesnoop"
)

func TestManPageHasEveryFlag(t *testing.T) {
	clitest.CheckManPage(t, command(), "nodesnoop.1")
}

func TestPathsMatchGlobs(t *testing.T) {
	for _, test := range []struct {
		glob, path string
		want       bool
	}{
		{"/users/*", "/users/1", true},
		{"/users/*", "/users/1/x", false},
		{"/users/**", "/users/1/x", true},
		{"/users/**", "/users", false},
		{"/users/**", "/others/1", false},
		{"/*/x/**", "/a/x/y/z", true},
		{"/**", "/", true},
		{"/", "/", true},
		{"/[ab]?", "/ax", true},
	} {
		if got := matches(test.glob, test.path); got != test.want {
			t.Errorf("%s matches %s = %t, want %t", test.glob, test.path, got, test.want)
		}
	}
}

// TestLinesAreSafe has an event of which everything that others choose is hostile.
func TestLinesAreSafe(t *testing.T) {
	const bad = "\x1b]0;x\a\u202e\n\xff"
	e := nodesnoop.Event{
		Method: bad, URL: "/" + bad, URLBytes: 5000, Host: bad, Status: 200,
		Peer: nodesnoop.Peer{Path: bad, Addr: netip.Addr{}},
	}
	all, err := parseColumns(strings.Join(names(), ","))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	r := rows{columns: all, start: time.Now()}
	if err := r.print(&out, &e); err != nil {
		t.Fatal(err)
	}
	if err := printJSON(&out, &e); err != nil {
		t.Fatal(err)
	}
	s := summary{}
	s.Add(&e)
	screen := top{rows: rows{columns: all}}
	for _, err := range []error{screen.event(nil, &e), screen.report(&out, nil, time.Now()), s.end(&out)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range out.String() {
		if c < ' ' && c != '\n' || c == 0x202e || c == 0xfffd {
			t.Errorf("output has %q", c)
		}
	}
	if !strings.Contains(out.String(), "...") {
		t.Error("a URL that is cut is not marked")
	}
}
