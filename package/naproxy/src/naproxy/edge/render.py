"""haproxy's configuration: the only module that knows its language. Pure.

haproxy ends TLS. HTTP/1.1 goes on to Varnish byte by byte, so that only Varnish parses it;
HTTP/2 becomes HTTP/1.1, each stream a request. PROXY v2 tells Varnish the client's address.

It also begins TLS, to the servers that want it: then Varnish speaks to a socket of haproxy's, which
has one connection to the server for each of Varnish's, as long as Varnish keeps it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files as resources
from pathlib import Path
from typing import Final

from naproxy.config.document import Config, Server
from naproxy.core.names import ascii_site
from naproxy.edge.to_server import Way
from naproxy.edge.x509 import Pair

CONFIGURATION: Final = "haproxy.cfg"
_LIST: Final = "crt-list"
_HELLO: Final = "hello.lua"
_OWN: Final = "self.pem"
_PER_CERTIFICATE: Final = "cert-{}.pem"
_AUTHORITIES: Final = "ca-{}.pem"
_NO_WAYS: Final[Mapping[str, Way]] = {}
_SAFE: Final = re.compile(r"[!-~]+")
_NEVER: Final = set("\"\\#'$")
_MOST: Final = 1500
_SLACK_S: Final = 10
"""haproxy gives up so much later than Varnish, whose answer says why."""

_CIPHERS: Final = ":".join(
    f"ECDHE-{key}-{cipher}"
    for cipher in ("AES128-GCM-SHA256", "CHACHA20-POLY1305", "AES256-GCM-SHA384")
    for key in ("ECDSA", "RSA")
)
_CIPHERS_13: Final = "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_256_GCM_SHA384"

_PRESSURE: Final = ((0, 512, 2000), (256, 64, 500), (512, 16, 200), (768, 2, 150))
"""While so many connections are open, a network has at most so many, and so many new ones in 10 s.

They pile up where there are too many handshakes for the processor, too. Not `maxsslrate`: at that
everybody waits, and a flood from one address is enough to reach it.
"""

_TEXT: Final = """\
global
    default-path config
    description @DIGEST@
    user @USER@
    group @GROUP@
    chroot @JAIL@
    # A handshake half done takes 40 kB, an idle connection 25 (make bench-edge, bench-tls).
    maxconn @MOST@
    hard-stop-after 30m
    ssl-default-bind-options ssl-min-ver TLSv@OLDEST@ no-tls-tickets
    ssl-default-bind-ciphers @CIPHERS@
    ssl-default-bind-ciphersuites @CIPHERS_13@
    tune.ssl.cachesize 4000
    tune.h2.max-concurrent-streams 100
    # The heads that Varnish takes, see varnishd.args. Most responses' are much smaller, and each
    # stream of HTTP/2 may have such a buffer.
    tune.bufsize 40960
    tune.http.maxhdr 144
    stats socket @STATS@ mode 600 level user expose-fd listeners

defaults
    mode tcp
    timeout connect 5s
    # The handshake; afterwards `tunnel` counts, and Varnish ends idle connections long before it.
    timeout client 20s
    timeout server @WAIT_S@s
    timeout tunnel @TUNNEL_S@s
    timeout http-request 5s
    timeout http-keep-alive 5s
    # A visitor who left without a word, such as a phone out of reach, is gone after three minutes.
    option clitcpka
    clitcpka-idle 120s
    clitcpka-intvl 15s
    clitcpka-cnt 4
    # One who says that there is no more to come still gets the response.
    no option abortonclose
"""

_TABLES: Final = """
backend of_address
    stick-table type ipv6 size 16k expire 60s store conn_cur,conn_rate(10s)

backend of_network
    stick-table type ipv6 size 16k expire 60s store conn_cur,conn_rate(10s)

backend of_streams
    stick-table type ipv6 size 16k expire 60s store conn_cur
"""

_LIMITS: Final = """
    tcp-request connection track-sc0 src,ipmask(32,64) table of_address
    tcp-request connection track-sc1 src,ipmask(24,48) table of_network
    tcp-request connection reject if { sc0_conn_cur gt 128 }
    tcp-request connection reject if { sc0_conn_rate gt 200 }
