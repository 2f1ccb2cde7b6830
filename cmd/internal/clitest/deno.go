package clitest

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"ustack/testdata/nodetest"
)

// jsonObject is an object without others in it, as frames are.
var jsonObject = regexp.MustCompile(`\{[^{}]*\}`)

// CheckDeno checks what a command, run with --pid of a process of Deno, says of its V8, which
// has no v8dbg_ symbols: that JavaScript is not understood. It must name no function that is
// in V8 or in the program. The command prints JSON. Deno is fetched under USTACK_RELEASES=1.
func CheckDeno(t *testing.T, command ...string) {
	t.Helper()
	if os.Getenv("USTACK_RELEASES") != "1" {
		t.Skip("fetches Deno: make test-releases")
	}
	nodetest.Root(t)
	nodetest.Refuses(t, "node", nodetest.Deno, command[0])
	target := nodetest.StartDeno(t, "deno.mjs")
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), command[0], append([]string{"--pid", strconv.Itoa(target.PID)}, command[1:]...)...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	runErr := cmd.Run()
	t.Logf("%v: %v\n%s", command, runErr, &stderr)
	const want = "no v8dbg_ symbols: no V8 here, or one built or stripped without them"
	if strings.Count(stderr.String(), want) != 1 {
		t.Errorf("stderr = %s, want %q once", &stderr, want)
	}
	if strings.Contains(stdout.String(), "burnVisibly") {
		t.Errorf("stdout names a function of the program:\n%s", &stdout)
	}
	for _, object := range jsonObject.FindAll(stdout.Bytes(), -1) {
		var f Frame
		if err := json.Unmarshal(object, &f); err != nil || f.Name == nil {
			continue // something else
		}
		if f.Kind == "js" || strings.HasSuffix(f.Module, "/deno") && *f.Name != "" {
			t.Errorf("%v names a function in Deno: %s", command, object)
		}
	}
	if !target.Alive() {
		t.Error("the process has ended")
	}
}
