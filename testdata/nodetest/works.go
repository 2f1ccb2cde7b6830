package nodetest

import (
	"strings"
	"testing"
)

// Attributes of tests, by which testdata/nodetest/works makes README.md's tables of what works:
// TABLE/ROW/COLUMN of a cell, or TABLE/ROW/TEXT about a row.
const (
	WorksKey   = "works"   // it works if the test passes
	RefusesKey = "refuses" // a tool refuses if the test passes
	AboutKey   = "about"   // what the row is called in full
)

// Works says that something works, as a cell of a table says, if the test passes.
func Works(t testing.TB, table, row, column string) { attribute(t, WorksKey, table, row, column) }

// Refuses says that a tool refuses to work, as a cell of a table says, if the test passes.
func Refuses(t testing.TB, table, row, column string) { attribute(t, RefusesKey, table, row, column) }

// About says what a row of a table is called in full.
func About(t testing.TB, table, row, text string) { attribute(t, AboutKey, table, row, text) }

func attribute(t testing.TB, key string, words ...string) {
	t.Helper()
	t.Attr(key, strings.Join(words, "/"))
}
