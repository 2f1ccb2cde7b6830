package process

import (
	"fmt"
	"path"
	"strconv"
	"strings"
)

// maxTitle bounds the bytes of a program's or a script's name in a title:
// arguments may be megabytes long.
const maxTitle = 80

// Title names the process for people: "node 4242 server.js", that is its program
// or the name it gave itself, its PID, and the script that it runs. A process in a
// container has a second number: "node 4242 (1 inside) server.js". It may hold any
// byte.
func (p *Process) Title() string {
	text, err := p.read("cmdline", maxStatus)
	if err != nil {
		text = nil // absurdly long, or the process is gone
	}
	comm, _ := p.Comm()
	ids := strconv.Itoa(p.pid)
	if inside := p.Inside(); inside != 0 {
		ids += fmt.Sprintf(" (%d inside)", inside)
	}
	return title(ids, comm, string(text))
}

func title(ids, comm, cmdline string) string {
	args := strings.Split(strings.TrimRight(cmdline, "\x00"), "\x00")
	program := bounded(path.Base(args[0]))
	if args[0] == "" {
		program = comm
	}
	words := []string{program, ids}
	if s := script(args[1:]); s != "" {
		words = append(words, s)
	}
	return strings.Join(words, " ")
}

// script returns the last parts of the script's path among Node.js's arguments:
// the first that is not a flag. For -e or -p it returns the flag: the argument
// that follows is code, not a name.
func script(args []string) string {
	for i, arg := range args {
		switch {
		case arg == "-e" || arg == "--eval" || arg == "-p" || arg == "--print" || arg == "-pe":
			return arg
		case strings.HasPrefix(arg, "-") || arg == "", i > 0 && takesValue(args[i-1]):
			continue
		}
		name := path.Base(arg)
		if dir := path.Base(path.Dir(arg)); strings.HasPrefix(name, "index.") && len(dir) > 1 {
			name = dir + "/" + name
		}
		return bounded(name)
	}
	return ""
}

// takesValue reports whether a flag's value is the next argument. It knows only
// the common flags.
func takesValue(flag string) bool {
	switch flag {
	case "-r", "--require", "--import", "--loader", "--experimental-loader", "-C", "--conditions", "--env-file":
		return true
	}
	return false
}

func bounded(s string) string { return s[:min(len(s), maxTitle)] }
