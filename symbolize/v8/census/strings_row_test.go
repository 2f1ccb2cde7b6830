package census_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ustack/symbolize/v8/census"
	"ustack/testdata/nodetest"
)

// rowProgram creates strings each of which consists of the previous one and an addition,
// as programs do that append to a string.
const rowProgram = `
const length = Number(process.argv[2]);
let row = 'the beginning of all';
for (let i = 0; i < length; i++) row += ' and then some' + i;
globalThis.row = row;
console.log('ready ' + JSON.stringify({ characters: row.length }));
setInterval(() => {}, 1 << 30);
`

// TestStringsOfARowAreReadOnce has 50,000 strings whose common beginning is as many parts
// deep: descending to it from each took minutes.
func TestStringsOfARowAreReadOnce(t *testing.T) {
	const length = 50_000
	script := filepath.Join(t.TempDir(), "row.js")
	if err := os.WriteFile(script, []byte(rowProgram), 0o644); err != nil {
		t.Fatal(err)
	}
	target := nodetest.Start(t, nodetest.Node(t, "22.23.3"), nodetest.Options{
		Script: script, Args: []string{fmt.Sprint(length)},
	})
	var facts struct{ Characters int }
	target.Facts(&facts)
	g := graphOf(t, target.PID)
	target.Stop()
	texts := census.Strings(t.Context(), g.Graph, census.StringOptions{Contains: "the beginning of all and then some0", Live: true})
	if texts.Count < length || texts.Count > length+10 {
		t.Errorf("strings of the row = %d, want %d", texts.Count, length)
	}
	for _, text := range texts.Texts {
		if !strings.HasPrefix(string(text.Text), "the beginning of all and then") {
			t.Fatalf("text = %+v, want one that begins as the row does", text)
		}
	}
	if longest := census.Strings(t.Context(), g.Graph, census.StringOptions{Least: facts.Characters, Contains: "the beginning of all"}); longest.Count == 0 {
		t.Errorf("no string has %d characters", facts.Characters)
	}
}
