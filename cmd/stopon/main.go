// Command stopon acts on a process at the very moment that something happens in
// it: it reports the event with the mixed stack, stops the process, takes a
// core, sends a signal.
package main

import (
	"os"

	"ustack/cmd/internal/cli"
	"ustack/tools/stopon"
)

func main() {
	stopon.Supervise()
	os.Exit(cli.Execute(command(), joinClass(os.Args[1:])))
}
