package live

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"ustack/tools/profile"
)

// checkEvery is the time between two checks of whether the main thread sleeps, and in what.
const checkEvery = 100 * time.Millisecond

// A Loop watches the thread of a process that runs its event loop: the main thread.
type Loop struct {
	pid         int
	name        func(call int) string // of a system call
	call, sched *os.File
	categories  profile.Categorizer

	mutex         sync.Mutex
	idle, blocked int // how often it was seen to sleep since the last State, in poll and elsewhere

	last          time.Time
	ran, runnable time.Duration // in all, at that time
}

// A Share is a part of the time.
type Share struct {
	Name    string
	Percent float64
}

// What the event loop does when it is not on a CPU.
const (
	Idle     = "idle"
	Blocked  = "blocked"
	Runnable = "runnable" // it waits for a CPU
)

// NewLoop returns a Loop of the main thread of a process. name names system calls. Close
// closes it.
func NewLoop(pid int, name func(call int) string) (*Loop, error) {
	l := &Loop{pid: pid, name: name}
	for _, open := range []struct {
		to   **os.File
		name string
	}{{&l.call, "syscall"}, {&l.sched, "schedstat"}} {
		f, err := os.Open(fmt.Sprintf("/proc/%d/task/%d/%s", pid, pid, open.name))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("watch the main thread of process %d: %w", pid, err), l.Close())
		}
		*open.to = f
	}
	l.last = time.Now()
	var err error
	l.ran, l.runnable, err = l.times()
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Close ends watching.
func (l *Loop) Close() error {
	var errs []error
	for _, f := range []*os.File{l.call, l.sched} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// Watch checks again and again what the thread is doing, until ctx is done.
func (l *Loop) Watch(ctx context.Context) {
	ticks := time.NewTicker(checkEvery)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			l.check()
		}
	}
}

// maxLine bounds what is read of the files of /proc, in bytes: they have one line.
const maxLine = 256

// check notes in which system call the thread sleeps, if it does.
func (l *Loop) check() {
	line := make([]byte, maxLine)
	n, _ := l.call.ReadAt(line, 0) // nothing once the process has ended
	number, _, _ := strings.Cut(strings.TrimSpace(string(line[:n])), " ")
	call, err := strconv.Atoi(number)
	if err != nil { // it is running
		return
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if strings.HasPrefix(l.name(call), "epoll_") {
		l.idle++
	} else {
		l.blocked++
	}
}

// times returns for how long the thread has run on a CPU and waited for one, in all.
func (l *Loop) times() (ran, runnable time.Duration, err error) {
	line := make([]byte, maxLine)
	n, err := l.sched.ReadAt(line, 0)
	fields := strings.Fields(string(line[:n]))
	if len(fields) < 2 {
		return 0, 0, fmt.Errorf("read the times of the main thread of process %d: %w", l.pid, err)
	}
	var both [2]time.Duration
	for i := range both {
		ns, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("read the times of the main thread of process %d: %w", l.pid, err)
		}
		both[i] = time.Duration(ns)
	}
	return both[0], both[1], nil
}

// State returns how the thread has spent the time since the last call. The time on a CPU is
// divided as the samples are that were taken meanwhile, the time asleep by what it was seen
// to sleep in.
func (l *Loop) State(p *profile.Profile) ([]Share, error) {
	ran, runnable, err := l.times()
	if err != nil {
		return nil, err
	}
	now := time.Now()
	s := spent{all: now.Sub(l.last), ran: ran - l.ran, runnable: runnable - l.runnable, samples: make(map[string]uint64)}
	l.last, l.ran, l.runnable = now, ran, runnable
	l.mutex.Lock()
	s.idle, s.blocked = l.idle, l.blocked
	l.idle, l.blocked = 0, 0
	l.mutex.Unlock()
	for _, stack := range p.Stacks {
		if stack.TID == l.pid {
			s.samples[l.categories.Category(stack.Frames)] += stack.Value
		}
	}
	return s.shares(), nil
}

// spent is how a time was spent.
type spent struct {
	all, ran, runnable time.Duration
	idle, blocked      int               // seen asleep
	samples            map[string]uint64 // on a CPU, by category
}

// categories are those of samples, in the order in which they are shown.
var categories = []string{"JavaScript", "WebAssembly", "GC", "compile", "native", "kernel"}

// shares returns the parts of the time, which add up to 100 %.
func (s *spent) shares() []Share {
	if s.all <= 0 {
		return nil
	}
	percent := func(d time.Duration) float64 { return 100 * min(1, max(0, float64(d)/float64(s.all))) }
	ran := percent(s.ran)
	waited := min(percent(s.runnable), 100-ran)
	asleep := 100 - ran - waited
	idle := asleep
	if s.idle+s.blocked > 0 {
		idle = asleep * float64(s.idle) / float64(s.idle+s.blocked)
	}
	s.samples["native"] += s.samples[Idle] // going to sleep and waking up takes CPU time, too
	var sampled uint64
	for _, category := range categories {
		sampled += s.samples[category]
	}
	shares := []Share{{Idle, idle}}
	for _, category := range categories {
		share := 0.0
		switch {
		case sampled > 0:
			share = ran * float64(s.samples[category]) / float64(sampled)
		case category == "native": // too short for a sample
			share = ran
		}
		shares = append(shares, Share{category, share})
	}
	return append(shares, Share{Blocked, asleep - idle}, Share{Runnable, waited})
}
