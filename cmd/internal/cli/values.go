package cli

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Duration is a flag's value: greater than zero, in Go's syntax or as a
// number of seconds.
type Duration time.Duration

// Set parses "10s", "1m30s" or "2.5".
func (d *Duration) Set(text string) error {
	value, err := parseDuration(text)
	if err != nil {
		return errors.New("not a duration (such as 10s or 1m30s)")
	}
	if value <= 0 {
		return errors.New("must be longer than 0")
	}
	*d = Duration(value)
	return nil
}

func parseDuration(text string) (time.Duration, error) {
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return time.ParseDuration(text)
	}
	const longest = float64(1<<63 - 1)
	if value := seconds * float64(time.Second); math.Abs(value) < longest {
		return time.Duration(value), nil
	}
	return 0, strconv.ErrRange // or not a number
}

// String returns the duration in the form that Set parses; empty for zero, so
// that help shows no default.
func (d *Duration) String() string {
	if *d == 0 {
		return ""
	}
	return time.Duration(*d).String()
}

// Type returns the word for the value in help.
func (d *Duration) Type() string { return "DUR" }

// PIDs is a flag's value: process ids, separated by commas or given by
// repeating the flag.
type PIDs []int

const maxPID = 1 << 22 // PID_MAX_LIMIT of 64-bit Linux

// Set adds the processes in text, each once.
func (p *PIDs) Set(text string) error {
	for _, word := range strings.Split(text, ",") {
		pid, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || pid < 1 || pid > maxPID {
			return errors.New(strconv.Quote(word) + " is not a process ID")
		}
		if !slices.Contains(*p, pid) {
			*p = append(*p, pid)
		}
	}
	return nil
}

// String returns the list in the form that Set parses.
func (p *PIDs) String() string {
	words := make([]string, len(*p))
	for i, pid := range *p {
		words[i] = strconv.Itoa(pid)
	}
	return strings.Join(words, ",")
}

// Type returns the word for the value in help.
func (p *PIDs) Type() string { return "PID[,PID...]" }

// A Word is a flag's value: one of several words, stored as its index.
type Word[T ~int] struct {
	to    *T
	words []string
}

// NewWord returns a value that stores in to which of the words was given.
func NewWord[T ~int](to *T, words []string) *Word[T] { return &Word[T]{to, words} }

// Set stores the index of text.
func (w *Word[T]) Set(text string) error {
	i := slices.Index(w.words, text)
	if i < 0 {
		return errors.New("not one of " + strings.Join(w.words, ", "))
	}
	*w.to = T(i)
	return nil
}

// String returns the word that is stored.
func (w *Word[T]) String() string { return w.words[*w.to] }

// Type returns the word for the value in help.
func (w *Word[T]) Type() string { return "WHAT" }
