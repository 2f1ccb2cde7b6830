/*
 * tracee MODE: a process that is awkward to stop. It prints "ready", goes on
 * until its stdin ends, and prints what it then knows.
 *
 *   vfork    the thread waits, uninterruptibly, for a child that does not exec
 *   later    so do two threads, once a SIGUSR2 has come for each: "ready" then; a
 *            third one does not
 *   leader   the first thread has ended, another one lives
 *   storm    threads start and end all the time: how many
 *   count    how many of the real-time signals SIGRTMIN came
 *   waits    threads wait in system calls that a stop must not cut short
 *   cut      threads wait in system calls: which does a stop cut short?
 *   ignore   SIGTRAP and SIGSEGV are ignored, all else is blocked: still so? It
 *            may not be dumped, either
 *   forked   64 MiB of memory are shared with a child, copy-on-write
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void ready(void)
{
	if (write(1, "ready\n", 6) != 6)
		_exit(3);
}

static void until_end(void)
{
	char c;
	ssize_t n;

	while ((n = read(0, &c, 1)) > 0)
		;
	if (n < 0) {
		printf("read of stdin: %s\n", strerror(errno));
		exit(1);
	}
}

static int stuck_in_vfork(void)
{
	if (vfork() == 0) {
		char c;

		ready();
		while (read(0, &c, 1) > 0)
			;
		_exit(0);
	}
	puts("done");
	return 0;
}

static void *stuck_on_signal(void *set)
{
	int number;

	ready();
	if (sigwait(set, &number) != 0)
		abort();
	if (vfork() == 0) {
		char c;

		ready();
		while (read(0, &c, 1) > 0)
			;
		_exit(0);
	}
	return NULL;
}

static void *wait_for_end(void *unused)
{
	until_end();
	return unused;
}

static int stuck_later(void)
{
	void *(*const run[])(void *) = { stuck_on_signal, wait_for_end, stuck_on_signal };
	pthread_t threads[3];
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, run[i], &set);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	puts("done");
	return 0;
}

static void *outlive(void *first)
{
	pthread_join((pthread_t)first, NULL);
	ready();
	until_end();
	puts("done");
	exit(0);
}

static int without_leader(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, outlive, (void *)pthread_self());
	pthread_exit(NULL);
}

static atomic_int over;
static atomic_long started, ended;

static void *short_lived(void *unused)
{
	ended++;
	return unused;
}

static void *make_threads(void *unused)
{
	do { /* at least one, however late this thread runs */
		pthread_t thread;

		if (pthread_create(&thread, NULL, short_lived, NULL) != 0)
			abort();
		started++;
		pthread_join(thread, NULL);
	} while (!over);
	return unused;
}

static int storm(void)
{
	pthread_t makers[3];

	for (int i = 0; i < 3; i++)
		pthread_create(&makers[i], NULL, make_threads, NULL);
	ready();
	until_end();
	over = 1;
	for (int i = 0; i < 3; i++)
		pthread_join(makers[i], NULL);
	puts(started == ended && started > 0 ? "done" : "threads are missing");
	return 0;
}

static atomic_int signals;

static void on_signal(int number)
{
	(void)number;
	signals++;
}

static int count_signals(void)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

	sigaction(SIGRTMIN, &action, NULL);
	ready();
	until_end();
	printf("%d\n", signals);
	return 0;
}

static int ends[2];

#define WAIT_MS 1500

static const struct timespec wait_time = { WAIT_MS / 1000, WAIT_MS % 1000 * 1000000 };

static long wait_nanosleep(void)
{
	return clock_nanosleep(CLOCK_MONOTONIC, 0, &wait_time, NULL);
}
static long wait_poll(void)
{
	return poll(NULL, 0, WAIT_MS);
}

static long wait_read(void)
{
	char c;

	return read(ends[0], &c, 1) == 1 ? 0 : errno;
}

static long wait_futex(void)
{
	int word = 0;

	if (syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &wait_time, NULL, 0) == 0)
		return 0;
	return errno == ETIMEDOUT ? 0 : errno;
}

static struct wait {
	const char *name;
	long (*call)(void);
	int timed;
	long result, elapsed;
} all[] = {
	{ .name = "nanosleep", .call = wait_nanosleep, .timed = 1 },
	{ .name = "poll", .call = wait_poll, .timed = 1 },
	{ .name = "futex", .call = wait_futex, .timed = 1 },
	{ .name = "read", .call = wait_read },
};

static void *wait_once(void *arg)
{
	struct wait *w = arg;
	struct timespec from, to;

	clock_gettime(CLOCK_MONOTONIC, &from);
	w->result = w->call();
	clock_gettime(CLOCK_MONOTONIC, &to);
	w->elapsed = (to.tv_sec - from.tv_sec) * 1000 + (to.tv_nsec - from.tv_nsec) / 1000000;
	return NULL;
}

