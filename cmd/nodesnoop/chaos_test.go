package main

import (
	"testing"

	"ustack/cmd/internal/clitest"
)

func sitting() clitest.Sitting {
	return clitest.Sitting{Command: "nodesnoop", Probes: true, Started: "^Watching "}
}

func TestChaosHostileFile(t *testing.T) {
	clitest.CheckHostileFile(t, sitting(), programs...)
}

func TestChaosDeadFileServer(t *testing.T) {
	clitest.CheckDeadFileServer(t, sitting(), programs...)
}
