package main

import (
	"testing"

	"ustack/cmd/internal/clitest"
)

func sitting() clitest.Sitting {
	return clitest.Sitting{Command: "addonlat", Probes: true, Started: "^Measuring "}
}

func TestChaosHostileFile(t *testing.T) {
	clitest.CheckHostileFile(t, sitting(), programs...)
}

func TestChaosDeadFileServer(t *testing.T) {
	clitest.CheckDeadFileServer(t, sitting(), programs...)
}
