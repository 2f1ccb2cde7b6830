package dump

import (
	"encoding/binary"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/tools/core"
)

func TestStateIsReadFromRegisters(t *testing.T) {
	names := func(number int) string {
		if number == unix.SYS_READ {
			return "read"
		}
		return ""
	}
	for _, tt := range []struct {
		call, result int64
		signal       unix.Signal
		want         string
	}{
		{-1, 0, 0, "running"},
		{unix.SYS_READ, 5, 0, "running"}, // it is about to return
		{unix.SYS_READ, -512, 0, "sleeping in read"},
		{unix.SYS_READ, -int64(unix.EINTR), 0, "sleeping in read"},
		{unix.SYS_READ, -int64(unix.EBADF), 0, "running"},
		{unix.SYS_READ, -516, unix.SIGTSTP, "stopped by SIGTSTP while sleeping in read"},
		{9999, -514, 0, "sleeping in system call 9999"},
		{-1, -512, unix.SIGSTOP, "stopped by SIGSTOP while running"},
	} {
		t.Run(fmt.Sprint(tt.call, tt.result), func(t *testing.T) {
			general := make([]byte, 27*8)
			binary.LittleEndian.PutUint64(general[8*origRAX:], uint64(tt.call))
			binary.LittleEndian.PutUint64(general[8*rax:], uint64(tt.result))
			taker := &taker{o: Options{Syscall: names}}
			if got := taker.stateOf(core.Thread{General: general, Signal: tt.signal}).String(); got != tt.want {
				t.Errorf("state = %q, want %q", got, tt.want)
			}
		})
	}
	if got := new(taker).stateOf(core.Thread{}); got != (State{}) {
		t.Errorf("state without registers = %v, want running", got)
	}
}
