package cli

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Duration is a flag's value: longer than nothing, written as Go writes it
// or as a number of seconds.
type Duration time.Duration

// Set reads "10s", "1m30s" or "2.5".
func (d *Duration) Set(text string) error {
	value, err := parseDuration(text)
	if err != nil {
		return errors.New("not a duration (such as 10s or 1m30s)")
	}
	if value <= 0 {
		return errors.New("not longer than nothing")
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
	return 0, strconv.ErrRange // also what is no number
}

// String returns the duration as Set reads it, empty for none: then help shows
// no default.
func (d *Duration) String() string {
	if *d == 0 {
		return ""
	}
	return time.Duration(*d).String()
}

// Type is the value's word in help.
func (d *Duration) Type() string { return "DUR" }

// PIDs is a flag's value: process ids, with commas between them or the flag
// given more than once.
type PIDs []int

const maxPID = 1 << 22 // PID_MAX_LIMIT of 64-bit Linux

// Set adds the processes of text, each once.
func (p *PIDs) Set(text string) error {
	for _, word := range strings.Split(text, ",") {
		pid, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || pid < 1 || pid > maxPID {
			return errors.New(strconv.Quote(word) + " is no process id")
		}
		if !slices.Contains(*p, pid) {
			*p = append(*p, pid)
		}
	}
	return nil
}

// String returns the list as Set reads it.
func (p *PIDs) String() string {
	words := make([]string, len(*p))
	for i, pid := range *p {
		words[i] = strconv.Itoa(pid)
	}
	return strings.Join(words, ",")
}

// Type is the value's word in help.
func (p *PIDs) Type() string { return "PID[,PID...]" }
