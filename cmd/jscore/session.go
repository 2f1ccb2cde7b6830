package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"

	"ustack/cmd/internal/cli"
	"ustack/symbolize/contain"
	"ustack/symbolize/v8"
	"ustack/tools/jscore"
)

// A session runs lines of commands on one dump.
type session struct {
	dump     *jscore.Dump
	options  jscore.Options // with which other cores are opened
	commands registry
	messages *cli.Messages
	output   output
	status   int            // the worst exit status of a command so far
	over     bool           // quit was called
	frame    jscore.FrameID // the one that jsframe selected; zero: none
	expressed

	objects  *jscore.Graph     // nil until a command has asked for it
	retained *jscore.Dominated // likewise
	marked   []v8.Value        // by findjsobjects -m
	doing    string            // what takes time at the moment, for all commands; empty: nothing
}

// heap returns the reader of JavaScript objects.
func (s *session) heap() (*v8.Heap, error) {
	if h := s.dump.Heap(); h != nil {
		return h, nil
	}
	return nil, errors.New("V8's heap cannot be read (see the messages at the start; --exe names the program)")
}

// graph returns all objects with their references. The first call takes time. Once ctx is done
// it returns its error, with a graph for a census of what was found until then.
func (s *session) graph(ctx context.Context) (*jscore.Graph, error) {
	if s.objects == nil {
		if _, err := s.heap(); err != nil {
			return nil, err
		}
		s.begin("looking at all objects")
		defer s.messages.Clear()
		g, err := s.dump.Graph(ctx)
		if err != nil {
			return g, err
		}
		s.objects, s.doing = g, ""
	}
	return s.objects, nil
}

// dominated returns what each object keeps alive. The first call takes time.
func (s *session) dominated(ctx context.Context) (*jscore.Dominated, error) {
	g, err := s.graph(ctx)
	if err != nil {
		return nil, err
	}
	if s.retained == nil {
		s.begin("finding out what each object keeps alive")
		defer s.messages.Clear()
		if s.retained, err = g.Dominated(ctx); err != nil {
			return nil, err
		}
		s.doing = ""
	}
	return s.retained, nil
}

// begin shows what is being done until it is done or interrupted.
func (s *session) begin(doing string) {
	s.doing = doing
	s.messages.Progressf("%s", doing)
}

// interrupted says that a command has no result, and what it has not finished.
func (s *session) interrupted(command string) {
	if s.doing == "" {
		s.messages.Notef("%s: interrupted before it had a result", command)
		return
	}
	s.messages.Notef("%s: interrupted while %s: nothing of that is known", command, s.doing)
	s.doing = ""
}

// line runs a line of commands. It reports errors and records them in the
// status; the statements after a failed one still run.
func (s *session) line(ctx context.Context, line string) {
	statements, err := parse(line)
	if err != nil {
		s.complain(cli.Usagef("%v", err))
		return
	}
	for _, statement := range statements {
		if err := s.statement(ctx, statement); err != nil {
			s.complain(err)
		}
		for _, err := range s.dump.Warnings() {
			s.messages.Warn(err)
		}
		if ctx.Err() != nil || s.over {
			return
		}
	}
}

// complain reports an error.
func (s *session) complain(err error) {
	switch {
	case errors.Is(err, errStopped), errors.Is(err, context.Canceled):
		return // as requested
	case errors.Is(err, cli.ErrUsage):
		s.status = cli.Usage
	default:
		s.status = max(s.status, cli.Failed)
	}
	s.messages.Warn(err)
}

func (s *session) statement(ctx context.Context, st statement) (err error) {
	stages := make([]*stage, len(st.calls))
	for i, c := range st.calls { // an error in the last must not cost the time of the first
		if stages[i], err = s.commands.prepare(c, i > 0, s); err != nil {
			return err
		}
	}
	if len(stages) > 0 && len(stages[0].addresses) > 0 {
		addresses := stages[0].addresses
		s.setDot(uint64(addresses[len(addresses)-1]), s.step)
	}
	out, err := s.output.open(ctx, st.shell)
	if err != nil {
		return err
	}
	err = s.pipeline(ctx, stages, out)
	return errors.Join(err, out.close())
}

// pipeline runs the stages, each on what the previous one has found.
func (s *session) pipeline(ctx context.Context, stages []*stage, out *sink) error {
	var found []v8.Value
	for i, st := range stages {
		v := &invocation{session: s, inputs: st.addresses, count: st.count, args: st.args}
		v.emit = func(r jscore.Result) error {
			if err := ctx.Err(); err != nil && !isPartial(r) {
				return err // what was found until then may be incomplete
			}
			return out.put(r)
		}
		if i > 0 {
			v.inputs, v.piped = found, true
		}
		failed := 0
		v.fail = func(of v8.Value, err error) {
			failed++
			s.complain(fmt.Errorf("%s %x: %w", st.name, uint64(of), err))
		}
		var next []v8.Value
		if i < len(stages)-1 {
			v.emit = func(r jscore.Result) error {
				addressed, ok := r.(jscore.Addressed)
				if !ok {
					return errors.New("has no addresses for the next command of a pipeline")
				}
				next = append(next, addressed.Addresses()...)
				return nil
			}
		} else if v.piped && st.input != noInput {
			out.array()
		}
		if err := st.contained(ctx, v); err != nil {
			if ctx.Err() != nil && out.count == 0 {
				s.interrupted(st.name)
			}
			return fmt.Errorf("%s: %w", st.name, err)
		}
		found = next
	}
	return nil
}

// isPartial reports whether a result says that it is incomplete.
func isPartial(r jscore.Result) bool {
	p, ok := r.(interface{ Partial() bool })
	return ok && p.Partial()
}

// contained runs the command. A core can contain anything: a fault becomes an
// error of this command only.
func (st *stage) contained(ctx context.Context, v *invocation) (err error) {
	defer contain.Panic(&err, "read the process")
	return st.run(ctx, v)
}

// isGone reports whether a write failed because its reader has ended, as a
// pager does when its user quits.
func isGone(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe)
}
