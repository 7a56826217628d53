# shellcheck shell=sh
# Checks of what the box is told. The controller has checked it before; what is wrong here is
# never used. To be sourced.

# Each has a subshell of its own, so that IFS and arguments are nobody else's.
is_ipv4() (
	case $1 in
	'' | *[!0-9.]* | *..* | .* | *.) exit 1 ;;
	esac
	IFS=.
	# shellcheck disable=SC2086 # to be split
	set -- $1
	[ $# -eq 4 ] || exit 1
	for part; do
		case $part in
		0?* | ????*) exit 1 ;;
		esac
		[ "$part" -le 255 ] || exit 1
	done
)

is_bits() { # a prefix that leaves room for machines
	case $1 in
	[1-9] | [12][0-9] | 30) ;;
	*) return 1 ;;
	esac
}

is_ipv6() ( # as the controller writes it: small letters, no part of IPv4, no interface
	case $1 in
	'' | *[!0-9a-f:]* | *:::* | *::*::* | :[!:]* | *[!:]:) exit 1 ;;
	esac
	case $1 in
	*::*) most=7 least=0 ;;
	*) most=8 least=8 ;;
	esac
	IFS=:
	count=0
	for part in $1; do
		[ ${#part} -le 4 ] || exit 1
		[ -z "$part" ] || count=$((count + 1))
	done
	[ "$count" -ge "$least" ] && [ "$count" -le "$most" ]
)

is_bits6() {
	case $1 in
	[1-9] | [1-9][0-9] | 1[01][0-9] | 12[0-7]) ;;
	*) return 1 ;;
	esac
}

is_ip() {
	is_ipv4 "$1" || is_ipv6 "$1"
}

is_vlan() { # a number of 802.1Q
	case $1 in
	'' | 0* | *[!0-9]* | ?????*) return 1 ;;
	esac
	[ "$1" -le 4094 ]
}

is_name() {
	case $1 in
	'' | -* | *- | *[!a-z0-9-]* | localhost) return 1 ;;
	*[!0-9]*) [ ${#1} -le 63 ] ;;
	*) return 1 ;;
	esac
}

is_time_server() { # a name or an address, IPv6 too
	case $1 in
	'' | -* | .* | *[!A-Za-z0-9.:-]*) return 1 ;;
	esac
	[ ${#1} -le 253 ]
}

is_zone() {
	case $1 in
	'' | /* | */ | *//* | *[!A-Za-z0-9_+/-]*) return 1 ;;
	esac
	[ -f "/usr/share/zoneinfo/$1" ]
}

# All words of TEXT, of which there are at most MOST, pass CHECK.
all() ( # MOST CHECK TEXT
	set -f
	most=$1
	check=$2
	# shellcheck disable=SC2086 # to be split
	set -- $3
	[ $# -le "$most" ] || exit 1
	for word; do
		"$check" "$word" || exit 1
	done
)
