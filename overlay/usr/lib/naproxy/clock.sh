# shellcheck shell=sh
# Time zone and time servers. To be sourced, after common.sh and checks.sh.

# Words on what is wrong with a file of settings about the time, or nothing. No file: no settings.
time_problem() { # FILE
	zone=$(setting "$1" time_zone)
	[ -z "$zone" ] || is_zone "$zone" || echo "time_zone: this box knows no such time zone"
	all 4 is_time_server "$(setting "$1" ntp)" || echo "ntp: must be at most four names or addresses"
}

# Varnish panics, and serves nothing, as long as a clock without a battery stands before 10^9 s,
# September 2001. So it begins in 2002: no guess, and long before a time that counts as set (2026).
begin_clock() {
	[ "$(date +%s)" -ge 1009843200 ] || date -s @1009843200 >/dev/null
}

# Make these settings true, for programs that start from now on.
set_clock() { # FILE
	zone=$(setting "$1" time_zone)
	ln -sfn "/usr/share/zoneinfo/${zone:-Etc/UTC}" /run/localtime
	mkdir -p /run/chrony.d
	servers=$(setting "$1" ntp)
	[ -z "$servers" ] || rm -f /run/chrony.d/dhcp.sources
	{
		for server in $servers; do
			echo "server $server iburst"
		done
		[ -n "$servers" ] || echo "pool pool.ntp.org iburst"
	} | put /run/chrony.d/chosen.sources
}
