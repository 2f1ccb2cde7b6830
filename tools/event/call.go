package event

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"ustack/bpf"
)

// An Argument of a system call, a function or another probe.
type Argument struct {
	Name   string
	Value  uint64
	Text   string // for people
	Signed bool   // Value is an int64
}

// MarshalJSON returns the argument as an object with name, value (a number) and text.
func (a Argument) MarshalJSON() ([]byte, error) {
	var value any = a.Value
	if a.Signed {
		value = int64(a.Value)
	}
	return json.Marshal(struct {
		Name  string `json:"name"`
		Value any    `json:"value"`
		Text  string `json:"text"`
	}{a.Name, value, a.Text})
}

// A Call is a system call that was made: what the kernel half has read of it.
type Call struct {
	Syscall *Syscall
	Values  [6]uint64 // of the arguments
	Result  int64     // as the kernel returns it: an error is its negative number
	// Path is the first one that was passed to it. Unless PathRead, it is not known; if PathCut, it
	// is longer.
	Path              string
	PathRead, PathCut bool
	Address           string  // passed to it or returned by it, as in Socket
	Socket            *Socket // that it worked on, or accepted; nil if none
	// Data is what it has written or read, or the beginning of that; empty if that was not
	// taken. DataCut says that there is more.
	Data    string
	DataCut bool
	// Opened says what a file descriptor refers to, as "</dev/null>". It may be nil.
	Opened func(fd int32) string
}

// SetPath sets the path to what the kernel half has read of it, if the call has one.
func (c *Call) SetPath(m bpf.TraceMatch) {
	if c.Syscall.First(KindPath) < 0 {
		return
	}
	c.Path = string(m.Text[:min(int(m.Length), len(m.Text))])
	c.PathRead, c.PathCut = m.Read != uint32(bpf.TraceTextReadTEXT_UNREAD), m.Read == uint32(bpf.TraceTextReadTEXT_CUT)
}

// Errno returns the error that the call returned; 0 if none.
func (c *Call) Errno() unix.Errno {
	const lastErrno = 4095 // include/linux/err.h: MAX_ERRNO
	if c.Result < 0 && c.Result >= -lastErrno {
		return unix.Errno(-c.Result)
	}
	return 0
}

// ErrnoName returns the name of that error; "" if there is none.
func (c *Call) ErrnoName() string {
	if e := c.Errno(); e != 0 {
		return ErrnoName(e)
	}
	return ""
}

// Called returns the call's name and arguments: "close(fd=21)".
func (c *Call) Called() string { return c.Syscall.Name + "(" + List(c.shown()) + ")" }

// mapping are the system calls that return an address.
var mapping = []string{"mmap", "mremap", "brk", "shmat"}

// Returned returns the call's result, with the error's name and text if it is one.
func (c *Call) Returned() string {
	result := strconv.FormatInt(c.Result, 10)
	if slices.Contains(mapping, c.Syscall.Name) {
		result = Integer(uint64(c.Result))
	}
	if e := c.Errno(); e != 0 {
		result = fmt.Sprintf("-1 %s (%s)", ErrnoName(e), errnoText(e))
	}
	if a, _ := c.Syscall.Address(); a.Accepts() && c.Result >= 0 {
		result += c.Socket.shown()
	}
	return result
}

// Arguments returns all of the call's arguments.
func (c *Call) Arguments() []Argument {
	all := make([]Argument, 0, len(c.Syscall.Parameters))
	path, address := c.Syscall.First(KindPath), -1
	a, addressed := c.Syscall.Address()
	if addressed {
		address = a.Argument
	}
	for i, p := range c.Syscall.Parameters[:min(len(c.Syscall.Parameters), len(c.Values))] {
		a := Argument{Name: p.Name}
		a.Value, a.Signed = p.value(c.Values[i])
		a.Text = argumentText(c.Syscall.Name, p, a.Value)
		switch {
		case i == path && c.PathRead:
			a.Text = quoted(c.Path, c.PathCut)
		case i == dataArgument && c.Data != "":
			a.Text = quoted(c.Data, c.DataCut)
		case i == address && c.Address != "":
			a.Text = quotedName(c.Address)
		case p.Kind == KindDescriptor && addressed: // the address includes it
		case p.Kind == KindDescriptor && c.Socket != nil && i == c.Syscall.First(KindDescriptor):
			a.Text += c.Socket.shown()
		case p.Kind == KindDescriptor && c.Opened != nil:
			a.Text += c.Opened(int32(a.Value))
		}
		all = append(all, a)
	}
	return all
}

// quoted quotes a text, and marks it if there is more.
func quoted(text string, cut bool) string {
	if cut {
		return strconv.Quote(text) + "..."
	}
	return strconv.Quote(text)
}

// shown returns the arguments for a line. Of an address that was decoded, it omits the
// pointer and the length.
func (c *Call) shown() []Argument {
	all := c.Arguments()
	a, ok := c.Syscall.Address()
	if !ok || c.Address == "" || a.Argument+1 >= len(all) {
		return all
	}
	all[a.Argument].Name = ""
	return slices.Delete(all, a.Argument+1, a.Argument+2)
}

// kernelErrnos are the errors with which a system call asks the kernel to begin it again after a
// signal (include/linux/errno.h). The program sees none of them.
var kernelErrnos = map[unix.Errno]string{
	512: "ERESTARTSYS", 513: "ERESTARTNOINTR", 514: "ERESTARTNOHAND", 516: "ERESTART_RESTARTBLOCK",
}

// ErrnoName returns the name of an error, such as "EBADF".
func ErrnoName(e unix.Errno) string {
	if name := unix.ErrnoName(e); name != "" {
		return name
	}
	if name := kernelErrnos[e]; name != "" {
		return name
	}
	return fmt.Sprintf("E%d", int(e))
}

// errnoText says what an error means.
func errnoText(e unix.Errno) string {
	if kernelErrnos[e] != "" {
		return "interrupted by a signal"
	}
	return e.Error()
}

// argumentText formats a system call's argument for people.
func argumentText(call string, p Parameter, v uint64) string {
	if text := symbols(call, p, v); text != "" {
		return text
	}
	switch p.Kind {
	case KindDescriptor:
		if int32(v) == unix.AT_FDCWD {
			return "AT_FDCWD"
		}
		return strconv.FormatInt(int64(v), 10)
	case kindInt, kindLong:
		return strconv.FormatInt(int64(v), 10)
	case kindUnsigned, kindSize:
		return strconv.FormatUint(v, 10)
	}
	return Integer(v)
}

// Integer formats a number in the base that suits its size.
func Integer(v uint64) string {
	if s := int64(v); s >= -1<<15 && s < 1<<15 {
		return strconv.FormatInt(s, 10)
	}
	if v>>32 == 0 && int32(v) < 0 && int32(v) >= -1<<15 {
		return strconv.Itoa(int(int32(v)))
	}
	return "0x" + strconv.FormatUint(v, 16)
}

// List returns arguments on one line: "fd=21, count=5".
func List(arguments []Argument) string {
	var b strings.Builder
	for i, a := range arguments {
		if i > 0 {
			b.WriteString(", ")
		}
		if a.Name != "" {
			b.WriteString(a.Name + "=")
		}
		b.WriteString(a.Text)
	}
	return b.String()
}