@PRESSURE@"""

_BIND: Final = """\
    # A client that takes nothing of what is sent is not waited for: `tunnel` would, for an hour.
    bind @LISTEN@ tcp-ut 120s"""

_BIND_BEHIND: Final = "    bind unix@@JAIL@/edge.sock accept-proxy mode 660 group @USER@"

_FRONT: Final = """
# Reads for whom a connection is, in the first that it says (RFC 6066, 3), and no more of it.
frontend front
    maxconn 1500
@BIND@@LIMITS@
    tcp-request inspect-delay 5s
    tcp-request content set-var(sess.hello) lua.hello
    tcp-request content reject if { var(sess.hello) -m str ! }
    tcp-request content accept if { var(sess.hello) -m found }
    # Only once no more of it may come.
    tcp-request content reject if WAIT_END
@CHOICES@
"""

_PASSED: Final = """
backend through_@ID@
    # As long as naproxy-through has it.
    timeout tunnel 1h
    server through unix@/through/@ID@.sock send-proxy-v2
"""

_TO_EDGE: Final = """
backend tls
    server tls unix@/edge.sock send-proxy-v2
"""

_EDGE: Final = """
frontend edge
@BIND@ ssl crt-list crt-list alpn h2,http/1.1 curves X25519:P-256@LIMITS@
    tcp-request content switch-mode http proto h2 if { ssl_fc_alpn h2 }
    use_backend varnish_h2 if { ssl_fc_alpn h2 }
    default_backend varnish_h1

backend varnish_h1
    server varnish unix@/varnish.sock send-proxy-v2-ssl

backend varnish_h2
    mode http
    http-reuse safe
    # 20 connections have 2000 streams, and a thread of Varnish's takes 70 kB. No `maxconn`: in its
    # queue everybody would wait for those who send a form byte by byte.
    http-request track-sc2 src,ipmask(24,48) table of_streams
    http-request return status 503 content-type text/plain hdr Retry-After 5 string "Too many \
requests at once. Please try again." if { be_conn gt 300 } { sc2_conn_cur gt 20 }
    server varnish unix@/varnish.sock send-proxy-v2-ssl
"""

_TO_SERVER: Final = """
listen to_@ID@
    mode http
    bind unix@@RUN@/edge/to-@ID@.sock accept-proxy mode 660@GROUP@
    # Varnish ends what is idle, and what takes too long.
    timeout client @WAIT_S@s
    timeout http-keep-alive 1m
    timeout connect @CONNECT_MS@ms
    timeout server @WAIT_S@s
    # A server without network or power says nothing. `tcp-ut` counts for probes and for what it has
    # not acknowledged; it also ends an upload of which the server takes nothing for so long.
    option srvtcpka
    srvtcpka-idle 4s
    srvtcpka-intvl 2s
    srvtcpka-cnt 3
    # At a reload: Varnish may be about to send a POST.
    option idle-close-on-response
    # Some logins hold for a connection.
    http-reuse never
    retries 0
    # Varnish has read it already.
    option accept-invalid-http-request
    option accept-invalid-http-response
    # No words of its own: to Varnish the server is down, and it has words for that.
@SILENT@
    http-request set-var(txn.name) req.hdr(host) if !{ req.hdr(host) -m reg '^[0-9.]+$|^\\[' }
    server web @ADDRESS@ ssl @CHECK@@PROXY@ tcp-ut 20s
