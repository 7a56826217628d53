/*
 * A long line between two TAP devices: each way so many bytes a second, a queue before it that
 * drops what it cannot hold, and a delay.
 *
 * usage: link FD FD DELAY_US BYTES_A_SECOND QUEUE_BYTES
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
	int64_t		free_ns;	/* when the line has sent all that waits for it */
	struct frame	*first, **end;
};

static int64_t
now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (t.tv_sec * NS + t.tv_nsec);
}

/* Read what there is; what finds the queue full is lost, as a router loses it. */
static void
take(struct way *w, int64_t delay_ns, int64_t rate, int64_t queue)
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
		f = malloc(sizeof *f + len);
		if (f == NULL)
			err(1, "malloc");
		f->next = NULL;
		f->leaves_ns = w->free_ns + delay_ns;
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
	int64_t delay_ns, rate, queue, now, next;

	if (argc != 6)
		errx(2, "usage: link FD FD DELAY_US BYTES_A_SECOND QUEUE_BYTES");
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
				take(&w[n], delay_ns, rate, queue);
	}
}
