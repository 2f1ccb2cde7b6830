package main

import (
	"testing"

	"ustack/cmd/internal/clitest"
)

func TestManPageHasEveryFlag(t *testing.T) {
	clitest.CheckManPage(t, command(), "stopon.1")
}
