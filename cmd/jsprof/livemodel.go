package main

import (
	"time"

	tea "charm.land/bubbletea/v2"

	"ustack/tools/live"
	"ustack/tools/profile"
)

// Messages to the view.
type (
	startMsg int    // sampling runs, at this rate
	noteMsg  string // something to know, printable
	endMsg   struct{ err error }
	tickMsg  struct { // what was sampled in the last second
		profile *profile.Profile
		shares  []live.Share
		at      time.Time
	}
)

// A model is the state of the view.
type model struct {
	title   string
	node    string
	hz      int
	started bool
	ended   bool // the process has
	left    bool // the view is
	note    string
	at      time.Time // of the last refresh
	lost    uint64

	window *live.Window
	shares []live.Share
	view   live.View
	frozen bool
	typing bool            // the filter
	path   []live.Function // whose callers and callees are shown: the last one's

	rows          []row
	total         uint64
	cursor, first int  // the selected row, and the first one on the screen
	moved         bool // the selection follows its function
	width, height int
}

// A row is a line of the table.
type row struct {
	live.Row
	mark string // what the function is to the one whose callers and callees are shown
}

func newModel(title string, hz int, window *live.Window) *model {
	return &model{title: title, hz: hz, window: window, view: live.View{JavaScript: true, BySelf: true}, width: 80, height: 24}
}

func (m *model) Init() tea.Cmd { return nil }

func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = max(msg.Width, 1), max(msg.Height, 1)
	case startMsg:
		m.started, m.hz = true, int(msg)
	case noteMsg:
		m.note = string(msg)
	case endMsg:
		m.ended = msg.err == nil && !m.left
		m.left = true
		return m, tea.Quit
	case tickMsg:
		m.tick(msg)
	case tea.KeyPressMsg:
		if cmd := m.key(msg); cmd != nil {
			return m, cmd
		}
	}
	m.fill()
	return m, nil
}

// tick takes in a second's samples, unless the view is frozen.
func (m *model) tick(msg tickMsg) {
	if m.frozen {
		return
	}
	m.window.Add(msg.profile)
	m.shares, m.at, m.lost, m.node = msg.shares, msg.at, msg.profile.Lost, msg.profile.Node
}

// key acts on a key.
func (m *model) key(msg tea.KeyPressMsg) tea.Cmd {
	name := msg.String()
	switch {
	case name == "ctrl+c", name == "q" && !m.typing:
		m.left = true
		return tea.Quit
	case name == "ctrl+z":
		return tea.Suspend
	case m.typing:
		m.typeFilter(name, msg.Text)
	case m.move(name):
	default:
		m.command(name)
	}
	return nil
}

// maxFilter bounds the characters of a filter.
const maxFilter = 100

func (m *model) typeFilter(name, text string) {
	filter := []rune(m.view.Filter)
	switch {
	case name == "enter":
		m.typing = false
	case name == "esc":
		m.typing, m.view.Filter = false, ""
	case name == "backspace":
		m.view.Filter = string(filter[:max(0, len(filter)-1)])
	case text != "" && len(filter) < maxFilter:
		m.view.Filter += text
	}
	m.top()
}

// top selects the first row.
func (m *model) top() { m.cursor, m.first, m.moved = 0, 0, false }

// move moves the selection, and reports whether the key does that.
func (m *model) move(name string) bool {
	page := max(1, m.tableHeight()-1)
	by, ok := map[string]int{
		"up": -1, "k": -1, "down": 1, "pgup": -page, "pgdown": page, "home": -len(m.rows), "end": len(m.rows),
	}[name]
	if ok {
		m.cursor = min(max(0, m.cursor+by), max(0, len(m.rows)-1))
		m.moved = m.cursor > 0
	}
	return ok
}

func (m *model) command(name string) {
	switch name {
	case "s":
		m.view.BySelf = !m.view.BySelf
	case "j":
		m.view.JavaScript = !m.view.JavaScript
		m.top()
	case "f":
		m.frozen = !m.frozen
	case "/":
		m.typing, m.path = true, nil
		m.top()
	case "enter":
		if m.cursor < len(m.rows) && !m.around(m.rows[m.cursor].Function) {
			m.path = append(m.path, m.rows[m.cursor].Function)
			m.top()
		}
	case "esc", "backspace", "left":
		if len(m.path) > 0 {
			m.path = m.path[:len(m.path)-1]
		} else {
			m.view.Filter = ""
		}
		m.top()
	}
}

// around reports whether a function's callers and callees are shown.
func (m *model) around(f live.Function) bool {
	return len(m.path) > 0 && m.path[len(m.path)-1] == f
}

// fill fills the table.
func (m *model) fill() {
	var selected live.Function
	if m.moved && m.cursor < len(m.rows) {
		selected = m.rows[m.cursor].Function
	}
	m.rows = m.rows[:0]
	if len(m.path) > 0 {
		m.fillAround(m.path[len(m.path)-1])
	} else {
		t := m.window.Table(m.view)
		m.total = t.Total
		for _, r := range t.Rows {
			m.rows = append(m.rows, row{Row: r})
		}
	}
	for i := range m.rows {
		if m.moved && m.rows[i].Function == selected {
			m.cursor = i
			break
		}
	}
	m.cursor = min(m.cursor, max(0, len(m.rows)-1))
	height := m.tableHeight()
	m.first = max(min(m.first, m.cursor), m.cursor-height+1, 0)
	m.first = min(m.first, max(0, len(m.rows)-height))
}

// fillAround fills the table with a function's callers, the function, and its callees.
func (m *model) fillAround(f live.Function) {
	all := m.window.Table(live.View{JavaScript: m.view.JavaScript})
	m.total = all.Total
	callers, callees := m.window.Around(f, m.view)
	for i := range callers.Rows {
		m.rows = append(m.rows, row{callers.Rows[len(callers.Rows)-1-i], "called by"})
	}
	own := row{live.Row{Function: f}, "→"}
	for _, r := range all.Rows {
		if r.Function == f {
			own.Row = r
		}
	}
	m.rows = append(m.rows, own)
	for _, r := range callees.Rows {
		m.rows = append(m.rows, row{r, "calls"})
	}
}
