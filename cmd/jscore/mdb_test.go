package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the manual's comparison with mdb")

// mdbV8Has are the commands of mdb_v8 1.4.2 with the flags that they parse, and its walkers.
var mdbV8Has = map[string]string{
	"findjsobjects": "abcklmprv", "jsarray": "i", "jsclosure": "", "jsconstructor": "v", "jsfindrefs": "dlv", "jsframe": "afinpv",
	"jsfunction": "", "jsfunctions": "lnsxX", "jsprint": "abdNv", "jssource": "n", "jsstack": "afnpv", "nodebuffer": "f",
	"v8array": "i", "v8classes": "", "v8code": "d", "v8context": "", "v8field": "", "v8frametypes": "", "v8function": "d",
	"v8internal": "", "v8load": "", "v8print": "", "v8scopeinfo": "", "v8str": "Nrv", "v8type": "", "v8types": "", "v8warnings": "",
	"v8whatis": "dv", "walk jselement": "", "walk jsframe": "", "walk jsprop": "",
}

func TestComparisonHasAllOfMdbV8(t *testing.T) {
	var want, got []string
	for name, flags := range mdbV8Has {
		want = append(want, name)
		for _, f := range flags {
			want = append(want, fmt.Sprintf("%s -%c", name, f))
		}
	}
	for _, row := range mdbV8Comparison {
		got = append(got, row.Theirs)
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("commands and flags (-mdb_v8 +compared):\n%s", diff)
	}
}

// TestComparisonIsTrue checks that what is said to be here is, and that the rest is not.
func TestComparisonIsTrue(t *testing.T) {
	for _, row := range comparisons() {
		switch row.Is {
		case same, differs:
			if !has(row.Theirs) || row.Ours != "" {
				t.Errorf("%s is said to be here, and is not", row.Theirs)
			}
		case otherName:
			if has(row.Theirs) || !has(row.Ours) {
				t.Errorf("%s is said to be %s here, and is not", row.Theirs, row.Ours)
			}
		case absent:
			if has(row.Theirs) {
				t.Errorf("%s is said not to be here, and is", row.Theirs)
			}
		case onlyHere:
			for _, name := range strings.Split(row.Ours, ", ") {
				if !has(row.Theirs + " " + name) {
					t.Errorf("%s %s is said to be here, and is not", row.Theirs, name)
				}
			}
		default:
			t.Errorf("%s is %q", row.Theirs, row.Is)
		}
		if row.Is != same && row.text() == "" {
			t.Errorf("%s %s, and nothing says how or why", row.Theirs, row.Is)
		}
	}
}

// has reports whether a command, its flag or its walker is there: "jsprint -d", "walk jsprop".
func has(what string) bool {
	name, rest, _ := strings.Cut(what, " ")
	c, err := commands().lookup(name)
	if err != nil {
		return false
	}
	flags := c.flags(new(run))
	switch {
	case rest == "":
		return true
	case strings.HasPrefix(rest, "--"):
		return flags.Lookup(rest[2:]) != nil
	case strings.HasPrefix(rest, "-"):
		return flags.ShorthandLookup(rest[1:]) != nil
	}
	_, err = walkerNamed(rest)
	return err == nil
}

// TestComparisonCoversOurFlags fails if a flag of a command that mdb_v8 has is neither
// compared nor listed as ours.
func TestComparisonCoversOurFlags(t *testing.T) {
	rows := comparisons()
	for name := range mdbV8Has {
		c, err := commands().lookup(name)
		if err != nil {
			continue
		}
		listed := slices.ContainsFunc(rows, func(r comparison) bool { return r.Theirs == name && r.Is == onlyHere })
		if own := len(c.only(rows)) > 0; own != listed {
			t.Errorf("%s: flags that mdb_v8 lacks are listed: %t, want %t", name, listed, own)
		}
	}
}

const (
	comparisonBegins = ".Ss Mdb and mdb_v8\n"
	comparisonEnds   = ".El\n"
)

// comparisonSection is the manual's section about mdb.
func comparisonSection() string {
	var b strings.Builder
	b.WriteString(comparisonBegins + `What became of their commands and flags.
.Ic mdb
prints this, too.
Numbers that flags, counts and offsets are given as are decimal here unless
.Ql 0x ,
.Ql 0o
or
.Ql 0i
begins them; in mdb they are hexadecimal unless
.Ql 0t
does.
Addresses are hexadecimal in both.
Expressions are mdb's, but for unary
.Ql % ,
.Ql #
and
.Ql & ,
casts, characters in quotes, and variables other than those that are set and registers.
.Bl -column "findjsobjects -m" "other name" "the memory of brk"
`)
	for _, row := range comparisons() {
		fmt.Fprintf(&b, ".It %q Ta %q Ta %q\n", row.Theirs, row.Is, row.text())
	}
	b.WriteString(comparisonEnds)
	return b.String()
}

// TestManPageComparesWithMdb is run with -update after a change.
func TestManPageComparesWithMdb(t *testing.T) {
	const path = "jscore.1"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	begin := strings.Index(page, comparisonBegins)
	if begin < 0 {
		t.Fatalf("%s has no section %q", path, comparisonBegins)
	}
	end := begin + strings.Index(page[begin:], comparisonEnds) + len(comparisonEnds)
	if *update {
		page = page[:begin] + comparisonSection() + page[end:]
		if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(comparisonSection(), page[begin:end]); diff != "" {
		t.Errorf("the section about mdb (-want +page; -update rewrites it):\n%s", diff)
	}
}
