package nodesnoop

import "golang.org/x/sys/unix"

// waits are the system calls in which libuv waits (src/unix/linux.c), by number.
var waits = [4]uint32{unix.SYS_EPOLL_PWAIT, unix.SYS_EPOLL_PWAIT2}
