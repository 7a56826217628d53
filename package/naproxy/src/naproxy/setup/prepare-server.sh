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
for name in rsync borg restic pg_dump mariadb-dump; do
	if pgrep -x "$name" >/dev/null; then
		echo "$name is running"
		exit 1
	fi
done
# Who is connected past the box would lose the server. If the box has more addresses, add them.
box="${SSH_CLIENT%% *}"
for port in @PORTS@; do
	here=$(ss -Htn state established "sport = :$port") || exit 1
	number=$(printf '%s\n' "$here" | awk -v box="$box" '
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
		NF >= 4 {
			peer = address($4)
			if (peer ~ /^127\./ || peer == "::1" || peer == address($3) || peer in seen)
				next
			seen[peer]
			number++
		}
		END { print number + 0 }') || exit 1
	if [ "$number" -gt 0 ]; then
		echo "around $port $number"
		exit 1
	fi
done
exec sudo -n systemctl @VERB@ --check-inhibitors=yes
END
chmod 755 /usr/local/bin/naproxy-sleep
echo '@USER@ ALL=(root) NOPASSWD: /usr/bin/systemctl @VERB@ --check-inhibitors=yes' \
	>/etc/sudoers.d/naproxy
chmod 440 /etc/sudoers.d/naproxy
visudo -c >/dev/null
echo "Done. The box may now put this server to sleep."
NAPROXY
