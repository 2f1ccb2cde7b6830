// Command logsnoop shows what running Node.js processes log: the records that they write, and
// those below the level of bunyan's loggers.
package main

import "ustack/cmd/internal/cli"

func main() { cli.Main(command()) }
