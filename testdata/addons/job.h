// What a job of the add-ons does: it sleeps or spins for some microseconds.
#pragma once

#include <errno.h>
#include <time.h>

static struct timespec after(double microseconds)
{
	struct timespec t;
	long ns;

	clock_gettime(CLOCK_MONOTONIC, &t);
	ns = t.tv_nsec + (long)(microseconds * 1e3);
	t.tv_sec += ns / 1000000000;
	t.tv_nsec = ns % 1000000000;
	return t;
}

static void sleep_for(double microseconds)
{
	struct timespec end = after(microseconds);

	while (microseconds > 0 &&
	       clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR)
		;
}

static void spin_for(double microseconds)
{
	struct timespec end = after(microseconds), now;

	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while (now.tv_sec < end.tv_sec || (now.tv_sec == end.tv_sec && now.tv_nsec < end.tv_nsec));
}
