sh <<'NAPROXY'
# Lets the Naproxy box put this server to sleep, and nothing else. Run it as root.
set -eu
command -v sudo >/dev/null || { echo "Install sudo first: apt install sudo"; exit 1; }
command -v ss >/dev/null || { echo "Install iproute2 first: apt install iproute2"; exit 1; }
id -u @USER@ >/dev/null 2>&1 ||
	useradd --system --create-home --home-dir /var/lib/@USER@ --shell /bin/sh @USER@
# As that user, whose folder it is: root would follow a link that somebody has laid there.
printf '%s\n' '@LINE@' | su -s /bin/sh @USER@ -c '
	umask 077
	cd && mkdir -p .ssh && cd .ssh && touch authorized_keys
	{ grep -vF /usr/local/bin/naproxy-sleep authorized_keys; cat; } >authorized_keys.new
	mv authorized_keys.new authorized_keys'
cat >/usr/local/bin/naproxy-sleep <<'END'
#!/bin/sh
# What this prints is the reason that people see.
for name in rsync borg restic rclone duplicity rdiff-backup rsnapshot kopia veeamagent veeamjobman \
    pg_dump pg_basebackup mysqldump mariadb-dump mariadb-backup ffmpeg HandBrakeCLI; do
	if pgrep -x "$name" >/dev/null; then
		echo "$name is running"
		exit 1
	fi
done
# Packages that are being installed: who holds a lock of dpkg or rpm.
for file in /var/lib/dpkg/lock-frontend /var/lib/dpkg/lock /var/lib/rpm/.rpm.lock; do
	place=$(stat -c '%d %i' "$file" 2>/dev/null) || continue
	device=${place% *}
	# File systems without a disk of their own (btrfs, overlays) tell programs another device.
	disk=$(printf ' %02x:%02x' "$((device >> 8 & 4095))" "$((device & 255 | device >> 12 & 1048320))")
	[ "${disk#* 00:}" = "$disk" ] || disk=
	if grep -q "$disk:${place#* } [0-9]* [0-9EOF]*\$" /proc/locks; then
		echo "packages are being installed ($file is locked)"
		exit 1
	fi
done
# Disks that are built or checked anew.
if [ -e /proc/mdstat ]; then
	array=$(awk '
		/^md/ { array = $1 }
		match($0, /(resync|recovery|reshape|check|repair) *= *[0-9]+[.][0-9]%/) {
			split(substr($0, RSTART, RLENGTH - 1), part, / *= */)
			print array " is being rebuilt (" part[1] ", " part[2] " % done)"
			exit
		}' /proc/mdstat) || exit 1
	[ -z "$array" ] || { echo "$array"; exit 1; }
fi
# A graphics processor that computes: of AMD's the kernel says so, of NVIDIA's their tool.
gpus=$(for file in /sys/class/drm/card*/device/gpu_busy_percent; do
	card=${file#/sys/class/drm/}
	# One that sleeps does not say.
	percent=$(cat "$file" 2>/dev/null) && echo "${card%%/*}, $percent"
done)
if command -v nvidia-smi >/dev/null; then
	said=$(nvidia-smi --query-gpu=index,utilization.gpu --format=csv,noheader,nounits 2>&1) ||
		case $said in
		*'No devices were found'*) said= ;;
		*) echo "the gpus cannot be read: nvidia-smi: $said"; exit 1 ;;
		esac
	gpus="$gpus
$(printf '%s\n' "$said" | sed 's/^/nvidia/')"
fi
printf '%s\n' "$gpus" | awk -F ', *' '
	$2 ~ /^[0-9]+$/ && $2 > 20 { print "GPU " $1 " is " $2 " % busy"; busy = 1; exit }
	END { exit busy }' || exit 1
# Who is connected past the box would lose the server, or a file (139, 445: SMB; 2049: NFS). The box
# names the ports of what else this server does: "watch 445/tcp 51820/udp". If the box has more
# addresses, add them.
box="${SSH_CLIENT%% *}"
asked="${SSH_ORIGINAL_COMMAND:-$*}"
tcp='139 445 2049' udp=
case " $asked " in *' watch '*)
	set -f
	tcp=
	for each in ${asked#*watch}; do
		case "${each%/*}" in *[!0-9]*) continue ;; esac
		case "$each" in
		?*/tcp) tcp="$tcp ${each%/*}" ;;
		?*/udp) udp="$udp ${each%/*}" ;;
		esac
	done
	;;
