// Lint proves the one direction of imports: cmd, then the tools, then the
// libraries, which know nothing of what uses them; and that one package alone
// compares versions of V8.
package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

const (
	module  = "ustack/"
	clitest = module + "cmd/internal/clitest"
)

// mayImport says, for each group of packages, which groups they may import.
var mayImport = map[string][]string{
	"cmd":       {"cmd", "tool", "library", "loader", "bpf", "symbolize"},
	"clitest":   {"cmd", "library", "testdata"},
	"tool":      {"library", "loader", "bpf", "symbolize"},
	"library":   {"library", "loader", "bpf", "symbolize"},
	"loader":    {},
	"bpf":       {},
	"symbolize": {"symbolize"},
	"testdata":  {"symbolize", "testdata"},
}

// below says which packages of the module those that read processes may import: V8's
// objects are read from any memory, an address space knows no V8, and each of V8's packages
// knows only those below it.
var below = map[string][]string{
	"symbolize/libuv":        {"symbolize/arm64", "symbolize/elfsym"},
	"symbolize/malloc":       {"symbolize/space"},
	"symbolize/nodehttp":     {"symbolize/elfsym"},
	"symbolize/nodejs":       {"symbolize", "symbolize/space", "symbolize/v8", "symbolize/v8/census", "symbolize/v8/heap", "symbolize/v8/stack", "symbolize/v8/value"},
	"symbolize/sourcemap":    {"symbolize", "symbolize/contain"},
	"symbolize/space":        {"symbolize", "symbolize/contain", "symbolize/elfsym", "symbolize/process", "symbolize/reader", "symbolize/unwind"},
	"symbolize/unwind":       {"symbolize/elfsym", "symbolize/unwind/x86"},
	"symbolize/unwind/x86":   {},
	"symbolize/v8/census":    {"symbolize", "symbolize/contain", "symbolize/v8", "symbolize/v8/heap", "symbolize/v8/value"},
	"symbolize/v8/release":   {},
	"symbolize/v8":           {"symbolize/elfsym", "symbolize/v8/disasm", "symbolize/v8/release"},
	"symbolize/v8/wasm":      {"symbolize", "symbolize/v8"},
	"symbolize/v8/code":      {"symbolize", "symbolize/elfsym", "symbolize/v8", "symbolize/v8/release"},
	"symbolize/v8/disasm":    {"symbolize/arm64", "symbolize/elfsym"},
	"symbolize/v8/heap":      {"symbolize/space", "symbolize/v8", "symbolize/v8/release"},
	"symbolize/v8/value":     {"symbolize/v8", "symbolize/v8/code"},
	"symbolize/v8/verify":    {"symbolize/contain", "symbolize/elfsym", "symbolize/space", "symbolize/v8", "symbolize/v8/code", "symbolize/v8/disasm", "symbolize/v8/heap"},
	"symbolize/v8/stack":     {"symbolize", "symbolize/sourcemap", "symbolize/space", "symbolize/unwind", "symbolize/v8", "symbolize/v8/code", "symbolize/v8/heap", "symbolize/v8/release"},
	"symbolize/jsscope":      {},
	"symbolize/v8/variables": {"symbolize", "symbolize/jsscope", "symbolize/v8", "symbolize/v8/code", "symbolize/v8/stack"},
}

// tools are the packages in the directory tools that are tools, not libraries.
var tools = []string{"jsprof", "addonlat", "stopon", "nodesnoop", "syscalls", "tcp", "logsnoop", "jscore"}

func main() {
	wrong, err := check()
	if err != nil {
		fmt.Fprintln(os.Stderr, "lint:", err)
		os.Exit(2)
	}
	for _, line := range wrong {
		fmt.Fprintln(os.Stderr, line)
	}
	if len(wrong) > 0 {
		os.Exit(1)
	}
}

// check returns a line for each violation in the module.
func check() ([]string, error) {
	imports, err := list()
	if err != nil {
		return nil, err
	}
	compared, err := comparisons(nil, "./...")
	return append(violations(imports), compared...), err
}

// list returns the imports of each package of the module, without tests.
func list() (map[string][]string, error) {
	cmd := exec.Command("go", "list", "-f", `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`,
		"./...", "./testdata/nodetest/...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list packages: %w", err)
	}
	packages := make(map[string][]string)
	for line := range bytes.Lines(out) {
		words := strings.Fields(string(line))
		packages[words[0]] = words[1:]
	}
	return packages, nil
}

// violations returns a line for each import in the wrong direction.
func violations(packages map[string][]string) []string {
	var wrong []string
	for _, importer := range sorted(packages) {
		for _, imported := range packages[importer] {
			if strings.HasPrefix(imported, module) && !allowed(importer, imported) {
				wrong = append(wrong, fmt.Sprintf("%s must not import %s", importer, imported))
			}
		}
	}
	return wrong
}
