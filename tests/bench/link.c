/*
 * A long line between two TAP devices. Each way has a rate, a queue before it that drops frames
 * when it is full, a delay, a jitter and a loss.
 *
 * usage: link FD FD DELAY_US BYTES_A_SECOND QUEUE_BYTES [JITTER_US LOSS_PPM]
 *
 * The jitter adds up to JITTER_US to the delay, and never changes the order of frames.
 */
#define _GNU_SOURCE
#include <err.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define NS 1000000000LL
#define MOST 2048	/* an Ethernet frame, and some */

struct frame {
	struct frame	*next;
	int64_t		leaves_ns;
	size_t		len;
	unsigned char	data[];
};

struct way {
	int		from, to;
	int64_t		free_ns;	/* when the line has sent the whole queue */
	int64_t		last_ns;	/* when the last frame leaves */
	struct frame	*first, **end;
};

static int64_t
now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (t.tv_sec * NS + t.tv_nsec);
}

/* A number from 0 to n - 1, the same ones in each run. */
static int64_t
chance(int64_t n)
{
	return (n > 0 ? random() % n : 0);
}

/* Read all waiting frames. A frame that finds the queue full is dropped, as by a router. */
static void
take(struct way *w, int64_t delay_ns, int64_t rate, int64_t queue, int64_t jitter_ns, int64_t loss)
{
	unsigned char data[MOST];
	struct frame *f;
	int64_t now;
	ssize_t len;

	while ((len = read(w->from, data, sizeof data)) > 0) {
		now = now_ns();
		if (w->free_ns < now)
			w->free_ns = now;
		if ((w->free_ns - now) / 1000 * rate / (NS / 1000) + len > queue)
			continue;
		w->free_ns += len * NS / rate;
		if (chance(1000000) < loss)
			continue;
		f = malloc(sizeof *f + len);
		if (f == NULL)
			err(1, "malloc");
		f->next = NULL;
		f->leaves_ns = w->free_ns + delay_ns + chance(jitter_ns);
		if (f->leaves_ns < w->last_ns)
			f->leaves_ns = w->last_ns;
		w->last_ns = f->leaves_ns;
		f->len = len;
		for (ssize_t n = 0; n < len; n++)
			f->data[n] = data[n];
		*w->end = f;
		w->end = &f->next;
	}
}

static void
give(struct way *w, int64_t now)
{
	struct frame *f;

	while ((f = w->first) != NULL && f->leaves_ns <= now) {
		if (write(w->to, f->data, f->len) < 0)
			warn("write");
		w->first = f->next;
		if (w->first == NULL)
			w->end = &w->first;
		free(f);
	}
}

int
main(int argc, char **argv)
{
	struct way w[2] = {0};
	struct pollfd p[2];
	struct timespec t;
	int64_t delay_ns, rate, queue, jitter_ns, loss, now, next;

	if (argc != 6 && argc != 8)
		errx(2, "usage: link FD FD DELAY_US BYTES_A_SECOND QUEUE_BYTES [JITTER_US LOSS_PPM]");
	jitter_ns = argc == 8 ? atoll(argv[6]) * 1000 : 0;
	loss = argc == 8 ? atoll(argv[7]) : 0;
	delay_ns = atoll(argv[3]) * 1000;
	rate = atoll(argv[4]);
	queue = atoll(argv[5]);
	for (int n = 0; n < 2; n++) {
		w[n].from = atoi(argv[1 + n]);
		w[n].to = atoi(argv[2 - n]);
		w[n].end = &w[n].first;
		p[n].fd = w[n].from;
		p[n].events = POLLIN;
	}
	for (;;) {
		now = now_ns();
		next = now + NS;
		for (int n = 0; n < 2; n++) {
			give(&w[n], now);
			if (w[n].first != NULL && w[n].first->leaves_ns < next)
				next = w[n].first->leaves_ns;
		}
		next -= now;
		t.tv_sec = next / NS;
		t.tv_nsec = next % NS;
		if (ppoll(p, 2, &t, NULL) < 0)
			err(1, "ppoll");
		for (int n = 0; n < 2; n++)
			if (p[n].revents)
				take(&w[n], delay_ns, rate, queue, jitter_ns, loss);
	}
}
