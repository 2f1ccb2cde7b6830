package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Answers.
const (
	yes     = "yes"
	no      = "no"
	refused = "refuses" // it says that it does not work, before it begins
)

// A cell is a place in a table.
type cell struct{ table, row, column string }

// about is the column of what a row is called in full.
const about = "about"

// results are answers by cell.
type results map[cell]string

// add adds the answer of one test: only if all agree, that is the answer.
func (r results) add(c cell, answer string) {
	if old, ok := r[c]; ok && old != answer {
		answer = no
	}
	r[c] = answer
}

// merge replaces answers by newer ones.
func (r results) merge(newer results) { maps.Copy(r, newer) }

// parse reads the form that String returns.
func parse(text string) (results, error) {
	r := results{}
	for line := range strings.Lines(text) {
		words := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(words) != 4 {
			return nil, fmt.Errorf("%q has %d fields, want table, row, column and answer", line, len(words))
		}
		r[cell{words[0], words[1], words[2]}] = words[3]
	}
	return r, nil
}

// String returns a line for each cell, in the order of the tables.
func (r results) String() string {
	var b strings.Builder
	for _, c := range slices.SortedFunc(maps.Keys(r), func(a, b cell) int {
		return cmp.Or(cmp.Compare(a.table, b.table), byVersion(a.row, b.row), cmp.Compare(a.column, b.column))
	}) {
		fmt.Fprintf(&b, "%s\t%s\t%s\t%s\n", c.table, c.row, c.column, r[c])
	}
	return b.String()
}

// byVersion compares names by the numbers in them, and by the rest.
func byVersion(a, b string) int {
	return cmp.Or(slices.Compare(numbers(a), numbers(b)), cmp.Compare(a, b))
}

func numbers(name string) (all []int) {
	for _, word := range strings.FieldsFunc(name, func(r rune) bool { return r < '0' || r > '9' }) {
		n, _ := strconv.Atoi(word) // digits; what is too large is compared as text
		all = append(all, n)
	}
	return all
}

// rows returns the rows of a table in order.
func (r results) rows(table string) []string {
	var all []string
	for c := range r {
		if c.table == table {
			all = append(all, c.row)
		}
	}
	slices.SortFunc(all, byVersion)
	return slices.Compact(all)
}
