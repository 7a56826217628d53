/*-
 * Lies about the wall clock, for one program and its children: preloaded, it
 * adds the number of seconds in the file $CLOCKSTEP to CLOCK_REALTIME and
 * leaves CLOCK_MONOTONIC alone, as a step of the real clock does. Writing
 * another number to the file is the step.
 *
 * libfaketime does the same and more, but cannot live with the jemalloc that
 * Debian's varnishd is linked to: they wait for each other at the start.
 */

#define _GNU_SOURCE

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* A deadline past this is of the wall clock: no machine is up for 31 years. */
#define WALL_S	1000000000

static const volatile int64_t *step_s;

static __attribute__((constructor)) void
clockstep_init(void)
{
	const char *name = getenv("CLOCKSTEP");
	void *p;
	int fd;

	if (name == NULL || (fd = open(name, O_RDONLY | O_CLOEXEC)) < 0)
		abort();
	p = mmap(NULL, sizeof *step_s, PROT_READ, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		abort();
	(void)close(fd);
	step_s = p;
}

int
clock_gettime(clockid_t id, struct timespec *ts)
{
	long r = syscall(SYS_clock_gettime, id, ts);

	if (r == 0 && step_s != NULL &&
	    (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
		ts->tv_sec += *step_s;
	return ((int)r);
}

int
gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
	struct timespec ts;

	(void)zone;
	(void)clock_gettime(CLOCK_REALTIME, &ts);
	tv->tv_sec = ts.tv_sec;
	tv->tv_usec = ts.tv_nsec / 1000;
	return (0);
}

time_t
time(time_t *t)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	if (t != NULL)
		*t = ts.tv_sec;
	return (ts.tv_sec);
}

/* The kernel waits by the true clock. */
int
pthread_cond_timedwait(pthread_cond_t *restrict cond,
    pthread_mutex_t *restrict mutex, const struct timespec *restrict until)
{
	static int (*wait)(pthread_cond_t *, pthread_mutex_t *,
	    const struct timespec *);
	struct timespec ts = *until;

	if (wait == NULL)
		wait = (__typeof__(wait))dlsym(RTLD_NEXT,
		    "pthread_cond_timedwait");
	if (ts.tv_sec > WALL_S)
		ts.tv_sec -= *step_s;
	return (wait(cond, mutex, &ts));
}
