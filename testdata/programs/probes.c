/*
 * On SIGUSR2, reaches a static probe a prime number of times, each time with the next number as
 * its second argument, and prints how often it found the probe enabled. The probe is written as
 * SystemTap's sys/sdt.h does: a nop, a note and a counter of who watches it.
 */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#define TIMES 1013

unsigned short semaphore __attribute__((section(".probes")));

static void __attribute__((noinline)) reach(long number)
{
	asm volatile("990: nop\n"
		     ".pushsection .note.stapsdt,\"?\",\"note\"\n"
		     ".balign 4\n"
		     ".4byte 992f-991f, 994f-993f, 3\n"
		     "991: .asciz \"stapsdt\"\n"
		     "992: .balign 4\n"
		     "993: .8byte 990b\n"
		     ".8byte _.stapsdt.base\n"
		     ".8byte semaphore\n"
		     ".asciz \"ustack\"\n"
		     ".asciz \"reached\"\n"
		     ".asciz \"-4@$7 8@%0\"\n"
		     "994: .balign 4\n"
		     ".popsection\n"
		     ".ifndef _.stapsdt.base\n"
		     ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"
		     ".weak _.stapsdt.base\n"
		     ".hidden _.stapsdt.base\n"
		     "_.stapsdt.base: .space 1\n"
		     ".size _.stapsdt.base, 1\n"
		     ".popsection\n"
		     ".endif\n" ::"r"(number));
}

int main(void)
{
	sigset_t set;
	int number, enabled = 0;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, 0);
	printf("ready\n");
	fflush(stdout);
	for (;;) {
		sigwait(&set, &number);
		for (int i = 1; i <= TIMES; i++) {
			enabled += *(volatile unsigned short *)&semaphore > 0;
			reach(i);
		}
		printf("done %d\n", enabled);
		fflush(stdout);
	}
}
