"""One access log in the formats of many servers and of what collects logs.

As a script it writes a real log in all of them: `python log_formats.py LOG FOLDER`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from naproxy.lab.estimate.accesslog import Entry, Log

Write = Callable[[Entry], str]


def when(entry: Entry, form: str) -> str:
    return datetime.fromtimestamp(entry.t_s, UTC).strftime(form)


def clf(entry: Entry) -> str:
    return when(entry, "%d/%b/%Y:%H:%M:%S +0000")


def iso(entry: Entry) -> str:
    return when(entry, "%Y-%m-%dT%H:%M:%SZ")


def request(entry: Entry) -> str:
    return f"{entry.method} {entry.path} HTTP/1.1"


def common(entry: Entry, host: str = "") -> str:
    begin = f"{host or entry.host} - - [{clf(entry)}]"
    return f'{begin} "{request(entry)}" {entry.status} {entry.size}'


def combined(entry: Entry, host: str = "") -> str:
    return f'{common(entry, host)} "{entry.referer or "-"}" "{entry.agent or "-"}"'


def caddy(entry: Entry) -> str:
    asked = {
        "remote_ip": entry.host,
        "remote_port": "41342",
        "client_ip": entry.host,
        "proto": "HTTP/2.0",
        "method": entry.method,
        "host": "www.example.org",
        "uri": entry.path,
        "headers": {"Accept": ["*/*"], "User-Agent": [entry.agent], "Referer": [entry.referer]},
    }
    said = {
        "level": "info",
        "ts": entry.t_s + 0.25,
        "logger": "http.log.access.log0",
        "msg": "handled request",
        "request": asked,
        "bytes_read": 0,
        "duration": 0.0009,
        "size": entry.size,
        "status": entry.status,
        "resp_headers": {"Server": ["Caddy"], "Content-Type": ["text/html"]},
    }
    return json.dumps(said)


def traefik(entry: Entry) -> str:
    said = {
        "ClientAddr": f"{entry.host}:4711",
        "ClientHost": entry.host,
        "DownstreamContentSize": entry.size,
        "DownstreamStatus": entry.status,
        "Duration": 123456,
        "OriginContentSize": 17,
        "OriginStatus": 200,
        "RequestContentSize": 0,
        "RequestHost": "www.example.org",
        "RequestMethod": entry.method,
        "RequestPath": entry.path,
        "ServiceAddr": "172.18.0.3:80",
        "ServiceURL": "http://172.18.0.3:80",
        "StartLocal": when(entry, "%Y-%m-%dT%H:%M:%S.7+00:00"),
        "StartUTC": when(entry, "%Y-%m-%dT%H:%M:%S.123456789Z"),
        "level": "info",
        "msg": "",
        "request_User-Agent": entry.agent,
        "request_Referer": entry.referer,
        "time": iso(entry._replace(t_s=entry.t_s + 1)),
    }
    return json.dumps(said)


def nginx_json(entry: Entry) -> str:
    said = {
        "time_local": clf(entry),
        "remote_addr": entry.host,
        "remote_user": "",
        "request": request(entry),
        "status": str(entry.status),
        "body_bytes_sent": str(entry.size),
        "request_time": "0.003",
        "http_referer": entry.referer,
        "http_user_agent": entry.agent,
        "upstream_addr": "10.0.0.7:8080",
    }
    return json.dumps(said)


def proxy_manager(entry: Entry) -> str:
    return (
        f"[{clf(entry)}] - 200 {entry.status} - {entry.method} https www.example.org"
        f' "{entry.path}" [Client {entry.host}] [Length {entry.size}] [Gzip -]'
        f' [Sent-to 10.0.0.7] "{entry.agent or "-"}" "{entry.referer or "-"}"'
    )


def haproxy(entry: Entry) -> str:
    return (
        f"{when(entry, '%b %e %H:%M:%S')} lb haproxy[14389]: {entry.host}:{33000 + entry.t_s % 99}"
        f" [{when(entry, '%d/%b/%Y:%H:%M:%S.655')}] http-in static/srv1 10/0/30/69/109"
        f" {entry.status} {entry.size} - - ---- 1/1/1/1/0 0/0"
    )


def load_balancer(entry: Entry) -> str:
    target = f"{entry.method} https://www.example.org:443{entry.path} HTTP/1.1"
    return (
        f"https {when(entry, '%Y-%m-%dT%H:%M:%S.186641Z')} app/web/50dc6c495c0c9188"
        f" {entry.host}:{33000 + entry.t_s % 99} 10.0.0.1:80 0.000 0.001 0.000 {entry.status}"
        f' {entry.status} 34 {entry.size} "{target}" "{entry.agent or "-"}" ECDHE-RSA-AES128'
        f' TLSv1.2 arn:aws:elasticloadbalancing:eu-central-1:1:targetgroup/t/73 "Root=1-5833-22"'
        f' "www.example.org" "arn:aws:acm:x" 0 {iso(entry)} "forward" "-" "-" "10.0.0.1:80"'
        f' "{entry.status}" "-" "-"'
    )


def iis(entry: Entry) -> str:
    stem, _, query = entry.path.partition("?")
    agent = entry.agent.replace(" ", "+") or "-"
    return (
        f"{when(entry, '%Y-%m-%d %H:%M:%S')} 192.168.1.5 {entry.method} {stem} {query or '-'} 443 -"
        f" {entry.host} {agent} {entry.referer or '-'} {entry.status} 0 0 15"
    )


def cloudfront(entry: Entry) -> str:
    stem, _, query = entry.path.partition("?")
    fields = (
        *(when(entry, "%Y-%m-%d"), when(entry, "%H:%M:%S"), "FRA2-C1", str(entry.size)),
        *(entry.host, entry.method, "d1.cloudfront.net", stem, str(entry.status)),
        *(entry.referer or "-", entry.agent.replace(" ", "%20") or "-", query or "-"),
    )
    return "\t".join((*fields, "-", "Hit", "abc==", "www.example.org", "https", "23"))


def tabbed(entry: Entry) -> str:
    fields = iso(entry), entry.host, request(entry), str(entry.status), str(entry.size)
    return "\t".join((*fields, "0.003", entry.referer or "-", entry.agent or "-"))


def pairs(entry: Entry) -> str:
    return (
        f'time="{iso(entry)}" level=info method={entry.method} path="{entry.path}"'
        f" status={entry.status} bytes={entry.size} remote_ip={entry.host} duration=3ms"
        f' user_agent="{entry.agent}"'
    )


class Written(NamedTuple):
    """A format: how a line is written, what is before the first, what the reader calls it."""

    line: Write
    name: str
    header: str = ""


_IIS: Final = """#Software: Microsoft Internet Information Services 10.0
#Version: 1.0
#Date: 2024-01-01 00:00:00
#Fields: date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent) \
cs(Referer) sc-status sc-substatus sc-win32-status time-taken
"""
_CLOUDFRONT: Final = """#Version: 1.0
#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status \
cs(Referer) cs(User-Agent) cs-uri-query cs(Cookie) x-edge-result-type x-edge-request-id \
x-host-header cs-protocol cs-bytes
"""

FORMATS: Final[Mapping[str, Written]] = {
    "combined": Written(combined, "combined; client in field 1"),
    "vhost": Written(
        lambda e: f"www.example.org:443 {combined(e)}",
        "combined with virtual host; client in field 2",
    ),
    "times-at-end": Written(
        lambda e: f'{combined(e)} 0.003 "10.0.0.7:8080" 0.002 .', "combined; client in field 1"
    ),
    "time-before-request": Written(
        lambda e: combined(e).replace('] "', '] 0.003 "', 1), "client in field 1"
    ),
    "host-before-referer": Written(
        lambda e: f'{common(e)} "www.example.org" "{e.referer or "-"}" "{e.agent or "-"}"',
        "client in field 1",
    ),
    "port": Written(lambda e: combined(e, f"{e.host}:{33000 + e.t_s % 99}"), "client in field 1"),
    "forwarded-at-end": Written(
        lambda e: f'{combined(e, "172.18.0.1")} "{e.host}"', "client in field 10"
    ),
    "forwarded-list": Written(
        lambda e: f'{combined(e, "10.0.0.1")} "{e.host}, 172.68.1.2" rt=0.002 ua="10.0.0.9:80"',
        "client in field 10",
    ),
    "behind-many-proxies": Written(
        lambda e: f'{combined(e, f"172.68.{e.t_s % 9}.{e.t_s % 50}")} "{e.host}"',
        "client in field 10",
    ),
    "proxy-first": Written(lambda e: f"10.0.0.1 {combined(e)}", "client in field 2"),
    "syslog": Written(
        lambda e: f"<190>{when(e, '%b %e %H:%M:%S')} web nginx: {combined(e)}",
        "combined after the prefix of syslog; client in field 1",
    ),
    "syslog-rfc5424": Written(
        lambda e: f"<190>1 {iso(e)} web nginx 77 - - {combined(e)}",
        "combined after the prefix of syslog; client in field 1",
    ),
    "journalctl-short-iso": Written(
        lambda e: f"{when(e, '%Y-%m-%dT%H:%M:%S+0000')} web nginx[77]: {combined(e)}",
        "combined after the prefix of syslog; client in field 1",
    ),
    "journalctl-json": Written(
        lambda e: json.dumps({"MESSAGE": combined(e), "_PID": "77", "_HOSTNAME": "web"}),
        "combined after the prefix of journald; client in field 1",
    ),
    "docker-json": Written(
        lambda e: json.dumps({"log": f"{combined(e)}\n", "stream": "stdout", "time": iso(e)}),
        "combined after the prefix of Docker; client in field 1",
    ),
    "docker-compose": Written(
        lambda e: f"web-1  | {combined(e)}",
        "combined after the prefix of docker compose; client in field 1",
    ),
    "docker-compose-times": Written(
        lambda e: f"web-1  | {when(e, '%Y-%m-%dT%H:%M:%S.123456789Z')} {combined(e)}",
        "client in field 2",
    ),
    "kubernetes": Written(
        lambda e: f"{when(e, '%Y-%m-%dT%H:%M:%S.123456789Z')} stdout F {combined(e)}",
        "combined after the prefix of Kubernetes; client in field 1",
    ),
    "caddy": Written(caddy, "Caddy (JSON); client in request.remote_ip"),
    "traefik": Written(traefik, "Traefik (JSON); client in ClientHost"),
    "traefik-common": Written(
        lambda e: f'{combined(e)} 42 "web@docker" "http://172.18.0.3:80" 3ms',
        "combined; client in field 1",
    ),
    "nginx-json": Written(nginx_json, "JSON; client in remote_addr"),
    "nginx-json-syslog": Written(
        lambda e: f"{when(e, '%b %e %H:%M:%S')} web nginx: {nginx_json(e)}",
        "JSON after the prefix of syslog; client in remote_addr",
    ),
    "nginx-proxy-manager": Written(proxy_manager, "Nginx Proxy Manager; client in field 10"),
    "haproxy": Written(
        lambda e: f'{haproxy(e)} {{{e.agent}|{e.referer}}} {{}} "{request(e)}"',
        "HAProxy after the prefix of syslog; client in field 1",
    ),
    "aws-alb": Written(load_balancer, "AWS ALB; client in field 4"),
    "iis": Written(iis, "IIS (W3C); client in c-ip", _IIS),
    "cloudfront": Written(cloudfront, "CloudFront; client in c-ip", _CLOUDFRONT),
    "tabs": Written(tabbed, "client in field 2"),
    "logfmt": Written(pairs, "logfmt; client in remote_ip"),
}

WITHOUT_AGENT: Final[Mapping[str, Write]] = {
    "common": common,
    "haproxy": lambda e: f'{haproxy(e)} "{request(e)}"',
    "traefik": lambda e: json.dumps(
        {name: said for name, said in json.loads(traefik(e)).items() if name[:8] != "request_"}
    ),
}
"""As these servers write when nobody told them to log the User-Agent header."""


def write(folder: Path, entries: Iterable[Entry], names: Iterable[str] = FORMATS) -> list[Path]:
    """Write the entries in these formats, a file each."""
    folder.mkdir(exist_ok=True)
    paths = [folder / f"{name}.log" for name in names]
    with ExitStack() as stack:
        files = [stack.enter_context(path.open("w", encoding="latin-1")) for path in paths]
        made = [FORMATS[path.stem] for path in paths]
        for file, written in zip(files, made, strict=True):
            file.write(written.header)
        for entry in entries:
            for file, written in zip(files, made, strict=True):
                file.write(f"{written.line(entry)}\n")
    return paths


if __name__ == "__main__":
    write(Path(sys.argv[2]), Log([sys.argv[1]]))
