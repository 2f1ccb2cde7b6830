package core

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// holdJobControl keeps a terminal from stopping this process (Ctrl-Z) until the
// returned function is called: otherwise what it traces would stay stopped. A
// stop requested meanwhile takes effect then.
func holdJobControl() (release func()) {
	var held []os.Signal
	for _, s := range []os.Signal{unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU} {
		if !signal.Ignored(s) {
			held = append(held, s)
		}
	}
	if len(held) == 0 { // without signals, Notify would receive all of them
		return func() {}
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, held...)
	return func() {
		signal.Stop(asked)
		select {
		case s := <-asked:
			_ = unix.Kill(os.Getpid(), s.(unix.Signal)) // sending to this process cannot fail
		default:
		}
	}
}
