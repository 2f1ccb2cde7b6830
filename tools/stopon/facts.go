package stopon

import (
	"fmt"
	"io"
	"os"
	"strings"

	"ustack/symbolize"
	"ustack/symbolize/process"
)

// maxCommandLine is how much of a command line is kept: a report shows less,
// and the process can make it as long as it likes.
const maxCommandLine = 4 << 10 // bytes

// processFacts are what a report says about a process besides its name.
type processFacts struct {
	command   []string
	directory string
	inside    int // see process.Process.Inside
}

// readFacts reads a process's facts; those that cannot be read are empty.
func readFacts(pid int) (f processFacts) {
	f.directory, _ = os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
	if p, err := process.Open(pid); err == nil {
		f.inside = p.Inside()
		_ = p.Close() // it was only read
	}
	file, err := os.Open(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return f
	}
	defer file.Close()
	text, _ := io.ReadAll(io.LimitReader(file, maxCommandLine)) // a part is better than nothing
	if len(text) > 0 {
		f.command = strings.Split(strings.TrimRight(string(text), "\x00"), "\x00")
	}
	return f
}

// learn records a process's facts for use after it has ended.
func (s *session) learn(pid int) {
	f := readFacts(pid)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.facts[pid] = f
}

// describe adds the facts of its process to a hit: the command line that it was
// started with, and its current working directory, or its first one if it has
// ended.
func (s *session) describe(h *Hit) {
	s.mutex.Lock()
	f, learned := s.facts[h.PID]
	s.mutex.Unlock()
	if !learned { // it was traced only a moment ago
		f = readFacts(h.PID)
	}
	if directory, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", h.PID)); err == nil {
		f.directory = directory
	}
	h.Command, h.Directory, h.Inside = f.command, f.directory, f.inside
}

// UserFrame returns the first frame of the program's own JavaScript, or else of
// a package in node_modules; nil if only Node.js itself was running.
func (h *Hit) UserFrame() *symbolize.Frame {
	var packaged *symbolize.Frame
	for i := range h.Frames {
		f := &h.Frames[i]
		switch {
		case f.Kind != symbolize.JS || f.File == "" || strings.HasPrefix(f.File, "node:"):
		case !strings.Contains(f.File, "/node_modules/"):
			return f
		case packaged == nil:
			packaged = f
		}
	}
	return packaged
}