"""
_SILENT: Final = "\n".join(
    f"    errorfile {status} /dev/null" for status in (400, 403, 408, 413, 500, 502, 503, 504)
)


@dataclass(frozen=True, slots=True)
class Here:
    """Where things are on this machine."""

    run_dir: Path
    """Of Naproxy; `edge/jail/varnish.sock` in it is Varnish's."""
    user: str = "naproxy-edge"
    """The workers' user and group; the master runs as root and reads the keys."""
    ipv6: bool = True
    varnish_group: str = "varnish"
    """The group of processes that may connect to servers over HTTPS."""

    @property
    def jail(self) -> Path:
        """Return all that the workers see of the file system."""
        return self.run_dir / "edge" / "jail"

    def through(self, server: str) -> Path:
        """Return where naproxy-through takes connections for a server."""
        return self.jail / "through" / f"{server}.sock"

    @property
    def stats(self) -> Path:
        """Return the socket that haproxy tells its state on."""
        return self.run_dir / "edge" / "stats.sock"

    @property
    def pid_file(self) -> Path:
        """Return the file that has the master's process id."""
        return self.run_dir / "edge" / "master.pid"


def wanted(config: Config) -> bool:
    """Return whether any server is served over HTTPS, passed through, or reached over HTTPS."""
    return (
        serves(config) or bool(passed(config)) or any(server.by_https for server in config.server)
    )


def serves(config: Config) -> bool:
    """Return whether the box is to serve HTTPS."""
    return any(server.https.mode == "box" for server in config.server)


def passed(config: Config) -> list[Server]:
    """Return the servers whose visitors are passed on to them unopened."""
    return [server for server in config.server if server.https.mode == "through"]


def render(
    config: Config,
    pairs: Mapping[str, Pair],
    own: bytes,
    here: Here,
    ways: Mapping[str, Way] = _NO_WAYS,
) -> dict[str, bytes]:
    """Return the files of a folder that haproxy can start from.

    `own` is the box's certificate for names without another certificate. A server that is reached
    over HTTPS and is not in `ways` gets no requests.
    """
    # Of two that are for the same name, the first in the list is shown.
    longest = sorted(pairs, key=lambda name: (-pairs[name].certificate.not_after_s, name))
    files = {_OWN: own}
    for name in longest:
        files[_PER_CERTIFICATE.format(_word(name))] = pairs[name].chain + pairs[name].key
    files[_LIST] = "".join(f"{name}\n" for name in files).encode()
    for name, way in ways.items():
        if way.authorities is not None:
            files[_AUTHORITIES.format(_word(name))] = way.authorities
    if passed(config):
        files[_HELLO] = resources(__package__).joinpath(_HELLO).read_bytes()
    text = _configuration(config, here, ways)
    digest = sha256(text.encode())
    for name, data in files.items():
        digest.update(b"%d %b %d\n%b" % (len(name), name.encode(), len(data), data))
    files[CONFIGURATION] = text.replace("@DIGEST@", digest.hexdigest()).encode()
    return files


def digest_of(files: Mapping[str, bytes]) -> str:
    """Return what tells these files from all others: haproxy says it too, as its description."""
    found = re.search(rb"^ *description (\S+)$", files[CONFIGURATION], re.MULTILINE)
    assert found
    return found[1].decode()


def _configuration(config: Config, here: Here, ways: Mapping[str, Way]) -> str:
    served = [server for server in config.server if server.https.mode == "box"]
    longest_s = max((s.hold.longest_s + _silent_s(s) for s in served), default=0)
    sockets_s = max((s.websocket_idle_s for s in config.server), default=0)
    port = config.https.port
    values = {
        "USER": here.user,
        "GROUP": here.user,
        "JAIL": str(here.jail),
        "STATS": str(here.stats),
        "OLDEST": config.https.oldest,
        "CIPHERS": _CIPHERS,
        "CIPHERS_13": _CIPHERS_13,
        "WAIT_S": str(round(longest_s) + _SLACK_S),
        # HTTP/1.1 is a tunnel, too, and so are its streams.
        "TUNNEL_S": str(round(max(longest_s, sockets_s)) + _SLACK_S),
        # One that goes on from `front` to where TLS ends counts twice.
        "MOST": str(2 * _MOST if passed(config) else _MOST),
    }
    text = _TEXT + _visitors(config)
    if passed(config):
        text = text.replace("    stats socket", f"    lua-load {_HELLO}\n    stats socket", 1)
    pressure = "\n".join(
        f"    tcp-request connection reject if {{ fe_conn gt {together} }} {{ {what} gt {most} }}"
        for together, most_open, most_new in _PRESSURE
        for what, most in (("sc1_conn_cur", most_open), ("sc1_conn_rate", most_new))
    )
    text = text.replace("@PRESSURE@", pressure)
    text = text.replace("@LISTEN@", f":::{port} v4v6" if here.ipv6 else f"0.0.0.0:{port}")
    text = _filled(text, values)
    return text + "".join(
        _to_server(server, ways[server.id], here) for server in config.server if server.id in ways
    )


