sh <<'NAPROXY'
# Lets the Naproxy box put this server to sleep, and nothing else. Run it as root.
set -eu
command -v sudo >/dev/null || { echo "Install sudo first: apt install sudo"; exit 1; }
umask 022
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
# The agent, packed: it decides whether this server may sleep. Its SHA-256: @SHA256@
base64 -d >"$place/agent.tar.gz" <<'END'
@AGENT@
END
echo "@SHA256@  $place/agent.tar.gz" | sha256sum -c - >/dev/null || { echo "The text did not arrive whole."; exit 1; }
tar xzf "$place/agent.tar.gz" -C "$place"
"$place/naproxy-agent/install" --once @SERVER@
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
# The box's key runs this and nothing else. The agent reads the client and its request, and decides.
printf '%s\n%s\n' "${SSH_CLIENT-}" "${SSH_ORIGINAL_COMMAND:-$*}" |
	sudo -n /usr/local/sbin/naproxy-agent --once @STATE@
END
chmod 755 /usr/local/bin/naproxy-sleep
# An earlier text had the checks in here.
rm -f /usr/local/sbin/naproxy-appointments
cat >/etc/sudoers.d/naproxy <<'END'
@USER@ ALL=(root) NOPASSWD: /usr/local/sbin/naproxy-agent --once @STATE@
END
chmod 440 /etc/sudoers.d/naproxy
visudo -c >/dev/null
echo "Done. The box may now put this server to sleep."
NAPROXY
