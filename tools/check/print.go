package check

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Print writes the report as a table.
func (r Report) Print(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "WORKS\tWHAT\tNEEDED FOR\tFOUND\n")
	for _, c := range r.Checks {
		works := "yes"
		if !c.OK {
			works = "NO"
		}
		use := c.For
		if c.Needed {
			use = "everything"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", works, c.Name, use, oneLine(c.Detail))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	answer := "works on this machine"
	if !r.Works {
		answer = "does not work on this machine, as it is run now"
	}
	_, err := fmt.Fprintf(w, "%s %s %s.\n", r.Tool, r.Version, answer)
	return err
}

// oneLine puts text on one line: some errors, such as the verifier's, have
// several.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
