package jsprof

import (
	"fmt"

	"ustack/symbolize"
	"ustack/tools/profile"
	"ustack/tools/trace"
)

// maxSources bounds the functions whose sources a profile has.
const maxSources = 1000

// readSources adds the sources of the functions that are wanted to a profile.
func (s *session) readSources(p *profile.Profile) {
	p.Sources = make(profile.Sources)
	texts := make(map[trace.Source]*profile.Text) // processes may share a file
	wanted := make(map[symbolize.Frame]bool)
	omitted := false
	for _, stack := range p.Stacks {
		for _, f := range stack.Frames {
			want, known := wanted[f]
			if !known {
				want = s.o.Sources(f)
				wanted[f] = want
			}
			definition := profile.DefinitionOf(stack.PID, f)
			if _, ok := p.Sources[definition]; ok || !want {
				continue
			}
			if len(p.Sources) == maxSources {
				omitted = true
				continue
			}
			p.Sources[definition] = s.readSource(stack.PID, f, texts)
		}
	}
	if omitted {
		s.Warn(fmt.Errorf("more than %d functions match: the others are shown without their text", maxSources))
	}
}

// readSource returns the source of a function of process pid. texts are those read so far.
func (s *session) readSource(pid int, f symbolize.Frame, texts map[trace.Source]*profile.Text) profile.Source {
	found, err := s.Table.Source(pid, f)
	if err != nil {
		return profile.Source{Err: err}
	}
	last := found.LastLine
	found.LastLine = 0
	text, ok := texts[found]
	if !ok {
		text = profile.NewText(found.Text, found.Line, found.From)
		texts[found] = text
	}
	return profile.Source{Text: text, LastLine: last}
}
