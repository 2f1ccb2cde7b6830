package sourcemap

import (
	"strings"

	"ustack/symbolize"
)

// Defined returns the frame of a function of the script with the place of its definition
// and its name as the source has them. It returns f itself if m is nil or does not say
// where the function comes from.
func (m *Map) Defined(f symbolize.Frame) symbolize.Frame {
	if m == nil {
		return f
	}
	name := f.Name
	if strings.HasPrefix(name, "(") || strings.HasPrefix(name, "<") { // "(anonymous)" and the like are in no script
		name = ""
	}
	p, ok := m.Function(f.Line, f.Column, name)
	if !ok {
		return f
	}
	f.GeneratedFile, f.GeneratedLine, f.GeneratedColumn = f.File, f.Line, f.Column
	f.File, f.Line, f.Column = p.File, p.Line, p.Column
	if p.Name != "" {
		f.Name = p.Name
	}
	return f
}

// Executing returns a frame that Defined has returned, with the executing position that is
// at line and column of the script. It is not known if it comes from another source than
// the function's definition, as of code that a bundler has moved. M may be nil.
func (m *Map) Executing(f symbolize.Frame, line, column int) symbolize.Frame {
	if m == nil || f.GeneratedFile == "" {
		f.ExecutingLine, f.ExecutingColumn = line, column
		return f
	}
	f.GeneratedExecutingLine, f.GeneratedExecutingColumn = line, column
	f.ExecutingLine, f.ExecutingColumn = 0, 0
	if p, ok := m.Original(line, column); ok && p.File == f.File {
		f.ExecutingLine, f.ExecutingColumn = p.Line, p.Column
	}
	return f
}
