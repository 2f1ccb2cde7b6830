// Works keeps README.md's tables of what works where. It reads what "go test -json" prints,
// prints what go test would, and adds the answers to docs/works.tsv: a test says by an
// attribute which cell of a table it decides. Then it writes the tables. Its status is 1 if
// a test failed.
//
//	go test -json PACKAGE... | go run ./testdata/nodetest/works
package main

import (
	"fmt"
	"io"
	"os"
)

const (
	resultsFile = "docs/works.tsv"
	readmeFile  = "README.md"
)

func main() {
	failed, err := record(os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "works:", err)
		os.Exit(2)
	}
	if failed {
		os.Exit(1)
	}
}

// record updates both files by what the tests show. It reads them when the tests have ended:
// another run may have ended meanwhile.
func record(in io.Reader, out io.Writer) (failed bool, err error) {
	run, err := watch(in, out)
	if err != nil {
		return false, err
	}
	text, err := os.ReadFile(resultsFile)
	if err != nil {
		return false, err
	}
	results, err := parse(string(text))
	if err != nil {
		return false, fmt.Errorf("read %s: %w", resultsFile, err)
	}
	results.merge(run.results)
	readme, err := os.ReadFile(readmeFile)
	if err != nil {
		return false, err
	}
	changed, err := results.write(string(readme))
	if err != nil {
		return false, fmt.Errorf("update %s: %w", readmeFile, err)
	}
	if err := os.WriteFile(resultsFile, []byte(results.String()), 0o644); err != nil {
		return false, err
	}
	return run.failed, os.WriteFile(readmeFile, []byte(changed), 0o644)
}
