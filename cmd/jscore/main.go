// Command jscore looks at a Node.js process that stands still: a core of one, or a
// snapshot of a live one.
package main

import (
	"os"

	"ustack/cmd/internal/cli"
)

func main() { os.Exit(execute(os.Args[1:])) }

// execute runs jscore and returns its exit status: the worst of its own commands'.
func execute(args []string) int {
	f := new(flags)
	return max(cli.Execute(f.command(), args), f.status)
}
