package core

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestNames(t *testing.T) {
	dir := t.TempDir()
	facts := Facts{Comm: "node", PID: 4242, TID: 4250, Time: time.Date(2026, 3, 5, 17, 4, 9, 7e6, time.UTC)}
	for _, test := range []struct{ pattern, comm, want string }{
		{"", "node", "core.node.4242.20260305T170409.007"},
		{dir, "node", filepath.Join(dir, "core.node.4242.20260305T170409.007")},
		{"not/there/", "node", "not/there/core.node.4242.20260305T170409.007"},
		{"a/{tid}-{pid}.zst", "node", "a/4250-4242.zst"},
		{"plain", "node", "plain"},
		{"}{pid}}", "node", "}4242}"},
		{"{comm}", "../../etc/passwd", "_._.._etc_passwd"},
		{"/tmp/{comm}", "..", "/tmp/_."},
		{"/tmp/{comm}/x", "", "/tmp/_/x"},
		{"{comm}", "a b\n\x00\xff{pid}", "a_b____pid_"},
		{"{comm}", "Worker-1+x.y", "Worker-1+x.y"},
	} {
		facts.Comm = test.comm
		if got, err := Name(test.pattern, facts); got != test.want || err != nil {
			t.Errorf("Name(%q) of %q = %q, %v, want %q", test.pattern, test.comm, got, err, test.want)
		}
	}
}

func TestPatternsThatAreRefused(t *testing.T) {
	for _, pattern := range []string{"core.{host}", "core.{pid", "{", "{}", "{{pid}}", strings.Repeat("x", 5000)} {
		if got, err := Name(pattern, Facts{}); err == nil {
			t.Errorf("Name(%q) = %q, want an error", pattern, got)
		}
	}
}
