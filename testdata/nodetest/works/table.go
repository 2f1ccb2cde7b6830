package main

import (
	"fmt"
	"slices"
	"strings"
)

// A table is one of README.md's.
type table struct {
	name    string // in results, and in the comments around the table
	heading string // of the first column
	columns []string
	group   func(row string) string // rows of one group are one row if their answers are alike
}

// tables are all tables.
var tables = []table{
	{
		"kernel", "Linux",
		[]string{"jsprof", "jsprof -e", "jsprof --off-cpu", "jsprof --alloc", "addonlat", "stopon", "stopon --gcore", "jscore", "nodesnoop", "logsnoop"},
		func(row string) string { return row },
	},
	{"node", "Node.js", []string{"jsprof", "addonlat", "stopon", "jscore"}, majorOf},
}

// majorOf returns the first number of a version, or the name of what has none.
func majorOf(row string) string {
	first, _, _ := strings.Cut(row, ".")
	return first
}

// A line is a row of a table, or several whose answers are alike.
type line struct {
	group   string
	names   []string
	answers []string
}

// lines returns a table's rows.
func (r results) lines(t table) []line {
	var all []line
	for _, row := range r.rows(t.name) {
		var answers []string
		for _, column := range t.columns {
			answers = append(answers, r[cell{t.name, row, column}])
		}
		name := row
		if full := r[cell{t.name, row, about}]; full != "" {
			name = full
		}
		last := len(all) - 1
		if last >= 0 && all[last].group == t.group(row) && slices.Equal(all[last].answers, answers) {
			all[last].names = append(all[last].names, name)
			continue
		}
		all = append(all, line{t.group(row), []string{name}, answers})
	}
	return all
}

// render returns a table in Markdown.
func (r results) render(t table) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %s | %s |\n|%s\n", t.heading, strings.Join(t.columns, " | "), strings.Repeat("---|", len(t.columns)+1))
	for _, l := range r.lines(t) {
		answers := slices.Clone(l.answers)
		for i, a := range answers {
			switch a {
			case "":
				answers[i] = "not tested"
			case no:
				answers[i] = "**no**"
			}
		}
		fmt.Fprintf(&b, "| %s | %s |\n", strings.Join(l.names, ", "), strings.Join(answers, " | "))
	}
	return b.String()
}

// write returns a text with the tables between their comments.
func (r results) write(text string) (string, error) {
	for _, t := range tables {
		begin, end := fmt.Sprintf("<!-- works: %s -->\n", t.name), fmt.Sprintf("<!-- end of works: %s -->\n", t.name)
		before, rest, ok := strings.Cut(text, begin)
		_, after, ended := strings.Cut(rest, end)
		if !ok || !ended {
			return "", fmt.Errorf("no place for the table %s between %q and %q", t.name, begin, end)
		}
		text = before + begin + r.render(t) + end + after
	}
	return text, nil
}
