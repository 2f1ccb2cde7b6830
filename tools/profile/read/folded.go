package read

import (
	"slices"
	"strconv"
	"strings"

	"ustack/symbolize"
	"ustack/tools/profile"
	"ustack/tools/profile/internal/lazyregexp"
)

// readCollapsed reads a line for each stack: frames from the root to the leaf, with
// semicolons in between, and the value.
func readCollapsed(l *lines, b *builder) error { return readFolded(l, b, ";") }

// readStackvis reads the same with commas, as npm's stackvis writes it.
func readStackvis(l *lines, b *builder) error { return readFolded(l, b, ",") }

func readFolded(l *lines, b *builder, separator string) error {
	frames := labels{known: map[string]symbolize.Frame{}}
	for l.next() {
		if l.text == "" || strings.HasPrefix(l.text, "#") {
			continue
		}
		at := strings.LastIndexAny(l.text, " \t")
		if at < 0 {
			return l.errorf("no value after the stack: %s", quote(l.text))
		}
		value, err := strconv.ParseUint(l.text[at+1:], 10, 63)
		if err != nil {
			return l.errorf("the value is no whole number: %s", quote(l.text[at+1:]))
		}
		stack := profile.Stack{Value: value}
		parts := strings.Split(strings.TrimRight(l.text[:at], " \t"), separator)
		for i, part := range parts {
			if separator == "," {
				parts[i] = strings.ReplaceAll(part, "; ", ", ") // as it was in a title or in C++
			}
		}
		if p, ok := process(parts[0]); ok && len(parts) > 1 {
			stack.PID, parts = p.PID, parts[1:]
			b.process(p)
		}
		for _, part := range slices.Backward(parts) {
			stack.Frames = append(stack.Frames, frames.of(part))
		}
		if err := b.add(stack); err != nil {
			return l.errorf("%w", err)
		}
	}
	return l.err()
}

// processRoot matches the root of stacks of several processes, as package profile
// writes it: the title, which has the number, and versions.
var processRoot = lazyregexp.New(`^(process (\d{1,9})|\S+ (\d{1,9})(?: .*?)?)(?:, Node\.js (v\d[^ ,]*))?(?:, V8 (\d[^ ,]*))?$`)

// process reads what a root says about a process; false if it is a function.
func process(root string) (profile.Process, bool) {
	m := processRoot.FindStringSubmatch(root)
	if m == nil || m[2] == "" && m[4] == "" && m[5] == "" {
		return profile.Process{}, false
	}
	pid, _ := strconv.Atoi(m[2] + m[3]) // one of them is empty
	return profile.Process{PID: pid, Title: m[1], Node: m[4], V8: m[5]}, true
}

// process notes what is known about a process.
func (b *builder) process(p profile.Process) {
	if !slices.Contains(b.profile.Processes, p) && len(b.profile.Processes) < maxProcesses {
		b.profile.Processes = append(b.profile.Processes, p)
	}
}

// maxProcesses bounds the processes of which more than the number is kept.
const maxProcesses = 4096
