// Command addonlat shows how long asynchronous work in add-ons takes, and where
// that time goes: for a thread, on it, or for the event loop.
package main

import "ustack/cmd/internal/cli"

func main() { cli.Main(command()) }
