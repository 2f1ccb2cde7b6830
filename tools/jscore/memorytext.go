package jscore

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// leastShown is the share of the memory below which a part of a part is not printed.
const leastShown = 0.002

// WriteText writes the verdict, and a table of the parts.
func (m *Memory) WriteText(w io.Writer) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "%s\n", m.Verdict.Text)
	if m.Verdict.Next != "" {
		fmt.Fprintf(out, "next: %s\n", m.Verdict.Next)
	}
	fmt.Fprintln(out)
	if !m.Exact {
		fmt.Fprintln(out, "this core does not say which pages were in memory: what follows is of the pages that it has;")
		fmt.Fprintln(out, "those of files, and pages of zeros, are not known (jscore -p and stopon's cores have them)")
	}
	fmt.Fprintf(out, "%12s %6s %s\n", "MB", "%", "PART")
	for _, p := range m.Parts {
		m.writePart(out, &p, "")
		for _, of := range p.Parts {
			if float64(of.Bytes) >= leastShown*float64(m.Resident) {
				m.writePart(out, &of, "  ")
			}
		}
	}
	fmt.Fprintf(out, "%12.1f %6s resident in all\n", float64(m.Resident)/1e6, "")
	if m.Swapped > 0 {
		fmt.Fprintf(out, "%12.1f %6s swapped out\n", float64(m.Swapped)/1e6, "")
	}
	if m.Unread != "" {
		fmt.Fprintln(out, m.Unread)
	}
	if m.Doubts != nil {
		writeDoubts(out, *m.Doubts)
	}
	return out.Flush()
}

func (m *Memory) writePart(out io.Writer, p *MemoryPart, margin string) {
	var notes []string
	if p.Note != "" {
		notes = append(notes, p.Note)
	}
	if margin != "" {
		for _, of := range p.Parts {
			notes = append(notes, fmt.Sprintf("%s %.1f", of.Name, float64(of.Bytes)/1e6))
		}
	}
	text := p.Name
	if len(notes) > 0 {
		text += ": " + strings.Join(notes, ", ")
	}
	fmt.Fprintf(out, "%12.1f %5.1f%% %s%s\n", float64(p.Bytes)/1e6, 100*float64(p.Bytes)/float64(max(m.Resident, 1)), margin, text)
}
