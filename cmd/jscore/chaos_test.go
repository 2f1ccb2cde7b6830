package main

import (
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"ustack/cmd/internal/clitest"
	"ustack/testdata/nodetest"
)

func TestChaosHostileFile(t *testing.T) {
	nodetest.Root(t)
	target := nodetest.Start(t, nodetest.Node(t, clitest.NodeVersion), nodetest.Options{
		Script: "load.js", Args: []string{nodetest.HostileAddon(t)},
	})
	out, err := exec.Command("jscore", "-p", strconv.Itoa(target.PID), "status").CombinedOutput()
	want := regexp.MustCompile(`evil\\x1b]0;title\\x07\.node.*\.gnu_debugdata`)
	if err != nil || !want.Match(out) {
		t.Errorf("end = %v, output = %s, want success and %v in it", err, out, want)
	}
}

func TestChaosDeadFileServer(t *testing.T) {
	server, target := clitest.MapServed(t, clitest.Node(t))
	server.Die()
	out, err := exec.Command("jscore", "-p", strconv.Itoa(target.PID), "jsstack").CombinedOutput()
	for _, want := range []string{"plain.node", "does not answer", "node::Start"} {
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("end = %v, output = %s, want success and %s in it", err, out, want)
		}
	}
}