def _visitors(config: Config) -> str:
    if not passed(config):
        edge = _EDGE.replace("@BIND@", _BIND).replace("@LIMITS@", _LIMITS)
        return _TABLES + edge if serves(config) else ""
    front = _FRONT.replace("@BIND@", _BIND).replace("@LIMITS@", _LIMITS)
    text = _TABLES + front.replace("@CHOICES@", "\n".join(_choices(config)))
    text += "".join(_filled(_PASSED, {"ID": server.id}) for server in passed(config))
    if serves(config):
        # Limits hold at the front.
        text += _TO_EDGE + _EDGE.replace("@BIND@", _BIND_BEHIND).replace("@LIMITS@", "")
    return text


def _choices(config: Config) -> Iterator[str]:
    """Yield what leads a connection by its name: the whole name before what is below one."""
    whole, below = [], []
    for server in config.server:
        backend = f"through_{server.id}" if server in passed(config) else "tls"
        if backend == "tls" and not serves(config):
            continue
        for host in server.hosts:
            name = _word(ascii_site(host))
            if name.startswith("*."):
                # One label before it, as Varnish has it.
                asked = f"var(sess.hello),field(2,.,0) -m str -i {name.removeprefix('*.')}"
                below.append(f"    use_backend {backend} if {{ {asked} }}")
            else:
                whole.append(f"    use_backend {backend} if {{ var(sess.hello) -m str -i {name} }}")
    yield from whole + below
    if serves(config):
        yield "    default_backend tls"


def _filled(text: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(f"@{name}@", _word(value))
    return text


def _silent_s(server: Server) -> float:
    """Return how long Varnish waits for a response, or for the next part of one."""
    return max(server.first_byte_timeout_s, server.stream_idle_s)


def _to_server(server: Server, way: Way, here: Here) -> str:
    family = "ipv6" if ":" in server.address else "ipv4"
    wait_s = _silent_s(server) + _SLACK_S
    proxy = " send-proxy" if server.https.tell_client_by_proxy else ""
    text = _TO_SERVER.replace("@SILENT@", _SILENT).replace("@CHECK@", _check(server, way))
    group = f" group {_word(here.varnish_group)}" if here.varnish_group else ""
    return _filled(
        text.replace("@PROXY@", proxy).replace("@GROUP@", group),
        {
            "ID": server.id,
            "RUN": str(here.run_dir),
            "CONNECT_MS": str(round(1000 * server.connect_timeout_s)),
            "WAIT_S": str(round(wait_s)),
            "ADDRESS": f"{family}@{server.address}:{server.web_port}",
        },
    )


def _check(server: Server, way: Way) -> str:
    """Return how it is known. haproxy checks the name it asks by, or else that of `verifyhost`."""
    check, name = server.https.to_server_check, server.https.to_server_name
    asked = f"str({_word(ascii_site(name))})" if name else "var(txn.name)"
    if check == "name":
        return f"verify none sni {asked}"
    file = _AUTHORITIES.format(_word(server.id)) if way.authorities is not None else "@system-ca"
    verify = f"verify required ca-file {file}"
    if check == "pin":
        return f"{verify} sni {asked}" if name else verify
    # Requests by address, or without a name, get the first one.
    first = next(iter(server.web_names), server.address)
    return f"{verify} sni {asked} verifyhost {_word(first)}"


def _word(text: str) -> str:
    """Return a text that is one word for haproxy, and nothing else; ValueError."""
    if not _SAFE.fullmatch(text) or set(text) & _NEVER:
        raise ValueError(f"{text!r} would mean something else to haproxy")
    return text
