package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"

	"ustack/cmd/internal/cli"
	"ustack/tools/jscore"
	"ustack/tools/printable"
)

// An output says where results go, and in which form.
type output struct {
	stdout io.Writer
	stderr io.Writer
	json   bool
	color  bool
	pager  bool // on a terminal

	childInterrupted bool // the last child was ended by SIGINT
}

// A sink is where one statement's results go.
type sink struct {
	json   bool
	inside bool // within a JSON array
	count  int  // results
	lines  *lineWriter
	ends   func() error // waits for the reader
}

// open returns the sink of a statement: the shell command, the terminal with its
// pager, or standard output. The caller must close it.
func (o *output) open(ctx context.Context, shell string) (*sink, error) {
	s := &sink{json: o.json, ends: func() error { return nil }}
	mark := printable.String
	if o.color && !o.json {
		mark = func(line string) string { return highlight(printable.String(line)) }
	}
	switch file, ok := o.stdout.(*os.File); {
	case shell != "":
		child := o.child(exec.CommandContext(ctx, "/bin/sh", "-c", shell))
		in, err := child.start()
		if err != nil {
			return nil, err
		}
		s.lines = &lineWriter{w: in, mark: printable.String}
		s.ends = func() error { return errors.Join(in.Close(), child.wait()) }
	case ok && o.pager && cli.Terminal(file):
		rows, _ := cli.Size(file)
		p := &pager{output: o, ctx: ctx, room: rows - 1}
		s.lines, s.ends = &lineWriter{w: p, mark: mark}, p.close
	default:
		s.lines = &lineWriter{w: o.stdout, mark: mark}
	}
	return s, nil
}

// array makes the results an array, whatever their number, if they are written
// as JSON.
func (s *sink) array() { s.inside = true }

// put writes a result.
func (s *sink) put(r jscore.Result) error {
	s.count++
	err := s.write(r)
	if err == nil {
		err = s.lines.err
	}
	if isGone(err) {
		return errStopped
	}
	return err
}

func (s *sink) write(r jscore.Result) error {
	if !s.json {
		return r.WriteText(s.lines)
	}
	text, err := marshal(r)
	if err != nil {
		return err
	}
	if s.inside {
		before := "[\n"
		if s.count > 1 {
			before = ",\n"
		}
		text = append([]byte(before), text...)
	} else {
		text = append(text, '\n')
	}
	_, err = s.lines.Write(text)
	return err
}

// close writes what is left, and waits for the reader.
func (s *sink) close() error {
	if s.json && s.inside {
		end := "\n]\n"
		if s.count == 0 {
			end = "[]\n"
		}
		_, _ = io.WriteString(s.lines, end) // flush returns the error
	}
	err := s.lines.flush()
	if isGone(err) {
		err = nil
	}
	return errors.Join(err, s.ends())
}

func marshal(r jscore.Result) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(r); err != nil {
		return nil, fmt.Errorf("write JSON: %w", err)
	}
	return printable.JSON(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), nil
}

// A child is a command that reads the output.
type child struct {
	*exec.Cmd
	output *output
}

func (o *output) child(cmd *exec.Cmd) child {
	cmd.Stdout, cmd.Stderr = o.stdout, o.stderr
	return child{cmd, o}
}

func (c child) start() (io.WriteCloser, error) {
	in, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, fmt.Errorf("run a shell command: %w", err)
	}
	return in, nil
}

// wait waits for c to end. How it ends does not matter, as in a shell's
// pipeline.
func (c child) wait() error {
	err := c.Wait()
	if c.ProcessState != nil {
		status, _ := c.ProcessState.Sys().(syscall.WaitStatus)
		c.output.childInterrupted = status.Signaled() && status.Signal() == syscall.SIGINT
	}
	if errors.As(err, new(*exec.ExitError)) {
		return nil
	}
	return err
}

// A pager keeps what fits on the terminal, and starts the user's pager when
// there is more.
type pager struct {
	*output
	ctx    context.Context
	room   int // lines
	held   bytes.Buffer
	reader io.WriteCloser // the pager's standard input, once it runs
	child  child
}

// Write keeps b, or passes it to the user's pager.
func (p *pager) Write(b []byte) (int, error) {
	if p.reader != nil {
		return p.reader.Write(b)
	}
	p.held.Write(b)
	if bytes.Count(p.held.Bytes(), []byte("\n")) <= p.room {
		return len(b), nil
	}
	command := cmp.Or(os.Getenv("PAGER"), "less -FRX")
	p.child = p.output.child(exec.CommandContext(context.WithoutCancel(p.ctx), "/bin/sh", "-c", command))
	var err error
	if p.reader, err = p.child.start(); err != nil {
		return 0, err
	}
	_, err = p.reader.Write(p.held.Bytes())
	return len(b), err
}

func (p *pager) close() error {
	if p.reader != nil {
		return errors.Join(p.reader.Close(), p.child.wait())
	}
	_, err := p.stdout.Write(p.held.Bytes())
	return err
}
