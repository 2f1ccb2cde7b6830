package core

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// holdJobControl keeps a terminal from stopping this process (Ctrl-Z) until the
// returned function is called: it would leave what it traces stopped. A stop that
// was asked for meanwhile is made good then.
func holdJobControl() (release func()) {
	var held []os.Signal
	for _, s := range []os.Signal{unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU} {
		if !signal.Ignored(s) {
			held = append(held, s)
		}
	}
	if len(held) == 0 { // Notify takes none for all
		return func() {}
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, held...)
	return func() {
		signal.Stop(asked)
		select {
		case s := <-asked:
			_ = unix.Kill(os.Getpid(), s.(unix.Signal)) // to ourselves: it cannot fail
		default:
		}
	}
}
