// Command jsprof shows where the CPU time of running Node.js processes goes.
package main

import "ustack/cmd/internal/cli"

func main() { cli.Main(command()) }
