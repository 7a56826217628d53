# shellcheck shell=sh
# The interface to the office. To be sourced, after common.sh and checks.sh.

# What the card is called while `eth0` is a VLAN on it.
card=wire0

read_network() { # FILE
	method=$(setting "$1" method)
	address=$(setting "$1" address)
	gateway=$(setting "$1" gateway)
	ipv6=$(setting "$1" ipv6)
	ipv6=${ipv6:-auto} # as settings of an older version have it
	address6=$(setting "$1" address6)
	gateway6=$(setting "$1" gateway6)
	vlan=$(setting "$1" vlan)
	dns=$(setting "$1" dns)
}

# Words on what is wrong with a file of network settings, or nothing.
network_problem() { # FILE
	read_network "$1"
	all 3 is_ip "$dns" || echo "dns: must be at most three addresses"
	case $method in
	dhcp) ;;
	static)
		is_ipv4 "${address%/*}" && is_bits "${address#*/}" ||
			echo "address: must be as 192.168.1.5/24"
		[ -z "$gateway" ] || is_ipv4 "$gateway" || echo "gateway: must be an IPv4 address"
		;;
	*) echo "method: must be dhcp or static" ;;
	esac
	case $ipv6 in
	auto | off) ;;
	static)
		is_ipv6 "${address6%/*}" && is_bits6 "${address6#*/}" ||
			echo "address6: must be as fd00::5/64"
		[ -z "$gateway6" ] || is_ipv6 "$gateway6" || echo "gateway6: must be an IPv6 address"
		;;
	*) echo "ipv6: must be auto, static or off" ;;
	esac
	[ -z "$vlan" ] || is_vlan "$vlan" || echo "vlan: must be 1 to 4094"
}

# Reads what was chosen: what is being tried, else what was kept; what is wrong or missing counts
# as DHCP.
chosen_network() {
	for file in "$state/network" "$system/network.conf"; do
		[ -f "$file" ] || continue
		problem=$(network_problem "$file")
		if [ -z "$problem" ]; then
			read_network "$file"
			return
		fi
		echo "$file is not used: $problem"
	done
	read_network /dev/null
	method=dhcp
}

vlan_now() {
	sed -n "s/^$interface *| *\([0-9]*\) .*/\1/p" /proc/net/vlan/config 2>/dev/null
}

# Without its addresses: those of IPv4 would stay, and lead to the wrong one.
rename() { # FROM TO
	ip -4 addr flush dev "$1" && ip link set "$1" down && ip link set "$1" name "$2"
}

# Make `eth0` the card itself, or the VLAN of that number on it: settings, firewall and services
# name the interface to the office, whichever it is.
set_vlan() { # [NUMBER]
	[ "$(vlan_now)" != "$1" ] || return 0
	rm -f "$state/ipv6-is"
	if grep -q "^ *$card:" /proc/net/dev; then
		ip link del "$interface" 2>/dev/null
		rename "$card" "$interface" || return 1
	fi
	if [ -n "$1" ]; then
		rename "$interface" "$card" || return 1
		ip link add link "$card" name "$interface" type vlan id "$1" || {
			rename "$card" "$interface"
			ip link set "$interface" up
			return 1
		}
		# It is the VLAN's only: nobody outside of that gets an address of it.
		echo 1 >"/proc/sys/net/ipv6/conf/$card/disable_ipv6"
		ip link set "$card" up
	fi
	ip link set "$interface" up
	sv term mdnsd >/dev/null 2>&1 || :
}

# IPv6 as it was chosen: `auto` takes what routers announce (SLAAC); with `static` and no gateway
# only the way out. What is as it should be is left alone: to begin anew ends connections.
set_ipv6() { # auto|static|off [ADDRESS/BITS GATEWAY]
	wanted="$* $(ip -o link show "$interface" | cut -d: -f1)"
	[ "$(cat "$state/ipv6-is" 2>/dev/null)" != "$wanted" ] || return 0
	rm -f "$state/ipv6-is"
	conf=/proc/sys/net/ipv6/conf/$interface
	if [ -d "$conf" ]; then
		echo 1 >"$conf/disable_ipv6" || return 1 # forgets addresses and routes
		[ "$1" = off ] || begin_ipv6 "$@" || return 1
	elif [ "$1" = static ]; then
		return 1
	fi
	mkdir -p "$state"
	echo "$wanted" >"$state/ipv6-is"
}

begin_ipv6() { # auto|static [ADDRESS/BITS GATEWAY]
	own=1 routers=1
	[ "$1" = auto ] || own=0
	[ -z "$3" ] || routers=0
	echo "$own" >"$conf/autoconf"
	echo "$routers" >"$conf/accept_ra"
	echo 0 >"$conf/disable_ipv6"
	[ "$1" = static ] || return 0
	ip -6 addr add "$2" dev "$interface" || return 1
	[ -z "$3" ] || ip -6 route replace default via "$3" dev "$interface" || return 1
}

# Flags of the interface's own IPv6 addresses (linux/if_addr.h), as words: 40 is being tried, 08
# was tried in vain, because another machine has it.
ipv6_flags() {
	while read -r _ _ _ scope flags name; do
		[ "$scope/$name" != "00/$interface" ] || echo "$flags"
	done </proc/net/if_inet6
}

has_address() { # ADDRESS/BITS
	ip -4 -o addr show dev "$interface" 2>/dev/null | grep -qF " $1 "
}

clear_address() {
	ip -4 addr flush dev "$interface"
}

# Give the interface this address and no other.
set_address() { # ADDRESS/BITS GATEWAY
	if ! has_address "$1"; then
		clear_address
		ip addr add "$1" broadcast + dev "$interface" || return 1
		# Who asked for it in vain need not ask again; who knew another card by it knows better.
		arping -q -U -c 1 -I "$interface" "${1%/*}" >/dev/null 2>&1 &
		# It begins anew, with this address.
		sv term mdnsd >/dev/null 2>&1 || :
	fi
	if [ -n "$2" ]; then
		ip route replace default via "$2" dev "$interface" || return 1
	fi
}

set_name_servers() { # DNS
	for server in $1; do
		echo "nameserver $server"
	done | put /run/resolv.conf
}

# The box's name: what was chosen, else made of the last half of the card's address.
name_box() {
	name=$(setting "$system/name.conf" name)
	if ! is_name "$name"; then
		mac=$(tr -d : 2>/dev/null <"/sys/class/net/$interface/address") || mac=
		mac=${mac#??????}
		name=naproxy${mac:+-$mac}
	fi
	[ "$(hostname)" = "$name" ] || hostname "$name"
}
