package jscore

import (
	"fmt"
	"slices"
	"strings"
)

// Bounds on a stack that is shown on one screen.
const (
	maxCycle  = 8  // frames that call each other again and again
	shownTop  = 30 // lines
	shownLast = 6  // likewise, of the stack's root
)

// folded returns the lines of a stack for one screen: what repeats is shown once, and of what
// is still too long, the middle is left out.
func folded(text string) string {
	lines := foldCycles(strings.Split(strings.TrimSuffix(text, "\n"), "\n"))
	if hidden := len(lines) - shownTop - shownLast; hidden > 1 {
		note := fmt.Sprintf("        (%d lines not shown: jsstack prints them)", hidden)
		lines = slices.Concat(lines[:shownTop], []string{note}, lines[len(lines)-shownLast:])
	}
	return strings.Join(lines, "\n") + "\n"
}

// foldCycles replaces repetitions of up to maxCycle lines by a line that counts them.
func foldCycles(lines []string) []string {
	var out []string
	for len(lines) > 0 {
		cycle, times := cycleOf(lines)
		out = append(out, lines[:cycle]...)
		switch {
		case times == 1:
		case times == 2:
			out = append(out, fmt.Sprintf("        (these %d, once more)", cycle))
		case cycle == 1:
			out = append(out, fmt.Sprintf("        (and %d more times)", times-1))
		default:
			out = append(out, fmt.Sprintf("        (these %d, %d more times)", cycle, times-1))
		}
		lines = lines[cycle*times:]
	}
	return out
}

// cycleOf returns the length of the cycle with which lines begin, and how often it comes: 1
// and 1 if they begin with none that is worth a line.
func cycleOf(lines []string) (cycle, times int) {
	for cycle = 1; cycle <= maxCycle && 2*cycle <= len(lines); cycle++ {
		times = 1
		for at := cycle; at+cycle <= len(lines) && slices.Equal(lines[at:at+cycle], lines[:cycle]); at += cycle {
			times++
		}
		if cycle*(times-1) > 1 {
			return cycle, times
		}
	}
	return 1, 1
}
