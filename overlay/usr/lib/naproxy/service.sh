# shellcheck shell=sh
# What the `run` files of services share. To be sourced.
. /usr/lib/naproxy/common.sh
exec </dev/null 2>&1

# If memory is short: who goes last, and who first. Requests must be answered; pages of the web
# interface are asked for again.
last_to_die() {
	echo -500 >/proc/self/oom_score_adj || :
}
first_to_die() {
	echo 500 >/proc/self/oom_score_adj || :
}
