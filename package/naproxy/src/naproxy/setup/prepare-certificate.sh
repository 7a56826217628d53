sh <<'NAPROXY'
# Lets the Naproxy box fetch one certificate of this server with its key, and nothing else. Run it
# as root.
set -eu
command -v sudo >/dev/null || { echo "Install sudo first: apt install sudo"; exit 1; }
grep -qe 'PRIVATE KEY-----' -- '@FOLDER@'/* || { echo "There is no key in @FOLDER@"; exit 1; }
id -u @USER@ >/dev/null 2>&1 ||
	useradd --system --create-home --home-dir /var/lib/@USER@ --shell /bin/sh @USER@
# As that user, whose folder it is: root would follow a link that somebody has laid there.
printf '%s\n' '@LINE@' | su -s /bin/sh @USER@ -c '
	umask 077
	cd && mkdir -p .ssh && cd .ssh && touch authorized_keys
	{ grep -vF "@COMMAND@\"" authorized_keys; cat; } >authorized_keys.new
	mv authorized_keys.new authorized_keys'
cat >@COMMAND@ <<'END'
#!/bin/sh
# Prints a certificate, its chain and its key.
cat -- '@FOLDER@'/*
END
chmod 755 @COMMAND@
echo '@USER@ ALL=(root) NOPASSWD: @COMMAND@ ""' >/etc/sudoers.d/@NAME@
chmod 440 /etc/sudoers.d/@NAME@
visudo -c >/dev/null
echo "Done. The box may now fetch the certificate."
NAPROXY
