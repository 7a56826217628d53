#!/bin/sh
# A server's facts about itself, for `naproxy doctor`. Reads only.
# Set in front of it: MAC, the address of the card that is to wake it; USER_IN, who logs in
# from the box, or nothing; STATE, what sleep is: ram, disk or off. SYS is for tests.

: "${MAC:=}" "${USER_IN:=}" "${STATE:=ram}" "${SYS:=/sys}" "${BOX:=}" "${LOGS:=/var/log}" "${ETC:=/etc}"
export LC_ALL=C
PATH=$PATH:/usr/sbin:/sbin

fact() {
	printf '%s=%s\n' "$1" "$(printf '%s' "$2" | tr -d '\r' | tr '\n' ' ' | cut -c 1-2000)"
}

has() {
	command -v "$1" >/dev/null 2>&1
}

listening() { # of rows of ss: port/protocol/program of each that others can reach, at most 75
	awk 'NF >= 6 && NR <= 5000 {
		place = port = $5
		sub(/.*:/, "", port)
		if (place ~ /^(127\.|\[::1\]|\[::ffff:127\.)/ || port !~ /^[0-9]+$/)
			next
		name = ""
		if (match($0, /\(\("[^"]*"/))
			name = substr($0, RSTART + 3, RLENGTH - 4)
		gsub(/[^A-Za-z0-9._-]/, "_", name)
		print port "/" $1 "/" substr(name, 1, 15)
	}' | sort -u | sort -t / -n | awk '
		NR <= 75 { printf " %s", $0 }
		END { if (NR > 75) printf " more/%d", NR - 75 }'
}

logind() {
	busctl --json=short call org.freedesktop.login1 /org/freedesktop/login1 \
	    org.freedesktop.login1.Manager "$1" 2>/dev/null
}

echo "naproxy-facts 1"
fact root "$([ "$(id -u)" -eq 0 ] && echo yes || echo no)"
fact system "$(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release 2>/dev/null), $(uname -sr)"

card=
for path in "$SYS"/class/net/*; do
	# A bridge or a bond has the address of a card: the card is what has a device.
	if [ -e "$path/device" ] && [ "$(cat "$path/address" 2>/dev/null)" = "$MAC" ]; then
		card=${path##*/}
	fi
done
fact card "$card"

if [ -n "$card" ]; then
	if has ethtool; then
		fact wol_can "$(ethtool "$card" 2>/dev/null | sed -n 's/.*Supports Wake-on: //p')"
		fact wol "$(ethtool "$card" 2>/dev/null | sed -n 's/^[[:space:]]*Wake-on: //p')"
		fact eee "$(ethtool --show-eee "$card" 2>/dev/null | sed -n 's/.*EEE status: //p')"
	else
		fact ethtool missing
	fi
	device=$(readlink -f "$SYS/class/net/$card/device")
	fact wakeup "$(cat "$device/power/wakeup" 2>/dev/null)"
	has lspci && fact pme "$(lspci -vv -s "${device##*/}" 2>/dev/null |
		sed -n 's/.*PME(\([^)]*\)).*/\1/p')"
	fact kept "$(
		grep -ls "ethernet-wol\|ethtool.*wol" /etc/network/interfaces /etc/network/interfaces.d/* \
		    /etc/systemd/system/*.service 2>/dev/null
		grep -ls "^WakeOnLan=.*magic" /etc/systemd/network/*.link 2>/dev/null
		has nmcli && nmcli -t -f NAME,DEVICE connection show --active 2>/dev/null |
			sed -n "s/:$card\$//p" | while read -r name; do
			nmcli -g 802-3-ethernet.wake-on-lan connection show "$name" | grep -x magic
		done
	)"
fi

fact states "$(cat "$SYS/power/state" 2>/dev/null)"
fact mem_sleep "$(cat "$SYS/power/mem_sleep" 2>/dev/null)"
case $STATE in
ram) target=suspend can=CanSuspend targets='suspend sleep' ;;
disk) target=hibernate can=CanHibernate targets='hibernate sleep' ;;
*) target=poweroff can=CanPowerOff targets=poweroff ;;
esac
if has systemctl; then
	fact target "$target.target $(systemctl show -p LoadState --value "$target.target" 2>/dev/null)"
	fact masked "$(for each in $targets; do
		[ "$(systemctl show -p LoadState --value "$each.target" 2>/dev/null)" = masked ] &&
			echo "$each.target"
	done)"
	fact can "$(logind "$can" | sed -n 's/.*\["\([a-z]*\)"\].*/\1/p')"
	fact inhibitors "$(logind ListInhibitors)"
	fact agent_unit "$(systemctl is-active naproxy-agent.service 2>/dev/null)"
fi
if has firewall-cmd && [ "$(firewall-cmd --state 2>/dev/null)" = running ]; then
	zone=$(firewall-cmd --get-zone-of-interface="$card" 2>/dev/null) ||
		zone=$(firewall-cmd --get-default-zone 2>/dev/null)
	fact firewalld "$zone: $(firewall-cmd --zone="$zone" --list-services 2>/dev/null) $(
		firewall-cmd --zone="$zone" --list-ports 2>/dev/null)"
fi
has ufw && fact ufw "$(ufw status 2>/dev/null | sed -n '1p; s/ *ALLOW.*//p')"
has nft && fact nft_drops "$(nft list ruleset 2>/dev/null | grep -c 'hook input.*policy drop')"
# What else it does: the ports at which others can reach it. Who asks is in the table of connections.
table=/proc/net/nf_conntrack
if [ -r "$table" ]; then cat "$table"; else conntrack -L 2>/dev/null; fi | grep -q . &&
	flows=flows || flows=
has ss && rows=$(ss -Htulnp 2>/dev/null) &&
	fact listens "$flows$(printf '%s\n' "$rows" | listening)"
fact users "$(who 2>/dev/null | awk '{ print $1 " " $2 ";" }')"
if [ -n "$USER_IN" ]; then
	home=$(getent passwd "$USER_IN" | cut -d: -f6)
	fact login "$(getent passwd "$USER_IN" | cut -d: -f7)"
	fact forced "$(grep -c 'command="' "$home/.ssh/authorized_keys" 2>/dev/null)"
	fact keys "$(grep -c '^[^#]' "$home/.ssh/authorized_keys" 2>/dev/null)"
	path=$(sed -n 's/.*command="\(\/[^" ]*\).*/\1/p' "$home/.ssh/authorized_keys" 2>/dev/null |
		head -n 1)
	fact command "$([ -x "$path" ] && echo runs)"
	# systemctl counts the sessions of all but its real user, if logind has any of ssh.
	fact command_counts "$([ "$USER_IN" != root ] && grep -q '^[^#]*check-inhibitors=yes' "$path" 2>/dev/null &&
		! grep -q '^[^#]*--ruid' "$path" && grep -qs '^[^#]*pam_systemd' "$ETC"/pam.d/* && echo yes)"
	fact command_looks "$(grep -q 'around\|naproxy-agent' "$path" 2>/dev/null && echo yes)"
	fact command_tells "$(grep -q 'naproxy-appointments\|naproxy-agent' "$path" 2>/dev/null && echo yes)"
fi
config=$ETC/naproxy-agent/naproxy-agent.conf
[ -r "$config" ] && fact ignored_ports "$(sed -n 's/^connections-except-ports *= *//p' "$config") -"
fact virtual "$(has systemd-detect-virt && systemd-detect-virt 2>/dev/null)"
# Whom the web server thinks it was asked by; a log of all sites has the site first. Probes are ours.
fact box "$BOX"
fact log_clients "$(tail -qn 200 "$LOGS"/apache2/*access*log "$LOGS"/httpd/*access*log \
    "$LOGS"/nginx/*access*log 2>/dev/null | grep -v ' "naproxy/' |
	awk '{ print ($1 ~ /^[0-9a-fA-F.:]+$/) ? $1 : $2 }' | sort | uniq -c | sort -rn |
	awk 'NR <= 20 { print $2 "=" $1 }')"
