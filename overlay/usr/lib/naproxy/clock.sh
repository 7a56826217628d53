# shellcheck shell=sh
# Time zone and time servers. To be sourced, after common.sh and checks.sh.

# Words on what is wrong with a file of wishes about the time, or nothing. No file: no wishes.
time_problem() { # FILE
	zone=$(wish "$1" time_zone)
	[ -z "$zone" ] || is_zone "$zone" || echo "time_zone: this box knows no such time zone"
	all 4 is_time_server "$(wish "$1" ntp)" || echo "ntp: must be at most four names or addresses"
}

# Make these wishes true, for programs that start from now on.
set_clock() { # FILE
	zone=$(wish "$1" time_zone)
	ln -sfn "/usr/share/zoneinfo/${zone:-Etc/UTC}" /run/localtime
	mkdir -p /run/chrony.d
	servers=$(wish "$1" ntp)
	[ -z "$servers" ] || rm -f /run/chrony.d/dhcp.sources
	{
		for server in $servers; do
			echo "server $server iburst"
		done
		[ -n "$servers" ] || echo "pool pool.ntp.org iburst"
	} | put /run/chrony.d/wished.sources
}
