package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ustack/testdata/nodetest"
	"ustack/testdata/nodetest/kernels"
)

const root = "../../.."

// committed returns the repository's results.
func committed(t *testing.T) results {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, resultsFile))
	if err != nil {
		t.Fatal(err)
	}
	r, err := parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	if got := r.String(); got != string(text) {
		t.Errorf("%s is not as it would be written (-want +got):\n%s", resultsFile, cmp.Diff(got, string(text)))
	}
	return r
}

// TestReadmeHasTheResults fails if either file was changed without the other.
func TestReadmeHasTheResults(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, readmeFile))
	if err != nil {
		t.Fatal(err)
	}
	want, err := committed(t).write(string(text))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("README.md (-want +got), make works writes it:\n%s", diff)
	}
}

// TestResultsAreOfWhatIsTested fails if results are left of what is no longer tested, or if
// something does not work.
func TestResultsAreOfWhatIsTested(t *testing.T) {
	r := committed(t)
	for _, row := range r.rows("node") {
		if row != nodetest.Deno && !slices.Contains(nodetest.Releases, row) {
			t.Errorf("Node.js %s is not tested", row)
		}
	}
	for _, tt := range tables {
		for c := range r {
			if c.table == tt.name && c.column != about && !slices.Contains(tt.columns, c.column) {
				t.Errorf("%+v is in no column", c)
			}
		}
		for _, l := range r.lines(tt) {
			if slices.Contains(l.answers, no) {
				t.Errorf("%v = %v, want that it works or is refused", l.names, l.answers)
			}
		}
	}
	for _, g := range kernels.Groups {
		for _, column := range g.Columns {
			if !slices.Contains(tables[0].columns, column) {
				t.Errorf("no column %s", column)
			}
		}
	}
}

// stream is what go test prints for three tests.
const stream = `{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA/1"}
{"Action":"output","Package":"p","Test":"TestA/1","Output":"=== RUN   TestA/1\n"}
{"Action":"attr","Package":"p","Test":"TestA/1","Key":"works","Value":"node/24.0.0/jsprof"}
{"Action":"attr","Package":"p","Test":"TestA/1","Key":"other","Value":"x"}
{"Action":"pass","Package":"p","Test":"TestA/1"}
{"Action":"attr","Package":"p","Test":"TestB","Key":"refuses","Value":"kernel/5.10/stopon"}
{"Action":"attr","Package":"p","Test":"TestB","Key":"about","Value":"kernel/5.10/5.10.0-35"}
{"Action":"pass","Package":"p","Test":"TestB"}
{"Action":"attr","Package":"p","Test":"TestC","Key":"works","Value":"node/24.0.0/stopon"}
`

func TestAnswersAreThoseOfTheTests(t *testing.T) {
	passed := results{
		{"node", "24.0.0", "jsprof"}:   yes,
		{"kernel", "5.10", "stopon"}:   refused,
		{"kernel", "5.10", about}:      "5.10.0-35",
		{"node", "24.0.0", "addonlat"}: no,
	}
	delete(passed, cell{"node", "24.0.0", "addonlat"})
	with := func(c cell, answer string) results {
		r := results{}
		r.merge(passed)
		r[c] = answer
		return r
	}
	for name, tt := range map[string]struct {
		more   string
		want   results
		failed bool
	}{
		"never ended": {"", passed, false},
		"passed":      {`{"Action":"pass","Package":"p","Test":"TestC"}`, with(cell{"node", "24.0.0", "stopon"}, yes), false},
		"failed":      {`{"Action":"fail","Package":"p","Test":"TestC"}`, with(cell{"node", "24.0.0", "stopon"}, no), true},
		"skipped":     {`{"Action":"skip","Package":"p","Test":"TestC"}`, passed, false},
		"of another":  {`{"Action":"fail","Package":"q","Test":"TestC"}`, passed, true},
		"not built":   {`{"Action":"build-fail"}`, passed, true},
		"no test":     {`go: no such package`, passed, true},
		"one of two failed": {
			`{"Action":"attr","Package":"p","Test":"TestD","Key":"works","Value":"node/24.0.0/jsprof"}` + "\n" +
				`{"Action":"fail","Package":"p","Test":"TestD"}`,
			with(cell{"node", "24.0.0", "jsprof"}, no), true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			r, err := watch(strings.NewReader(stream+tt.more), &out)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, r.results, cmp.AllowUnexported(cell{})); diff != "" || r.failed != tt.failed {
				t.Errorf("failed = %t, want %t; results (-want +got):\n%s", r.failed, tt.failed, diff)
			}
			if !strings.HasPrefix(out.String(), "=== RUN   TestA/1\n") {
				t.Errorf("printed %q, want what the tests print", out.String())
			}
		})
	}
	if _, err := watch(strings.NewReader(strings.ReplaceAll(stream, "node/24.0.0/jsprof", "node")), &strings.Builder{}); err == nil {
		t.Error("an attribute that names no cell is no error, want one")
	}
}

func TestTablesAreRendered(t *testing.T) {
	r, err := parse("node\t9.1.0\tjsprof\tyes\nnode\t9.2.0\tjsprof\tyes\nnode\t9.10.0\tjsprof\tno\nnode\t10.0.0\tjsprof\trefuses\nnode\t10.0.0\tabout\tio.js 10\n")
	if err != nil {
		t.Fatal(err)
	}
	got := r.render(table{"node", "Node.js", []string{"jsprof", "stopon"}, majorOf})
	want := `| Node.js | jsprof | stopon |
|---|---|---|
| 9.1.0, 9.2.0 | yes | not tested |
| 9.10.0 | **no** | not tested |
| io.js 10 | refuses | not tested |
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	if _, err := r.write("no place"); err == nil {
		t.Error("a text without a place for the tables is no error, want one")
	}
	if _, err := parse("a\tb\n"); err == nil {
		t.Error("a line with two fields is no error, want one")
	}
}
