# shellcheck shell=sh
# What the `run` files of services share. To be sourced.
. /usr/lib/naproxy/common.sh
exec </dev/null 2>&1

# Requests must be answered. The web interface and updates leave the processor to that, and are
# the first to go if memory is short.
comes_first() {
	{ echo -500 >/proc/self/oom_score_adj; } 2>/dev/null || :
}
can_wait() {
	echo 500 >/proc/self/oom_score_adj || :
	renice -n 10 -p $$ >/dev/null
}
