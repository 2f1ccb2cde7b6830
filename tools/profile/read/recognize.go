package read

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"ustack/tools/profile/internal/lazyregexp"
)

// objectFormat returns the format of a file of JSON objects, by the names of the first
// one's fields.
func objectFormat(all []byte) (string, error) {
	each, err := objects(all)
	if err != nil {
		return "", fmt.Errorf("read as JSON: %w", err)
	}
	var top map[string]json.RawMessage
	if err := decode(each[0], &top); err != nil {
		return "", fmt.Errorf("read as JSON: %w", err)
	}
	has := func(names ...string) bool {
		for _, name := range names {
			if _, ok := top[name]; !ok {
				return false
			}
		}
		return true
	}
	switch {
	case has("stacks"):
		return "json", nil
	case has("shared", "profiles"):
		return "speedscope", nil
	case has("nodes"):
		return "cpuprofile", nil
	case isStackvisTree(top):
		return stackvisTree, nil
	case has("traceEvents"):
		return "", errors.New("recognize the format: it is a trace of Chrome (save its profile as .cpuprofile)")
	}
	return "", errors.New("recognize the format: the object has fields of none of json, speedscope, cpuprofile and stackvis")
}

// isStackvisTree reports whether each field is a node of stackvis's.
func isStackvisTree(top map[string]json.RawMessage) bool {
	for _, field := range top {
		if !bytes.Contains(field, []byte(`"svTotal"`)) {
			return false
		}
	}
	return len(top) > 0
}

// maxLooked bounds the lines by which a format is recognized.
const maxLooked = 1000

var (
	dtraceHeading = lazyregexp.New(`^\s*CPU\s+ID\s+FUNCTION:NAME\s*$`)
	onlyNumber    = lazyregexp.New(`^\s+\d+\s*$`)
	foldedLine    = lazyregexp.New(`\S \d+\s*$`)
)

// textFormat returns the format of a text, empty for none.
func textFormat(head []byte) string {
	var folded, numbers, semicolons, commas int
	var looked []string
	for line := range bytes.Lines(head) {
		if looked = append(looked, string(line)); len(looked) == maxLooked {
			break
		}
	}
	for i, line := range looked {
		switch {
		case dtraceHeading.MatchString(line):
			return "dtrace"
		case perfHeader.MatchString(strings.TrimRight(line, " \t\r\n")) && perfFollows(looked[i:]):
			return "perf"
		case onlyNumber.MatchString(line):
			numbers++
		case foldedLine.MatchString(line):
			folded++
			semicolons += strings.Count(line, ";") - strings.Count(line, "; ")
			commas += strings.Count(line, ",") - strings.Count(line, ", ")
		}
	}
	switch {
	case numbers > folded:
		return "dtrace"
	case folded > 0 && commas > semicolons:
		return "stackvis"
	case folded > 0:
		return "collapsed"
	}
	return ""
}

// perfFollows reports whether what begins with a header of perf's has a frame, too.
func perfFollows(lines []string) bool {
	if m := perfHeader.FindStringSubmatch(strings.TrimRight(lines[0], " \t\r\n")); m[perfRest] != "" {
		return perfFrame.MatchString(m[perfRest])
	}
	return len(lines) > 1 && perfFrame.MatchString(strings.TrimSpace(lines[1]))
}
