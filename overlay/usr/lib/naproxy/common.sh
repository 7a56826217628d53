# shellcheck shell=sh
# What start scripts, services and the helper share. To be sourced.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL=C.UTF-8
umask 022

# shellcheck disable=SC2034 # for whoever sources this
interface=eth0          # to the office
# shellcheck disable=SC2034
wishes=/data/naproxy/system
# shellcheck disable=SC2034
state=/run/naproxy-system

# The last settings that the controller of this system, A or B, took: another release may know
# other keys. On the boot partition a spare copy, for a start without /data.
# shellcheck disable=SC2034
settings=/data/etc/naproxy.toml
# shellcheck disable=SC2034
spare=/bootpart/naproxy-settings.toml
taken() {
	sed -n 's,.*rauc\.slot=\([AB]\).*,/data/etc/taken-\1.toml,p' /proc/cmdline
}

# To the consoles and, by klogd, to the log.
say() {
	printf '<4>naproxy: %s\n' "$*" >>/dev/kmsg
}

# Standard input becomes FILE: after a power cut it is the old one or the new one.
put() { # FILE [MODE]
	cat >"$1.new" && chmod "${2:-644}" "$1.new" && sync && mv "$1.new" "$1"
}

# The value of KEY in a file of wishes, or nothing. Nothing in it is run or expanded.
wish() { # FILE KEY
	[ -f "$1" ] || return 0
	sed -n "s/^$2=//p" "$1" | head -n 1
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
