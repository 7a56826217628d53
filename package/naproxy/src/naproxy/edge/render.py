"""What haproxy is told: the only place that knows its language. Pure.

haproxy ends TLS. HTTP/1.1 goes on to Varnish byte by byte, so that Varnish is the only one who
reads it; HTTP/2 becomes HTTP/1.1, each stream a request. Varnish hears by PROXY v2 who it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from naproxy.config.document import Config
from naproxy.edge.x509 import Pair

CONFIGURATION: Final = "haproxy.cfg"
_LIST: Final = "crt-list"
_OWN: Final = "self.pem"
_PER_CERTIFICATE: Final = "cert-{}.pem"
_SAFE: Final = re.compile(r"[!-~]+")
_NEVER: Final = set("\"\\#'$")
_SLACK_S: Final = 10
"""haproxy gives up so much later than Varnish, whose answer says why."""

_CIPHERS: Final = ":".join(
    f"ECDHE-{key}-{cipher}"
    for cipher in ("AES128-GCM-SHA256", "CHACHA20-POLY1305", "AES256-GCM-SHA384")
    for key in ("ECDSA", "RSA")
)
_CIPHERS_13: Final = "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_256_GCM_SHA384"

_TEXT: Final = """\
global
    default-path config
    description @DIGEST@
    user @USER@
    group @GROUP@
    chroot @JAIL@
    maxconn 3000
    maxsslrate 200
    hard-stop-after 30m
    ssl-default-bind-options ssl-min-ver TLSv@OLDEST@ no-tls-tickets
    ssl-default-bind-ciphers @CIPHERS@
    ssl-default-bind-ciphersuites @CIPHERS_13@
    tune.ssl.cachesize 4000
    tune.h2.max-concurrent-streams 100
    stats socket @STATS@ mode 600 level user expose-fd listeners

defaults
    mode tcp
    timeout connect 5s
    # The handshake; afterwards `tunnel` counts, and Varnish ends idle connections long before it.
    timeout client 20s
    timeout server @WAIT_S@s
    timeout tunnel 1h
    timeout http-request 5s
    timeout http-keep-alive 5s

backend of_address
    stick-table type ipv6 size 16k expire 60s store conn_cur,conn_rate(10s)

backend of_network
    stick-table type ipv6 size 16k expire 60s store conn_cur

frontend edge
    # A client that takes nothing of what is sent is not waited for: `tunnel` would, for an hour.
    bind @LISTEN@ tcp-ut 120s ssl crt-list crt-list alpn h2,http/1.1 curves X25519:P-256
    tcp-request connection track-sc0 src,ipmask(32,64) table of_address
    tcp-request connection track-sc1 src,ipmask(24,48) table of_network
    tcp-request connection reject if { sc0_conn_cur gt 128 }
    tcp-request connection reject if { sc1_conn_cur gt 512 }
    tcp-request connection reject if { sc0_conn_rate gt 200 }
    tcp-request content switch-mode http proto h2 if { ssl_fc_alpn h2 }
    use_backend varnish_h2 if { ssl_fc_alpn h2 }
    default_backend varnish_h1

backend varnish_h1
    server varnish unix@/varnish.sock send-proxy-v2-ssl

backend varnish_h2
    mode http
    http-reuse safe
    server varnish unix@/varnish.sock send-proxy-v2-ssl
"""


@dataclass(frozen=True, slots=True)
class Here:
    """Where things are on this machine."""

    run_dir: Path
    """Of Naproxy; `edge/jail/varnish.sock` in it is Varnish's."""
    user: str = "naproxy-edge"
    """Whose user and group the workers are; the master is root's, and reads the keys."""
    ipv6: bool = True

    @property
    def jail(self) -> Path:
        """Return all that the workers see of the file system."""
        return self.run_dir / "edge" / "jail"

    @property
    def stats(self) -> Path:
        """Return the socket that haproxy tells its state on."""
        return self.run_dir / "edge" / "stats.sock"

    @property
    def pid_file(self) -> Path:
        """Return the file that has the master's process id."""
        return self.run_dir / "edge" / "master.pid"


def wanted(config: Config) -> bool:
    """Return whether the box is to serve HTTPS at all."""
    return any(server.https.mode == "box" for server in config.server)


def render(config: Config, pairs: Mapping[str, Pair], own: bytes, here: Here) -> dict[str, bytes]:
    """Return the files of a folder that haproxy can start from.

    `own` is the box's certificate for visitors who ask for a name that no other is for.
    """
    # Of two that are for the same name, the first in the list is shown.
    longest = sorted(pairs, key=lambda name: (-pairs[name].certificate.not_after_s, name))
    files = {_OWN: own}
    for name in longest:
        files[_PER_CERTIFICATE.format(_word(name))] = pairs[name].chain + pairs[name].key
    files[_LIST] = "".join(f"{name}\n" for name in files).encode()
    text = _configuration(config, here)
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


def _configuration(config: Config, here: Here) -> str:
    served = [server for server in config.server if server.https.mode == "box"]
    longest_s = max((s.hold.limit_s + s.first_byte_timeout_s for s in served), default=0)
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
    }
    text = _TEXT.replace("@LISTEN@", f":::{port} v4v6" if here.ipv6 else f"0.0.0.0:{port}")
    for name, value in values.items():
        text = text.replace(f"@{name}@", _word(value))
    return text


def _word(text: str) -> str:
    """Return a text that is one word for haproxy, and nothing else; ValueError."""
    if not _SAFE.fullmatch(text) or set(text) & _NEVER:
        raise ValueError(f"{text!r} would mean something else to haproxy")
    return text
