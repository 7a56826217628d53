# shellcheck shell=sh
# What start scripts, services and the helper share. To be sourced.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL=C.UTF-8
umask 022

# shellcheck disable=SC2034 # for whoever sources this
interface=eth0          # to the office
# shellcheck disable=SC2034
system=/data/naproxy/system
# shellcheck disable=SC2034
state=/run/naproxy-system

# The settings. On the boot partition a spare copy, for a start without /data.
# shellcheck disable=SC2034
settings=/data/etc/naproxy.toml
# shellcheck disable=SC2034
spare=/bootpart/naproxy-settings.toml

# To the consoles and, by klogd, to the log.
say() {
	printf '<4>naproxy: %s\n' "$*" >>/dev/kmsg
}

# Standard input becomes FILE: after a power cut it is the old one or the new one. What is not
# whole yet only root can read: it may be a secret, and a cut or a full disk may leave it there.
put() { # FILE [MODE]
	rm -f "$1.new" && (umask 077 && cat >"$1.new") &&
		chmod "${2:-644}" "$1.new" && on_disk "$1" && mv "$1.new" "$1"
}

# What lies in memory need not wait for the disk.
on_disk() { # FILE
	case $1 in
	/run/*) ;;
	*) sync ;;
	esac
}

# The value of KEY in a file of settings, or nothing. Nothing in it is run or expanded.
setting() { # FILE KEY
	[ -f "$1" ] || return 0
	while IFS= read -r line || [ -n "$line" ]; do
		case $line in
		"$2"=*)
			printf '%s\n' "${line#*=}"
			return
			;;
		esac
	done <"$1"
}

# The claim code, as long as the box is nobody's. It is not root who writes it: nothing but
# letters is shown, and nobody is led to another file.
code=/data/naproxy-webui/claim-code
claim_code() {
	[ -f "$code" ] && [ ! -L "$code" ] || return 0
	head -c 64 "$code" 2>/dev/null | tr -cd 'A-Z0-9-'
}

# Become a program that has those of root's rights that are named (capabilities(7), without CAP_),
# and can get no others by what it runs: root as far as they go, or USER:GROUP.
bounded() { # "RIGHT..." root|USER:GROUP PROGRAM...
	kept=-all
	for right in $1; do
		kept=$kept,+$right
	done
	as=$2
	shift 2
	if [ "$as" = root ]; then
		set -- --inh-caps -all -- "$@"
	else
		set -- --reuid "${as%:*}" --regid "${as#*:}" --clear-groups \
		    --inh-caps "$kept" --ambient-caps "$kept" -- "$@"
	fi
	exec /usr/bin/setpriv --no-new-privs --bounding-set "$kept" "$@"
}

# Wait until the command is true, or for so long.
wait_for() { # SECONDS COMMAND...
	fifths=$(($1 * 5))
	shift
	until "$@"; do
		[ "$fifths" -gt 0 ] || return 1
		fifths=$((fifths - 1))
		sleep 0.2
	done
}

# Whether Varnish takes connections to port 80.
serves() { # tcp|tcp6
	while read -r _ local _ status _; do
		case $local/$status in
		*:0050/0A) return 0 ;;
		esac
	done <"/proc/net/$1"
	return 1
}

# Until pages can be served, or for so long: at a start they come first.
after_pages() { # SECONDS
	wait_for "$1" eval 'serves tcp || serves tcp6'
}
