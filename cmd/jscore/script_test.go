package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"ustack/cmd/internal/clitest"
	"ustack/symbolize/reader"
	"ustack/testdata/nodetest"
	"ustack/tools/core"
)

func TestMain(m *testing.M) {
	reader.Serve()
	testscript.Main(m, map[string]func(){"jscore": main})
}

// coreOf returns a core of a program, taken once it is ready.
func coreOf(t *testing.T, version, program string, args ...string) string {
	t.Helper()
	target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{Flags: nodetest.CalmFlags(version), Script: program, Args: args})
	path := filepath.Join(t.TempDir(), "core")
	if _, err := core.Write(t.Context(), target.PID, path, core.Options{}); err != nil {
		t.Fatal(err)
	}
	return path
}

// versions are the Node.js that the scripts are run on.
func versions() []string {
	if os.Getenv("USTACK_MATRIX") == "1" {
		return nodetest.Versions
	}
	return []string{clitest.NodeVersion}
}

// TestScripts runs testdata/*.txtar, in which LEAKY is a core of leaky.js and STACK
// one of postmortem_stack.js, in the midst of its calls. Their commands beyond those
// of every command:
//
//	json FILE KEY...            each line of FILE is JSON, an object with these keys or an array of such
func TestScripts(t *testing.T) {
	for _, version := range versions() {
		t.Run(version, func(t *testing.T) {
			clitest.Scripts{
				Env: map[string]string{
					"LEAKY": coreOf(t, version, "leaky.js"),
					"STACK": coreOf(t, version, "postmortem_stack.js"),
				},
				Commands: map[string]func(*testscript.TestScript, bool, []string){"json": isJSON},
			}.Run(t)
		})
	}
}

func isJSON(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: json FILE KEY...")
	}
	documents := json.NewDecoder(strings.NewReader(ts.ReadFile(args[0])))
	count := 0
	for ; documents.More(); count++ {
		var document any
		ts.Check(documents.Decode(&document))
		list, isList := document.([]any)
		if !isList {
			list = []any{document}
		}
		for _, element := range list {
			object, ok := element.(map[string]any)
			if !ok {
				ts.Fatalf("document = %v, want an object", element)
			}
			for _, key := range args[1:] {
				if _, ok := object[key]; !ok {
					ts.Fatalf("keys of %v lack %s", object, key)
				}
			}
		}
	}
	if count == 0 {
		ts.Fatalf("%s has no document", args[0])
	}
}
