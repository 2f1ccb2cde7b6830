package trace

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"ustack/symbolize/process"
)

func TestSelectionIsMadeInOneWay(t *testing.T) {
	for _, tt := range []struct {
		s    Selection
		want string
	}{
		{Selection{PIDs: []int{1, 2}}, ""},
		{Selection{Comm: "node"}, ""},
		{Selection{Cgroup: "/"}, ""},
		{Selection{Container: "web"}, ""},
		{Selection{All: true}, ""},
		{Selection{Command: []string{"true"}}, ""},
		{Selection{}, ErrNoSelection.Error()},
		{Selection{PIDs: []int{}, Command: []string{}}, ErrNoSelection.Error()},
		{Selection{PIDs: []int{1}, All: true}, errSelections.Error()},
		{Selection{Comm: "node", Cgroup: "/"}, errSelections.Error()},
		{Selection{Comm: "node", Container: "web"}, errSelections.Error()},
		{Selection{All: true, Command: []string{"true"}}, errSelections.Error()},
		{Selection{PIDs: []int{1, 0}}, "0 is not a process ID"},
		{Selection{PIDs: []int{-4242}}, "-4242 is not a process ID"},
	} {
		err := tt.s.Check()
		if got := errorText(err); got != tt.want {
			t.Errorf("%+v: err = %q, want %q", tt.s, got, tt.want)
		}
		if errors.Is(err, ErrNoSelection) != (tt.want == ErrNoSelection.Error()) {
			t.Errorf("%+v: err = %v, wraps ErrNoSelection wrongly", tt.s, err)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestSelectionChoosesProcesses(t *testing.T) {
	comm, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	self := process.Listed{PID: os.Getpid(), Comm: strings.TrimSuffix(string(comm), "\n")}
	all, err := process.FindCgroup("/")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name      string
		s         Selection
		selected  bool
		continues bool // processes that start later may be selected
	}{
		{"all", Selection{All: true}, true, true},
		{"its name", Selection{Comm: self.Comm}, true, true},
		{"another name", Selection{Comm: "another name"}, false, true},
		{"the root control group", Selection{Cgroup: all}, true, true},
		{"another control group", Selection{Cgroup: "/another/group"}, false, true},
		{"its id", Selection{PIDs: []int{self.PID}}, true, false},
		{"another id", Selection{PIDs: []int{1 << 22}}, false, false},
	} {
		pids, err := tt.s.list()
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Contains(pids, self.PID); got != tt.selected {
			t.Errorf("%s: this process is among %v: %v, want %v", tt.name, pids, got, tt.selected)
		}
		if got := tt.s.goesOn(); got != tt.continues {
			t.Errorf("%s: new processes are selected: %v, want %v", tt.name, got, tt.continues)
		}
		if tt.continues && tt.s.selects(self) != tt.selected {
			t.Errorf("%s: selects this process: %v, want %v", tt.name, !tt.selected, tt.selected)
		}
	}
}
