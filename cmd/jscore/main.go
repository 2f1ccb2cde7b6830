// Command jscore inspects a stopped Node.js process: a core, or a snapshot of a
// live process.
package main

import (
	"os"
	"runtime/debug"

	"ustack/cmd/internal/cli"
)

// gcPercent is how much the heap may grow between collections: of what is read of a core, most stays in
// use, so that collecting it sooner costs time and saves little memory.
const gcPercent = 200

func main() {
	debug.SetGCPercent(gcPercent)
	os.Exit(execute(os.Args[1:]))
}

// execute runs jscore and returns its exit status: the worst of its commands'.
func execute(args []string) int {
	f := new(flags)
	return max(cli.Execute(f.command(), args), f.status)
}
