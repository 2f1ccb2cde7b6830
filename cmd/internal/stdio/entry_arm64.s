#include "textflag.h"

#define SYS_fcntl 25
#define F_GETFD   1

// ustack_entry notes which of descriptors 1 and 2 are open, then starts Go's runtime.
TEXT ustack_entry(SB),NOSPLIT|NOFRAME,$0
	MOVD	$SYS_fcntl, R8
	MOVD	$1, R0
	MOVD	$F_GETFD, R1
	SVC
	MOVD	R0, ·out(SB)
	MOVD	$SYS_fcntl, R8
	MOVD	$2, R0
	MOVD	$F_GETFD, R1
	SVC
	MOVD	R0, ·err(SB)
	B	_rt0_arm64_linux(SB)
