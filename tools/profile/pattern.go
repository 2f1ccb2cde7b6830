package profile

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/agnivade/levenshtein"

	"ustack/symbolize"
	"ustack/tools/printable"
	"ustack/tools/profile/internal/lazyregexp"
)

// A Pattern says which JavaScript functions are meant: FUNCTION, FILE:FUNCTION, FILE:LINE
// or FILE:LINE:COLUMN. FUNCTION and FILE:FUNCTION are texts, or regular expressions, that
// are anywhere in the function's name, or in its file and its name; FILE is the end of a
// path. LINE and COLUMN are where the function is defined, or LINE is one that executes.
type Pattern struct {
	text         string
	expression   *regexp.Regexp
	file         *regexp.Regexp // nil if the pattern has no line
	line, column int            // column is 0 if the pattern has none
}

var withLine = lazyregexp.New(`^(.+?):(\d{1,9})(?::(\d{1,9}))?$`)

// ParsePattern returns a Pattern.
func ParsePattern(text string) (*Pattern, error) {
	expression, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	p := &Pattern{text: text, expression: expression}
	if parts := withLine.FindStringSubmatch(text); parts != nil {
		if p.file, err = regexp.Compile(`(?:^|/)(?:` + parts[1] + `|` + regexp.QuoteMeta(parts[1]) + `)$`); err != nil {
			return nil, err
		}
		p.line, _ = strconv.Atoi(parts[2])
		p.column, _ = strconv.Atoi(parts[3])
	}
	return p, nil
}

// Matches reports whether a frame is of a function that is meant.
func (p *Pattern) Matches(f symbolize.Frame) bool {
	if f.Kind != symbolize.JS {
		return false
	}
	if p.file != nil {
		return p.file.MatchString(f.File) && p.isAt(f) || f.GeneratedFile != "" && p.file.MatchString(f.GeneratedFile) && p.isAt(generated(f))
	}
	for _, text := range []string{f.File + ":" + f.Name, name(f)} {
		if strings.Contains(text, p.text) || p.expression.MatchString(text) {
			return true
		}
	}
	return false
}

func (p *Pattern) isAt(f symbolize.Frame) bool {
	if p.column > 0 {
		return f.Line == p.line && f.Column == p.column
	}
	return f.Line == p.line || f.ExecutingLine == p.line
}

// generated returns f with the places of the script itself.
func generated(f symbolize.Frame) symbolize.Frame {
	f.File, f.Line, f.Column = f.GeneratedFile, f.GeneratedLine, f.GeneratedColumn
	f.ExecutingLine, f.ExecutingColumn = f.GeneratedExecutingLine, f.GeneratedExecutingColumn
	return f
}

// Bounds on what is searched for similar names.
const (
	maxSimilar     = 3
	maxSimilarName = 64 // characters
	leastPart      = 3  // characters of a name that is part of another one
)

// none returns an error for a profile without functions that are meant. It names some that
// are similar, or else those with the largest values.
func (p *Pattern) none(of *Profile) error {
	wanted := p.text[strings.LastIndexByte(p.text, ':')+1:]
	if p.file != nil {
		wanted = ""
	}
	var names []string
	what := "similar"
	for _, similar := range []bool{true, false} {
		for _, r := range programs(of.Stacks) {
			text := name(r.frame)
			if r.frame.Kind != symbolize.JS || len(names) == maxSimilar || similar && !isSimilar(text, wanted) {
				continue
			}
			if !similar {
				text, what = Label(r.frame), "those with the most are"
			}
			names = append(names, text)
		}
		if len(names) > 0 {
			return fmt.Errorf("annotate %s: no JavaScript function matches (%s: %s)", printable.String(p.text), what, strings.Join(names, ", "))
		}
	}
	return fmt.Errorf("annotate %s: no JavaScript function matches (the stacks have none)", printable.String(p.text))
}

// isSimilar reports whether two names differ by little: by letters' cases, by a part, or
// by half of their characters.
func isSimilar(a, b string) bool {
	a, b = strings.ToLower(cut(a, maxSimilarName)), strings.ToLower(cut(b, maxSimilarName))
	if min(len(a), len(b)) >= leastPart && (strings.Contains(a, b) || strings.Contains(b, a)) {
		return true
	}
	return 2*levenshtein.ComputeDistance(a, b) <= max(len(a), len(b))
}
