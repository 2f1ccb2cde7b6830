// Command nodesnoop shows the HTTP requests that running Node.js processes serve and
// make, and their garbage collections.
package main

import "ustack/cmd/internal/cli"

func main() { cli.Main(command()) }
