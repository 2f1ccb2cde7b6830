// Command addonlat shows how long asynchronous work in add-ons takes, and where
// that time goes: waiting for a thread, running on it, or waiting for the event
// loop.
package main

import "ustack/cmd/internal/cli"

func main() { cli.Main(command()) }
