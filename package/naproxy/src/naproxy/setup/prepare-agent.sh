sh <<'NAPROXY'
# Installs the agent of the Naproxy box on this server, with a new key. Run it as root.
set -eu
box='@BOX@' pin='sha256//@PIN@' sum=@SHA256@
fail()
{
	echo "naproxy: $*" >&2
	exit 1
}
[ "$(id -u)" = 0 ] || fail "run this as root"
command -v curl >/dev/null || fail "install curl first: apt install curl"
umask 077
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
# The box signs its own certificate: its key is compared with the one in this text, nothing else is.
ask()
{
	curl -sS --proto =https --insecure --pinnedpubkey "$pin" --noproxy '*' --max-time 60 \
	    -H 'Sec-Fetch-Site: none' "$@"
}
ask -o agent.tar.gz "$box/agent/naproxy-agent.tar.gz" || fail "the box did not answer at $box"
echo "$sum  agent.tar.gz" | sha256sum -c - >/dev/null ||
    fail "what the box sent is not the program that its page named"
tar xzf agent.tar.gz
naproxy-agent/install --check
# The code is good once; on a command line others on this server could read it.
printf %s '@CODE@' | ask -o key -H 'Content-Type: text/plain' --data-binary @- "$box/agent/key" ||
    fail "the box did not answer at $box"
naproxy-agent/install @SERVER@ key
NAPROXY
