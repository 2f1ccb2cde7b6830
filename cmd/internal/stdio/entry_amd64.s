#include "textflag.h"

#define SYS_fcntl 72
#define F_GETFD   1

// ustack_entry notes which of descriptors 1 and 2 are open, then starts Go's runtime.
TEXT ustack_entry(SB),NOSPLIT|NOFRAME,$0
	MOVL	$SYS_fcntl, AX
	MOVL	$1, DI
	MOVL	$F_GETFD, SI
	SYSCALL
	MOVQ	AX, ·out(SB)
	MOVL	$SYS_fcntl, AX
	MOVL	$2, DI
	MOVL	$F_GETFD, SI
	SYSCALL
	MOVQ	AX, ·err(SB)
	JMP	_rt0_amd64_linux(SB)
