package stopon

import (
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
)

// guard watches the held processes concurrently with everything else: it
// resumes those held for too long, or all of them if the supervisor dies, and
// keeps this process and the supervisor from being suspended meanwhile. The
// returned function ends the guard.
func (s *session) guard() (end func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	suspends := make(chan os.Signal, 1)
	signal.Notify(suspends, unix.SIGTSTP)
	// These stop a background process that uses the terminal.
	signal.Ignore(unix.SIGTTIN, unix.SIGTTOU)
	go func() {
		defer close(ended)
		s.watchOver(done, suspends)
	}()
	return func() {
		close(done)
		<-ended
		signal.Stop(suspends)
		signal.Reset(unix.SIGTTIN, unix.SIGTTOU)
	}
}

func (s *session) watchOver(done <-chan struct{}, suspends <-chan os.Signal) {
	ticker := time.NewTicker(checkEvery)
	defer ticker.Stop()
	var held time.Time // since when the supervisor has held a process
	for {
		select {
		case <-done:
			return
		case <-suspends:
			s.suspend()
		case <-ticker.C:
			limit := s.o.MaxStop
			if s.supervisor.hasEnded() {
				limit = everything
			}
			if err := s.stopped.releaseAfter(limit); err != nil {
				s.warn(err)
			}
			s.supervisor.check(&held, s.o.MaxStop)
		}
	}
}

// suspend stops this process, as Ctrl-Z requests, unless a process is held.
func (s *session) suspend() {
	if s.stopped.holds() || s.supervisor.holding.Load() != 0 {
		return
	}
	_ = unix.Kill(os.Getpid(), unix.SIGSTOP) // a process may always stop itself
}

// supervisorEnded is closed when the supervisor has ended; nil if no supervisor
// was started.
func (s *session) supervisorEnded() <-chan struct{} {
	if s.supervisor == nil {
		return nil
	}
	return s.supervisor.ended
}
