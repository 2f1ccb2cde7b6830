package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// A likeness says how much a command or a flag of mdb's is like ours.
type likeness string

const (
	same      likeness = "same"
	otherName likeness = "other name"
	differs   likeness = "differs"
	absent    likeness = "not there"
	onlyHere  likeness = "only here"
)

// A comparison says what became of a command or of a flag of mdb's or mdb_v8's.
type comparison struct {
	Theirs string   `json:"theirs"` // "findjsobjects -l"
	Is     likeness `json:"is"`
	Ours   string   `json:"ours,omitempty"` // of another name: what to type here
	Note   string   `json:"note,omitempty"` // how it differs, or why it is not there
}

// A comparisonList compares mdb's commands with ours.
type comparisonList []comparison

// mdbV8Comparison is about the commands of mdb_v8, by name.
var mdbV8Comparison = comparisonList{
	{"findjsobjects", same, "", "lines are ordered by bytes; -c and -p print whole lines, with -l addresses"},
	{"findjsobjects -a", differs, "", "adds V8's internal objects, strings and numbers; mdb_v8 adds malformed objects"},
	{"findjsobjects -b", same, "", "without effect: V8 has no objects in the memory of brk(2)"},
	{"findjsobjects -c", same, "", ""},
	{"findjsobjects -k", differs, "", "selects by V8's type; mdb_v8 by where properties are stored, which v8map shows"},
	{"findjsobjects -l", same, "", "also goes with -c, -k and -p"},
	{"findjsobjects -m", same, "", ""},
	{"findjsobjects -p", same, "", "also goes with -c and -k"},
	{"findjsobjects -r", same, "", "prints a tree, as jsfindrefs does"},
	{"findjsobjects -v", same, "", "at each call, and on standard error"},
	{"jsarray", same, "", "leaves out holes"},
	{"jsarray -i", same, "", "also prints what the elements are"},
	{"jsclosure", same, "", ""},
	{"jsconstructor", same, "", ""},
	{"jsconstructor -v", same, "", ""},
	{"jsfindrefs", differs, "", "prints a tree with the kind of each reference; a pipeline gets the addresses"},
	{"jsfindrefs -d", same, "", ""},
	{"jsfindrefs -l", differs, "", "levels of objects to show; V8's internal arrays are always followed"},
	{"jsfindrefs -v", same, "", ""},
	{"jsframe", differs, "", "prints the frame at FP; mdb_v8 the one that the word at FP points to"},
	{"jsframe -a", same, "", ""},
	{"jsframe -f", differs, "", "part of the name suffices"},
	{"jsframe -i", same, "", "without effect: it is what jsframe does, and the function is named"},
	{"jsframe -n", same, "", ""},
	{"jsframe -p", same, "", ""},
	{"jsframe -v", same, "", ""},
	{"jsfunction", same, "", ""},
	{"jsfunctions", same, "", ""},
	{"jsfunctions -l", same, "", "also goes with -n, -s and -x"},
	{"jsfunctions -n", same, "", ""},
	{"jsfunctions -s", same, "", ""},
	{"jsfunctions -x", same, "", "also finds optimized code and bytecodes"},
	{"jsfunctions -X", same, "", "bytecodes if the function has no machine code"},
	{"jsprint", same, "", "members may be paths, and several"},
	{"jsprint -a", same, "", ""},
	{"jsprint -b", same, "", ""},
	{"jsprint -d", same, "", ""},
	{"jsprint -N", differs, "", "how many members are printed; mdb_v8: characters of strings"},
	{"jsprint -v", same, "", "of a member that is an object, if members are given"},
	{"jssource", same, "", ""},
	{"jssource -n", same, "", ""},
	{"jsstack", differs, "", "shows the executing lines, and inlined functions; takes no address"},
	{"jsstack -a", same, "", ""},
	{"jsstack -f", differs, "", "part of the name suffices"},
	{"jsstack -n", same, "", ""},
	{"jsstack -p", same, "", ""},
	{"jsstack -v", same, "", ""},
	{"nodebuffer", same, "", "-b prints the bytes"},
	{"nodebuffer -f", absent, "", "any view or ArrayBuffer is accepted, whatever its class"},
	{"v8array", same, "", ""},
	{"v8array -i", same, "", "without effect: arrays are read at once"},
	{"v8classes", same, "", ""},
	{"v8code", same, "", "also takes functions"},
	{"v8code -d", same, "", "with lines of source"},
	{"v8context", same, "", ""},
	{"v8field", same, "", "a class alone lists its fields"},
	{"v8frametypes", same, "", ""},
	{"v8function", same, "", ""},
	{"v8function -d", same, "", "with lines of source"},
	{"v8internal", same, "", "without an index lists all"},
	{"v8load", absent, "", "V8's layout is found in the program itself"},
	{"v8print", same, "", "CLASS may come before the address"},
	{"v8scopeinfo", same, "", ""},
	{"v8str", differs, "", "without quotes"},
	{"v8str -N", absent, "", "the size of a buffer, which is not needed"},
	{"v8str -r", same, "", "without effect: text is printed without quotes in any case"},
	{"v8str -v", same, "", ""},
	{"v8type", same, "", ""},
	{"v8types", same, "", ""},
	{"v8warnings", absent, "", "what cannot be read is always reported"},
	{"v8whatis", same, "", "an address in no object is an error"},
	{"v8whatis -d", same, "", "any distance if it is not given; mdb_v8: 4096"},
	{"v8whatis -v", same, "", ""},
	{"walk jselement", same, "", "leaves out holes"},
	{"walk jsframe", differs, "", "lists the frames of JavaScript functions only; -t gives the thread"},
	{"walk jsprop", same, "", "accessors have no value"},
}

