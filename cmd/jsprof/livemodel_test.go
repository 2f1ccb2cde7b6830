package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"ustack/symbolize"
	"ustack/tools/live"
	"ustack/tools/profile"
)

// js returns a frame of a function of the program's.
func js(name string) symbolize.Frame {
	return symbolize.Frame{Kind: symbolize.JS, Name: name, File: "/srv/app.js", Line: 1, Column: 1}
}

var work = symbolize.Frame{Kind: symbolize.Native, Name: "work", Module: "/lib/addon.node"}

// watched returns a view that has taken in a second of samples.
func watched(t *testing.T, stacks ...profile.Stack) *model {
	t.Helper()
	m := newModel("node 1 app.js", 99, live.NewWindow(10*time.Second))
	send(m, startMsg(99), second(0, stacks...))
	return m
}

func second(n int, stacks ...profile.Stack) tickMsg {
	p := &profile.Profile{Start: time.Unix(int64(n), 0), Duration: time.Second, Node: "v24.0.0", Stacks: stacks}
	return tickMsg{p, []live.Share{{Name: live.Idle, Percent: 75}, {Name: "JavaScript", Percent: 25}}, time.Unix(int64(n), 0)}
}

func weighed(count uint64, frames ...symbolize.Frame) profile.Stack {
	return profile.Stack{Value: count, Frames: frames}
}

func send(m *model, messages ...tea.Msg) (cmd tea.Cmd) {
	for _, msg := range messages {
		_, cmd = m.Update(msg)
	}
	return cmd
}

// press presses keys, by their names.
func press(m *model, names ...string) (cmd tea.Cmd) {
	keys := map[string]rune{
		"enter": tea.KeyEnter, "esc": tea.KeyEscape, "up": tea.KeyUp, "down": tea.KeyDown, "backspace": tea.KeyBackspace,
		"pgdown": tea.KeyPgDown, "end": tea.KeyEnd, "home": tea.KeyHome,
	}
	for _, name := range names {
		key := tea.KeyPressMsg{Code: keys[name]}
		if key.Code == 0 {
			key.Code, key.Text = rune(name[0]), name
		}
		cmd = send(m, key)
	}
	return cmd
}

// shows returns the functions in the table, in order.
func shows(m *model) string {
	var names []string
	for _, r := range m.rows {
		names = append(names, strings.TrimSpace(r.mark+" "+r.Name))
	}
	return strings.Join(names, ", ")
}

func TestKeys(t *testing.T) {
	stacks := []profile.Stack{weighed(5, work, js("inner"), js("outer")), weighed(2, js("outer")), weighed(1, work)}
	for _, tt := range []struct {
		keys []string
		want string
	}{
		{nil, "inner, outer, [no javascript]"},
		{[]string{"s"}, "outer, inner, [no javascript]"},
		{[]string{"s", "s"}, "inner, outer, [no javascript]"},
		{[]string{"j"}, "work, outer, inner"},
		{[]string{"/", "o", "u"}, "outer"},
		{[]string{"/", "A", "P", "P", "enter"}, "inner, outer"},
		{[]string{"/", "j", "q"}, ""}, // letters of a filter are no commands
		{[]string{"/", "o", "x", "backspace", "enter", "j"}, "work, outer"},
		{[]string{"/", "o", "u", "esc"}, "inner, outer, [no javascript]"},
		{[]string{"/", "o", "u", "enter", "esc"}, "inner, outer, [no javascript]"},
		{[]string{"enter"}, "called by outer, → inner"},
		{[]string{"j", "down", "down", "enter"}, "called by outer, → inner, calls work"},
		{[]string{"enter", "enter"}, "→ outer, calls inner"},
		{[]string{"enter", "down", "enter"}, "called by outer, → inner"}, // the function itself leads nowhere
		{[]string{"enter", "enter", "esc"}, "called by outer, → inner"},
		{[]string{"enter", "enter", "esc", "esc"}, "inner, outer, [no javascript]"},
		{[]string{"enter", "/"}, "inner, outer, [no javascript]"},
	} {
		m := watched(t, stacks...)
		if cmd := press(m, tt.keys...); cmd != nil || m.left {
			t.Errorf("%v: the view is left", tt.keys)
		}
		if got := shows(m); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.keys, got, tt.want)
		}
	}
	m := watched(t)
	if cmd := press(m, "q"); cmd == nil || !m.left || m.ended {
		t.Error("q does not leave the view")
	}
}

func TestSelectionStaysOnItsFunction(t *testing.T) {
	m := watched(t, weighed(3, js("a")), weighed(2, js("b")))
	press(m, "down")
	send(m, second(1, weighed(9, js("b"))))
	if got := m.rows[m.cursor].Name; got != "b" || m.cursor != 0 {
		t.Errorf("selected = %s in row %d, want b in row 0", got, m.cursor)
	}
	m = watched(t, weighed(3, js("a")), weighed(2, js("b")))
	send(m, second(1, weighed(9, js("b"))))
	if m.cursor != 0 {
		t.Errorf("selected row = %d, want the first as long as none was selected", m.cursor)
	}
}