esac
past() # of rows as ss prints them, at a port: how many came past the box, and the first of them
{
	awk -v box="$box" -v port="$1" '
		function address(place)
		{
			sub(/:[0-9]+$/, "", place)
			sub(/%.*/, "", place)
			gsub(/\[|\]/, "", place)
			sub(/^::ffff:/, "", place)
			return place
		}
		BEGIN {
			for (i = split(box, own, " "); i > 0; i--)
				seen[address(own[i] ":0")]
		}
		NF >= 4 && $3 ~ ":" port "$" {
			peer = address($4)
			if (peer ~ /^127\./ || peer == "::1" || peer == address($3) || peer in seen)
				next
			seen[peer]
			if (!number++)
				first = peer
		}
		END { print number + 0, first }'
}
more() # what follows the first of so many
{
	[ "$1" = 1 ] || echo " and $(($1 - 1)) more"
}
for port in @PORTS@ $tcp; do
	here=$(ss -Htn state established "sport = :$port") || exit 1
	seen=$(printf '%s\n' "$here" | past "$port") || exit 1
	number=${seen%% *}
	[ "$number" = 0 ] && continue
	case " @PORTS@ " in
	*" $port "*) echo "around $port $number" ;;
	*) echo "port $port is connected to ${seen#* }$(more "$number")" ;;
	esac
	exit 1
done
if [ -n "$udp" ]; then
	flows=$(sudo -n /usr/local/sbin/naproxy-appointments flows) || {
		echo "udp port ${udp##* } cannot be watched: this server tracks no connections"
		exit 1
	}
	# What this server asks of others is no use of it.
	own=$(PATH=$PATH:/usr/sbin:/sbin ip -o addr show) || exit 1
	box="$box $(printf '%s\n' "$own" | awk '{ sub("/.*", "", $4); printf "%s ", $4 }')"
	for port in $udp; do
		seen=$(printf '%s\n' "$flows" | past "$port") || exit 1
		[ "${seen%% *}" = 0 ] && continue
		echo "udp port $port is used by ${seen#* }$(more "${seen%% *}")"
		exit 1
	done
fi
# The people who are logged in. The box's own sessions do not count: they have no terminal, and come
# from where this one does.
from=$(loginctl show-session "${XDG_SESSION_ID:-none}" --property=RemoteHost --value 2>/dev/null)
people=$(for id in $(loginctl --no-legend list-sessions 2>/dev/null | awk '{ print $1 }'); do
	# A session that has ended meanwhile prints nothing.
	loginctl show-session "$id" 2>/dev/null
	echo
done | awk -v me="$(id -un)" -v from="${from:-$box}" '
	/=/ {
		value = $0
		sub(/[^=]*=/, "", value)
		session[substr($0, 1, index($0, "=") - 1)] = value
		next
	}
	session["Class"] ~ /^user/ && session["Type"] ~ /^(tty|x11|wayland|mir|web)$/ {
		name = session["Name"]
		host = session["RemoteHost"]
		place = session["TTY"]
		if (name != me || place != "" || host != from) {
			if (place == "")
				place = session[session["Seat"] == "" ? "Service" : "Seat"]
			if (session["State"] == "closing")
				print name " has logged out, but left programs running"
			else if (host != "")
				print "logged in: " name " from " host
			else
				print "logged in: " name " at " place
			exit
		}
	}
	{ delete session }') || exit 1
[ -z "$people" ] || { echo "$people"; exit 1; }
# The box asks what this server is going to do by itself, and in its order says in how many
# seconds the server's own clock is to wake it.
case "$asked" in
*"check appointments") # the doctor: all but the sleep itself
	sudo -n -l /usr/bin/setpriv --ruid "$(id -un)" \
	    /usr/bin/systemctl @VERB@ --check-inhibitors=yes >/dev/null 2>&1 || {
		echo "cannot sleep: sudo does not allow the order"
		exit 1
	}
	sudo -n /usr/local/sbin/naproxy-appointments try || exit 1
	echo naproxy-would-sleep
	exit
	;;
*appointments) exec sudo -n /usr/local/sbin/naproxy-appointments ;;
*"alarm "*) sudo -n /usr/local/sbin/naproxy-appointments "${asked##* }" >/dev/null 2>&1 ;;
esac
# systemctl checks the locks, and all sessions but those of its real user: it must not count the box's.
exec sudo -n /usr/bin/setpriv --ruid "$(id -un)" /usr/bin/systemctl @VERB@ --check-inhibitors=yes
END
cat >/usr/local/sbin/naproxy-appointments <<'END'
#!/bin/sh
# Prints what this server is going to do by itself, and the ports at which it listens. With a
# number: so many seconds from now its own clock wakes it. With "flows": the connections by UDP.
# With "try": why it cannot sleep, by a dry run.
set -u
export LC_ALL=C
table=/proc/net/nf_conntrack
tracked() # the table of connections: where it is kept, whoever asks is in it
{
	if [ -r "$table" ]; then cat "$table"; else conntrack -L 2>/dev/null; fi | grep .
}
case "${1-all}" in
all) ;;
flows)
	rows=$(tracked) || exit 3
	# In the columns of ss; the first of each pair is who began.
	printf '%s\n' "$rows" | awk '
		/(^| )udp / {
			delete first
			for (i = 1; i <= NF; i++)
				if (split($i, pair, "=") == 2 && !(pair[1] in first))
					first[pair[1]] = pair[2]
			print 0, 0, first["dst"] ":" first["dport"], first["src"] ":" first["sport"]
		}'
	exit
	;;