// mdbComparison is about the commands of mdb itself that serve programs in Node.js.
var mdbComparison = comparisonList{
	{"$L", otherName, "jsstack -A", "with the stacks"},
	{"$c", same, "", "with the names of JavaScript functions; arguments are those of jsstack -v"},
	{"$C", same, "", "with the names of JavaScript functions; arguments are those of jsstack -v"},
	{"$m", same, "", ""},
	{"$q", same, "", ""},
	{"$r", same, "", ""},
	{"$v", same, "", "mdb's own variables and registers are not listed"},
	{"/", same, "", "memory is never written; without a format, nothing is shown"},
	{"=", same, "", ""},
	{">", same, "", "without a cast between slashes"},
	{"?", differs, "", "help; / also reads what the core leaves to files"},
	{"dcmds", same, "", ""},
	{"dis", same, "", ""},
	{"dis -n", same, "", ""},
	{"dis -w", same, "", ""},
	{"dis -f", absent, "", "/ and dis also read what the core leaves to files"},
	{"dump", same, "", "the count is in bytes"},
	{"findleaks", differs, "", "finds what nothing refers to in malloc's memory, not libumem's"},
	{"formats", same, "", ""},
	{"grep", same, "", ""},
	{"help", same, "", ""},
	{"load", absent, "", "nothing has to be loaded"},
	{"map", same, "", ""},
	{"mappings", same, "", ""},
	{"nm", differs, "", "takes a part of a name instead of a file"},
	{"objects", otherName, "mappings", ""},
	{"quit", same, "", ""},
	{"regs", same, "", "-t gives the thread"},
	{"stack", same, "", "as $c"},
	{"status", same, "", "and the stack, the heap and the versions"},
	{"ugrep", same, "", "finds tagged and untagged references; memgrep finds text"},
	{"umastat", absent, "", "it knows libumem's memory"},
	{"vars", same, "", "mdb's own variables and registers are not listed"},
	{"walk", same, "", ""},
	{"walkers", same, "", ""},
	{"whatis", same, "", ""},
}

// comparisons returns what became of all of mdb's, and the flags that only our commands have.
func comparisons() comparisonList {
	all := slices.Concat(mdbV8Comparison, mdbComparison)
	var rows comparisonList
	for i, row := range all {
		rows = append(rows, row)
		name, _, _ := strings.Cut(row.Theirs, " ")
		if i+1 < len(all) && strings.HasPrefix(all[i+1].Theirs, name+" ") {
			continue
		}
		if c, err := commands().lookup(name); err == nil && c.name == name {
			if flags := c.only(all); len(flags) > 0 {
				rows = append(rows, comparison{name, onlyHere, strings.Join(flags, ", "), ""})
			}
		}
	}
	return rows
}

// only returns the flags of a command that mdb's command of that name lacks.
func (c *command) only(compared comparisonList) []string {
	var flags []string
	c.flags(new(run)).VisitAll(func(f *pflag.Flag) {
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand
		}
		theirs := func(row comparison) bool { return row.Theirs == c.name+" "+name }
		if !slices.ContainsFunc(compared, theirs) {
			flags = append(flags, name)
		}
	})
	return flags
}

// WriteText writes a line for each command and flag.
func (l comparisonList) WriteText(w io.Writer) error {
	for _, row := range l {
		line := fmt.Sprintf("%-18s %-10s %s", row.Theirs, row.Is, row.text())
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " ")); err != nil {
			return err
		}
	}
	return nil
}

// text returns what is to be said besides the likeness.
func (r comparison) text() string {
	if r.Ours == "" {
		return r.Note
	}
	return strings.TrimSuffix(r.Ours+"; "+r.Note, "; ")
}

func mdbCommand() *command {
	return &command{
		name: "mdb", short: "compare the commands and flags of mdb and mdb_v8 with these",
		bind: plain(once(func(context.Context, *invocation) (comparisonList, error) { return comparisons(), nil })),
	}
}