func TestFrozenViewStays(t *testing.T) {
	m := watched(t, weighed(3, js("a")))
	press(m, "f")
	before := m.render(colored())
	if !strings.Contains(before, "FROZEN") {
		t.Error("the view does not say that it is frozen")
	}
	if send(m, second(1, weighed(9, js("b")))); m.render(colored()) != before {
		t.Error("a frozen view has changed")
	}
	press(m, "f")
	if send(m, second(2, weighed(9, js("b")))); shows(m) != "b, a" {
		t.Errorf("after that: %s, want b, a", shows(m))
	}
}

func TestSelectionIsOnTheScreen(t *testing.T) {
	var stacks []profile.Stack
	for i := range 100 {
		stacks = append(stacks, weighed(uint64(200-i), js(fmt.Sprintf("f%02d", i))))
	}
	m := watched(t, stacks...)
	send(m, tea.WindowSizeMsg{Width: 80, Height: 24})
	for _, tt := range []struct{ key, selected string }{
		{"down", "f01"}, {"pgdown", "f20"}, {"end", "f99"}, {"up", "f98"}, {"home", "f00"}, {"up", "f00"},
	} {
		press(m, tt.key)
		if got := m.rows[m.cursor].Name; got != tt.selected {
			t.Errorf("after %s: selected %s, want %s", tt.key, got, tt.selected)
		}
		if !strings.Contains(ansi.Strip(m.render(colored())), tt.selected) {
			t.Errorf("after %s: %s is not on the screen", tt.key, tt.selected)
		}
	}
	press(m, "end")
	send(m, tea.WindowSizeMsg{Width: 80, Height: 8})
	if got := ansi.Strip(m.render(colored())); !strings.Contains(got, "f99") {
		t.Errorf("in a smaller terminal, the selected function is not on the screen:\n%s", got)
	}
}

// TestViewFitsEveryTerminal draws names that would break it in terminals of all sizes.
func TestViewFitsEveryTerminal(t *testing.T) {
	m := watched(t, weighed(9, js("evil\x1b[2J\r\n\t\u202e\x00")), weighed(3, js("宽宽宽宽宽宽宽宽宽宽宽宽宽宽宽宽宽宽宽宽宽")), weighed(2, js(strings.Repeat("x", 9000))))
	m.title = "node 1 \x1b]0;title\x07.js"
	for _, keys := range [][]string{nil, {"j"}, {"enter"}, {"esc", "/", "e"}} {
		press(m, keys...)
		for width := 1; width < 130; width += 7 {
			for height := 1; height < 30; height++ {
				send(m, tea.WindowSizeMsg{Width: width, Height: height})
				lines := strings.Split(m.render(colored()), "\n")
				if len(lines) > height {
					t.Fatalf("%dx%d: %d lines", width, height, len(lines))
				}
				for _, line := range lines {
					text := ansi.Strip(line)
					if got := ansi.StringWidth(line); got > width || strings.ContainsAny(text, "\x1b\r\t\x00\x07\u202e") {
						t.Fatalf("%dx%d: line of %d columns: %q", width, height, got, line)
					}
				}
			}
		}
	}
	send(m, tea.WindowSizeMsg{}) // as of a terminal that does not know its size
	if got := m.render(colored()); got == "" {
		t.Error("a terminal without a size shows nothing")
	}
}

func TestViewSaysWhyItIsEmpty(t *testing.T) {
	m := newModel("node 1", 99, live.NewWindow(10*time.Second))
	for _, tt := range []struct {
		do   func()
		want string
	}{
		{func() {}, "reading the files"},
		{func() { send(m, startMsg(99)) }, "no samples: the process is idle"},
		{func() { send(m, second(0, weighed(1, js("a")))); press(m, "/", "z") }, "no function matches"},
		{func() { send(m, noteMsg("something is odd")) }, "something is odd"},
	} {
		tt.do()
		if got := ansi.Strip(m.render(colored())); !strings.Contains(got, tt.want) {
			t.Errorf("view has no %q:\n%s", tt.want, got)
		}
	}
}

func TestEndLeavesTheLastView(t *testing.T) {
	m := watched(t, weighed(3, js("a")))
	if cmd := send(m, endMsg{}); cmd == nil || !m.ended {
		t.Fatal("the view stays after the process has ended")
	}
	if v := m.View(); v.AltScreen || v.Content != "" {
		t.Errorf("at the end, the view is %+v, want the user's screen", v)
	}
	for _, want := range []string{"idle 75%", "100.0%", "a app.js:1:1"} {
		if got := m.plain(); !strings.Contains(got, want) || strings.Contains(got, "\x1b") {
			t.Errorf("last view = %q, want %q in it, and no escape sequence", got, want)
		}
	}
	m = watched(t)
	if send(m, endMsg{fmt.Errorf("broken")}); m.ended {
		t.Error("after an error, the process is said to have ended")
	}
}
