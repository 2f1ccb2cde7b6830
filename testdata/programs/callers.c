/* callers.c: SCENARIO as the second argument. After "ready", on SIGUSR2:
 *   abort   calls abort() as the last instruction of `dies`, which `after` follows at once.
 *   signal  closes what is not open, in a signal's handler that interrupts the first instruction of
 *           `spins`, which `before` precedes at once.
 * Compile with -Os -falign-functions=1 -fno-toplevel-reorder.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void __attribute__((noinline, noclone, noreturn)) dies(void)
{
	abort();
}

int __attribute__((noinline, noclone, used)) after(int x)
{
	return x + 1;
}

__asm__(".text\n"
        ".type before, @function\n"
        "before: .cfi_startproc\n"
        "	ret\n"
        "	.cfi_endproc\n"
        ".size before, .-before\n"
        ".globl spins\n"
        ".type spins, @function\n"
        "spins: .cfi_startproc\n"
        "	jmp spins\n"
        "	.cfi_endproc\n"
        ".size spins, .-spins\n");

void spins(void);

static void __attribute__((noinline, noclone)) handles(int signal)
{
	if (close(9999) == 0)
		_exit(signal);
	_exit(0);
}

int main(int argc, char **argv)
{
	sigset_t set;
	int signal;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	if (!strcmp(argv[argc - 1], "signal")) {
		sigaction(SIGUSR2, &(struct sigaction){ .sa_handler = handles }, NULL);
		puts("ready");
		fflush(stdout);
		spins();
		return 1;
	}
	sigprocmask(SIG_BLOCK, &set, NULL);
	puts("ready");
	fflush(stdout);
	sigwait(&set, &signal);
	dies();
}