try)
	case @VERB@ in
	suspend) can=CanSuspend targets='sleep.target suspend.target' ;;
	hibernate) can=CanHibernate targets='sleep.target hibernate.target' ;;
	*) can=CanPowerOff targets=poweroff.target ;;
	esac
	for target in $targets; do
		[ "$(systemctl show --property=LoadState --value "$target" 2>/dev/null)" != masked ] || {
			echo "cannot sleep: $target is masked: systemctl unmask $target allows it again"
			exit 1
		}
	done
	logind=org.freedesktop.login1
	case $(busctl call $logind /org/freedesktop/login1 $logind.Manager $can 2>/dev/null) in
	*'"na"'*)
		echo "cannot sleep: logind says that this server does not offer it"
		exit 1
		;;
	esac
	# As the order: locks count, and the box's own session does not.
	said=$(setpriv --ruid "${SUDO_UID:-0}" systemctl @VERB@ --check-inhibitors=yes --dry-run 2>&1) &&
		exit
	case $said in
	*'Operation inhibited by'* | *' is logged in on '*) printf '%s\n' "$said" ;;
	*) echo "cannot sleep: $(printf '%s' "$said" | tr '\n' ' ')" ;;
	esac
	exit 1
	;;
'' | *[!0-9]*) exit 2 ;;
*) exec rtcwake --mode no --seconds "$1" ;;
esac
plain() # the files of a folder that cron and run-parts take
{
	for file in "$1"/*; do
		case "${file##*/}" in *[!A-Za-z0-9_-]*) continue ;; esac
		[ ! -f "$file" ] || printf '%s\n' "$file"
	done
}
crontabs() # the crontabs in a folder: each has its user's name, which may have dots
{
	for file in "$1"/*; do
		case "${file##*/}" in '#'* | *'~' | tmp.* | *.dpkg-* | *.rpm*) continue ;; esac
		[ ! -f "$file" ] || printf '%s\n' "$file"
	done
}
listening() # of rows of ss: port/protocol/program of each that others can reach, at most 75
{
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
echo naproxy-appointments 1
date '+now %s'
rows=$(ss -Htulnp) || exit 1
tracked >/dev/null && flows=' flows' || flows=
printf 'listens%s%s\n' "$flows" "$(printf '%s\n' "$rows" | listening)"
echo "zone $(readlink -f /etc/localtime | sed 's|.*/zoneinfo/||') $(date +%z)"
[ ! -x /usr/sbin/anacron ] || echo anacron
for folder in /etc/cron.hourly /etc/cron.daily /etc/cron.weekly /etc/cron.monthly; do
	printf 'parts %s' "$folder"
	plain "$folder" | while read -r file; do [ ! -x "$file" ] || printf ' %s' "${file##*/}"; done
	echo
done
if [ -d /run/systemd/system ]; then
	timers=$(TZ=UTC systemctl list-timers --all --no-legend --no-pager --output=json) || exit 1
	printf '%s\n' "$timers" | sed 's/^/timers /'
fi
users=/var/spool/cron/crontabs
[ -d "$users" ] || users=/var/spool/cron
{ echo /etc/crontab; plain /etc/cron.d; crontabs "$users"; } | while read -r file; do
	[ -f "$file" ] || continue
	echo "crontab $file"
	grep -v '^[[:space:]]*\(#\|$\)' "$file" | sed 's/^/|/'
done
echo end
END
chmod 755 /usr/local/bin/naproxy-sleep /usr/local/sbin/naproxy-appointments
cat >/etc/sudoers.d/naproxy <<'END'
@USER@ ALL=(root) NOPASSWD: /usr/bin/setpriv --ruid @USER@ /usr/bin/systemctl @VERB@ --check-inhibitors=yes
@USER@ ALL=(root) NOPASSWD: /usr/local/sbin/naproxy-appointments
END
chmod 440 /etc/sudoers.d/naproxy
visudo -c >/dev/null
echo "Done. The box may now put this server to sleep."
NAPROXY
