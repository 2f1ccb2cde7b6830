package event

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"ustack/bpf"
)

// A Tracepoint is one of the kernel's own places for probes.
type Tracepoint struct {
	Group, Name string
	Fields      []string // names of those that are arguments
	fields      [maxArguments]bpf.TraceField
}

// maxArguments is how many fields of a tracepoint are arguments.
const maxArguments = len(bpf.TraceUsdt{}.Arguments)

func (t Tracepoint) String() string { return t.Group + ":" + t.Name }

// tracefs is where tracefs is mounted, in the order in which it is looked for.
var tracefs = []string{"/sys/kernel/tracing", "/sys/kernel/debug/tracing"}

// events returns the directory that describes the kernel's tracepoints.
func events() (string, error) {
	for _, root := range tracefs {
		events := filepath.Join(root, "events")
		if _, err := os.Stat(events); err == nil {
			return events, nil
		}
	}
	return "", errors.New("tracefs is not mounted (mount -t tracefs tracefs /sys/kernel/tracing)")
}

// tracepointName is the form of a group's and a tracepoint's name.
var tracepointName = regexp.MustCompile(`^\w+$`)

// parseTracepoint reads "GROUP:NAME" and what the kernel says about its fields.
func parseTracepoint(text string) (*Tracepoint, error) {
	group, name, _ := strings.Cut(text, ":")
	if !tracepointName.MatchString(group) || !tracepointName.MatchString(name) {
		return nil, errors.New("not a tracepoint (write tracepoint:GROUP:NAME)")
	}
	root, err := events()
	if err != nil {
		return nil, err
	}
	t := &Tracepoint{Group: group, Name: name}
	file, err := os.Open(filepath.Join(root, group, name, "format"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no such tracepoint%s", near(text, tracepoints(root)))
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return t, t.readFields(bufio.NewScanner(file))
}

// tracepoints returns all tracepoints, as "sched:sched_switch".
func tracepoints(root string) (names []string) {
	files, _ := filepath.Glob(filepath.Join(root, "*", "*", "format")) // a valid pattern
	for _, file := range files {
		name := filepath.Dir(file)
		names = append(names, filepath.Base(filepath.Dir(name))+":"+filepath.Base(name))
	}
	return names
}

// field is a line about a field: "field:pid_t next_pid; offset:56; size:4; signed:1;".
var field = regexp.MustCompile(`^\s*field:.*?(\w+)(?:\[[^;]*\])?;\s*offset:(\d+);\s*size:(\d+);\s*signed:([01]);`)

// readFields reads the tracepoint's own fields, which follow those of all.
func (t *Tracepoint) readFields(lines *bufio.Scanner) error {
	for lines.Scan() {
		m := field.FindStringSubmatch(lines.Text())
		if m == nil || strings.HasPrefix(m[1], "common_") {
			continue
		}
		if len(t.Fields) == maxArguments {
			break
		}
		offset, err := strconv.ParseUint(m[2], 10, 16)
		size, sizeErr := strconv.ParseUint(m[3], 10, 16)
		if err := errors.Join(err, sizeErr); err != nil {
			return fmt.Errorf("read the fields of %v: %w", t, err)
		}
		const word = 8
		f := bpf.TraceField{Offset: uint16(offset), Size: uint8(min(size, word))}
		if m[4] == "1" {
			f.IsSigned = 1
		}
		t.fields[len(t.Fields)] = f
		t.Fields = append(t.Fields, m[1])
	}
	return lines.Err()
}

// Record returns where the tracepoint's record has its arguments.
func (t *Tracepoint) Record() [maxArguments]bpf.TraceField { return t.fields }
