package main

import (
	"fmt"
	"path"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"ustack/symbolize"
	"ustack/tools/live"
	"ustack/tools/printable"
	"ustack/tools/profile"
)

// Lines beside the table: the process, the event loop, the table's heading, the help.
const otherLines = 4

// fewLines is the height at which only the table's heading and the table are shown.
const fewLines = 6

// tableHeight is how many rows of the table are on the screen.
func (m *model) tableHeight() int {
	if m.height <= fewLines {
		return max(1, m.height-1)
	}
	return m.height - otherLines
}

// Styles of the view, none of which depends on color alone.
type styles struct{ title, heading, selected, dim, note lipgloss.Style }

func colored() styles {
	s := lipgloss.NewStyle()
	return styles{s.Bold(true), s.Bold(true).Underline(true), s.Reverse(true), s.Faint(true), s.Bold(true).Foreground(lipgloss.Yellow)}
}

func (m *model) View() tea.View {
	v := tea.NewView(m.render(colored()))
	v.AltScreen = !m.left
	if m.left {
		v.Content = "" // the screen is the user's again
	}
	return v
}

// plain returns the view as text, without the keys.
func (m *model) plain() string {
	m.first, m.cursor = 0, -1
	lines := strings.Split(ansi.Strip(m.render(colored())), "\n")
	if m.height > fewLines {
		lines = lines[:len(lines)-1]
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

// render returns at most height lines of at most width columns.
func (m *model) render(s styles) string {
	var lines []string
	add := func(style lipgloss.Style, text string) {
		lines = append(lines, style.Render(ansi.Truncate(text, m.width, "…")))
	}
	few := m.height <= fewLines
	if !few {
		add(s.title, m.process())
		add(lipgloss.NewStyle(), m.eventLoop())
	}
	add(s.heading, m.heading())
	for i := m.first; i < min(len(m.rows), m.first+m.tableHeight()); i++ {
		style := lipgloss.NewStyle()
		if i == m.cursor {
			style = s.selected
		}
		add(style, m.line(m.rows[i]))
	}
	if len(m.rows) == 0 {
		add(s.dim, m.empty())
	}
	if few {
		return strings.Join(lines[:min(len(lines), m.height)], "\n")
	}
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	style, text := m.bottom(s)
	add(style, text)
	return strings.Join(lines, "\n")
}

// process says what is watched.
func (m *model) process() string {
	parts := []string{printable.String(m.title)}
	if m.node != "" {
		parts[0] += ", Node.js " + m.node
	}
	if !m.at.IsZero() {
		parts = append(parts, fmt.Sprintf("%d samples of the last %.0f s", m.total, m.window.Span().Seconds()), m.at.Format(time.TimeOnly))
	}
	if m.lost > 0 {
		parts = append(parts, fmt.Sprintf("%d lost", m.lost))
	}
	if m.frozen {
		parts = append(parts, "FROZEN")
	}
	return strings.Join(parts, "  ")
}

// eventLoop says how the main thread has spent the last second.
func (m *model) eventLoop() string {
	if m.shares == nil {
		return "main thread:"
	}
	text := "main thread:"
	for _, share := range m.shares {
		const least = 0.5 // rounds to 1 %
		if share.Percent < least && share.Name != live.Idle && share.Name != "JavaScript" {
			continue
		}
		text += fmt.Sprintf("  %s %.0f%%", share.Name, share.Percent)
	}
	return text
}

func (m *model) heading() string {
	self, total := " SELF", "TOTAL"
	switch {
	case len(m.path) > 0:
	case m.view.BySelf:
		self = "▼SELF"
	default:
		total = "▼TOTAL"
	}
	what := "FUNCTION (all)"
	if m.view.JavaScript {
		what = "FUNCTION (JavaScript, with the native code it calls)"
	}
	if len(m.path) > 0 {
		what = "CALLERS AND CALLEES"
	}
	if m.view.Filter != "" || m.typing {
		what += "  filter: " + printable.String(m.view.Filter)
		if m.typing {
			what += "▏"
		}
	}
	return fmt.Sprintf("%7s %7s  %s", self, total, what)
}

func (m *model) line(r row) string {
	mark := ""
	if r.mark != "" {
		mark = fmt.Sprintf("%-9s ", r.mark)
	}
	return fmt.Sprintf("%7s %7s  %s%s", m.percent(r.Self), m.percent(r.Total), mark, label(r.Function))
}

func (m *model) percent(n uint64) string {
	if n == 0 || m.total == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f%%", 100*float64(n)/float64(m.total))
}

// label names a function on one line, a file without its directories.
func label(f live.Function) string {
	frame := f.Frame()
	if frame.Kind == symbolize.JS && !strings.HasPrefix(frame.File, "node:") {
		frame.File = path.Base(frame.File)
	}
	return strings.ReplaceAll(profile.Label(frame), "\t", " ")
}

// empty says why the table is.
func (m *model) empty() string {
	switch {
	case !m.started:
		return "reading the files of the process …"
	case m.total > 0:
		return "no function matches"
	}
	return "no samples: the process is idle"
}

// bottom returns the last line: a note, or the keys.
func (m *model) bottom(s styles) (lipgloss.Style, string) {
	if m.note != "" {
		return s.note, m.note
	}
	switch {
	case m.typing:
		return s.dim, "type a part of a name or a file   enter keep   esc clear"
	case len(m.path) > 0:
		return s.dim, "enter go there   esc back   f freeze   j JavaScript/all   q quit"
	}
	return s.dim, "s sort   enter callers   / filter   f freeze   j JavaScript/all   q quit"
}