static int wait_in_calls(void)
{
	pthread_t threads[4];

	if (pipe(ends) != 0)
		return 1;
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, wait_once, &all[i]);
	ready();
	until_end();
	if (write(ends[1], "x", 1) != 1)
		return 1;
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
		if (all[i].result != 0)
			printf("%s: %s\n", all[i].name, strerror(all[i].result));
		if (all[i].timed && (all[i].elapsed < WAIT_MS - 1 || all[i].elapsed > 2 * WAIT_MS))
			printf("%s: %ld ms\n", all[i].name, all[i].elapsed);
	}
	puts("done");
	return 0;
}

static long wait_epoll(void)
{
	struct epoll_event event;

	return epoll_wait(epoll_create1(0), &event, 1, WAIT_MS) < 0 ? errno : 0;
}

static long wait_semaphore(void)
{
	struct sembuf take = { .sem_op = -1 };
	int id = semget(IPC_PRIVATE, 1, 0600);
	long result = semtimedop(id, &take, 1, &wait_time) < 0 ? errno : 0;

	semctl(id, 0, IPC_RMID);
	return result;
}

static long wait_signal(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	return sigtimedwait(&set, NULL, &wait_time) < 0 ? errno : 0;
}

static long wait_socket(void)
{
	struct timeval limit = { .tv_sec = 2 };
	int sockets[2];
	char c;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0)
		return errno;
	setsockopt(sockets[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	return recv(sockets[0], &c, 1, 0) < 0 ? errno : 0;
}

static long wait_aio(void)
{
	aio_context_t context = 0;
	struct io_event event;

	if (syscall(SYS_io_setup, 1, &context) != 0)
		return errno;
	return syscall(SYS_io_getevents, context, 1, 1, &event, &wait_time) < 0 ? errno : 0;
}

static struct wait cut_short[] = {
	{ .name = "epoll_wait", .call = wait_epoll },	   { .name = "semtimedop", .call = wait_semaphore },
	{ .name = "sigtimedwait", .call = wait_signal },   { .name = "recv", .call = wait_socket },
	{ .name = "io_getevents", .call = wait_aio },	   { .name = "poll", .call = wait_poll },
	{ .name = "nanosleep", .call = wait_nanosleep },   { .name = "futex", .call = wait_futex },
};

#define CUT_SHORT (sizeof(cut_short) / sizeof(cut_short[0]))

/* Prints which calls a stop has cut short, by EINTR. */
static int cut(void)
{
	pthread_t threads[CUT_SHORT];

	for (size_t i = 0; i < CUT_SHORT; i++)
		pthread_create(&threads[i], NULL, wait_once, &cut_short[i]);
	ready();
	until_end();
	for (size_t i = 0; i < CUT_SHORT; i++) {
		pthread_join(threads[i], NULL);
		if (cut_short[i].result == EINTR)
			printf("%s ", cut_short[i].name);
	}
	puts("done");
	return 0;
}

static int ignore(void)
{
	sigset_t want, got;
	struct sigaction action;

	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	signal(SIGTRAP, SIG_IGN);
	signal(SIGSEGV, SIG_IGN);
	sigfillset(&want);
	sigprocmask(SIG_SETMASK, &want, NULL);
	ready();
	until_end();
	sigprocmask(SIG_SETMASK, NULL, &got);
	for (int i = 1; i < NSIG; i++) {
		if (i != SIGKILL && i != SIGSTOP && i != 32 && i != 33 && !sigismember(&got, i))
			printf("signal %d is not blocked\n", i);
	}
	for (int i = SIGTRAP; i <= SIGSEGV; i += SIGSEGV - SIGTRAP) {
		sigaction(i, NULL, &action);
		if (action.sa_handler != SIG_IGN)
			printf("signal %d is not ignored\n", i);
	}
	puts("done");
	return 0;
}

/* The parent's memory is shared with a child that waits for its end. */
static int forked(void)
{
	const size_t size = 64 << 20;
	char *memory = malloc(size);
	int ends[2];

	if (memory == NULL || pipe(ends) != 0)
		return 1;
	memset(memory, 'x', size);
	if (fork() == 0) {
		char c;

		close(ends[1]);
		_exit(read(ends[0], &c, 1) != 0);
	}
	close(ends[0]);
	ready();
	until_end();
	puts(memory[size - 1] == 'x' ? "done" : "memory is wrong");
	return 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(void);
	} modes[] = {
		{ "vfork", stuck_in_vfork },
		{ "later", stuck_later },
		{ "leader", without_leader },
		{ "storm", storm },
		{ "count", count_signals },
		{ "waits", wait_in_calls },
		{ "cut", cut },
		{ "ignore", ignore },
		{ "forked", forked },
	};

	setvbuf(stdout, NULL, _IONBF, 0);
	for (size_t i = 0; argc == 2 && i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (strcmp(argv[1], modes[i].name) == 0)
			return modes[i].run();
	}
	return 2;
}
