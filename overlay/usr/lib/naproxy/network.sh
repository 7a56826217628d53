# shellcheck shell=sh
# The interface to the office. To be sourced, after common.sh and checks.sh.

# Words on what is wrong with a file of network settings, or nothing.
network_problem() { # FILE
	method=$(setting "$1" method)
	address=$(setting "$1" address)
	gateway=$(setting "$1" gateway)
	dns=$(setting "$1" dns)
	all 3 is_ipv4 "$dns" || echo "dns: must be at most three IPv4 addresses"
	case $method in
	dhcp) ;;
	static)
		is_ipv4 "${address%/*}" && is_bits "${address#*/}" ||
			echo "address: must be as 192.168.1.5/24"
		[ -z "$gateway" ] || is_ipv4 "$gateway" || echo "gateway: must be an IPv4 address"
		;;
	*) echo "method: must be dhcp or static" ;;
	esac
}

# Sets method, address, gateway and dns to what was chosen: what is being tried, else what was
# kept; what is wrong or missing counts as DHCP.
chosen_network() {
	for file in "$state/network" "$system/network.conf"; do
		[ -f "$file" ] || continue
		problem=$(network_problem "$file")
		if [ -z "$problem" ]; then
			method=$(setting "$file" method)
			address=$(setting "$file" address)
			gateway=$(setting "$file" gateway)
			dns=$(setting "$file" dns)
			return
		fi
		echo "$file is not used: $problem"
	done
	method=dhcp address='' gateway='' dns=''
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
