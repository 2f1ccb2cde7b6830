package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/ergochat/readline"

	"ustack/cmd/internal/cli"
)

func terminal(f *os.File) bool { return cli.Terminal(f) }

// prompt runs the lines that the user types until the end of input. Ctrl-C
// interrupts the running command, or discards the line being typed.
func (s *session) prompt(ctx context.Context, in *os.File) error {
	line, err := readline.NewFromConfig(&readline.Config{
		Prompt: "> ", Stdin: in, Stdout: s.output.stdout, Stderr: s.output.stderr,
		HistoryFile:  historyFile(os.Getenv),
		AutoComplete: &completer{s},
		// Ctrl-D typed while a command runs arrives as 0 with the next line.
		FuncFilterInputRune: func(r rune) (rune, bool) { return r, r != 0 },
	})
	if err != nil {
		return fmt.Errorf("open a prompt: %w", err)
	}
	defer line.Close()
	interrupts, ends := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	signal.Notify(ends, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(interrupts)
	defer signal.Stop(ends)
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // Ctrl-C must not end it
	defer cancel()
	go func() {
		select {
		case <-ends:
			cancel()
			_ = line.Close() // ReadLine returns the error
		case <-ctx.Done():
		}
	}()
	fmt.Fprintln(s.output.stderr, `"help" lists the commands, Ctrl-D ends.`)
	for !s.over && ctx.Err() == nil {
		text, err := line.ReadLine()
		switch {
		case errors.Is(err, readline.ErrInterrupt):
			continue
		case errors.Is(err, io.EOF), ctx.Err() != nil:
			s.over = true
			continue
		case err != nil:
			return fmt.Errorf("read a line: %w", err)
		}
		s.interruptible(ctx, text, interrupts)
	}
	s.status = cli.OK // the user has seen the outcome of each command
	return nil
}

// interruptible runs a line until it has ended or Ctrl-C comes.
func (s *session) interruptible(ctx context.Context, text string, interrupts <-chan os.Signal) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	select { // discard interrupts from before this line was typed
	case <-interrupts:
	default:
	}
	s.output.childInterrupted = false
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.line(ctx, text)
	}()
	for interrupted := false; ; {
		select {
		case <-interrupts:
			interrupted = true
			cancel()
		case <-done:
			if s.output.childInterrupted && !interrupted {
				select { // the same Ctrl-C must not meet the next line
				case <-interrupts:
				case <-time.After(signalDelay):
				}
			}
			return
		}
	}
}

// signalDelay is how much later than a child this process may get a signal that the terminal sends to both.
const signalDelay = time.Second

// historyFile returns where typed lines are saved; empty if nowhere.
func historyFile(getenv func(string) string) string {
	state := getenv("XDG_STATE_HOME")
	if state == "" && getenv("HOME") != "" {
		state = filepath.Join(getenv("HOME"), ".local", "state")
	}
	if !filepath.IsAbs(state) {
		return ""
	}
	folder := filepath.Join(state, "jscore")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return ""
	}
	return filepath.Join(folder, "history")
}
