// Command jscore inspects a stopped Node.js process: a core, or a snapshot of a
// live process.
package main

import (
	"os"

	"ustack/cmd/internal/cli"
)

func main() { os.Exit(execute(os.Args[1:])) }

// execute runs jscore and returns its exit status: the worst of its commands'.
func execute(args []string) int {
	f := new(flags)
	return max(cli.Execute(f.command(), args), f.status)
}
