"""The proxies: all on the box's machine, in front of the suite's server."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from tests.bench.proxy import our_vcl, pagetool, varnish
from tests.cache_tests.suite import ORIGIN_PORT
from tests.patience import wait_for
from tests.simulator.office import Office
from tests.simulator.office.box import ADDRESS
from tests.simulator.office.server import ADDRESS as ORIGIN_ADDRESS

ORIGIN = f"{ORIGIN_ADDRESS}:{ORIGIN_PORT}"
PLAIN, OURS, NGINX, ATS = 8081, 8082, 8083, 8084
# As the suite's own set-up starts Varnish: nearly every case takes for granted that an answer
# that says nothing is not kept, and that nothing is served stale.
SETTINGS = ["-p", "default_ttl=0", "-p", "default_grace=0", "-p", "default_keep=3600"]
GRACE_S = 3600
# Also its own, with what nginx needs to run in a folder of ours.
NGINX_CONF = f"""\
worker_processes 1;
daemon off;
pid {{work}}/nginx.pid;
error_log {{work}}/nginx.err;
events {{{{ worker_connections 2048; }}}}
http {{{{
    access_log off;
    client_body_temp_path {{work}}/body;
    proxy_temp_path {{work}}/proxy;
    proxy_cache_path {{work}}/cache levels=1:2 keys_zone=c:8m max_size=1000m inactive=600m;
    server {{{{
        listen {NGINX};
        location / {{{{
            proxy_pass http://{ORIGIN};
            proxy_cache c;
            proxy_cache_revalidate on;
            proxy_http_version 1.1;
        }}}}
    }}}}
}}}}
"""

# Folders of ours in place of the system's. The suite has nothing else that is not the default.
ATS_FOLDERS = """\
prefix: {work}
exec_prefix: /usr
bindir: /usr/bin
sbindir: /usr/sbin
sysconfdir: {work}/etc
datadir: {work}/cache
includedir: /usr/include
libdir: /usr/lib/trafficserver
libexecdir: /usr/lib/trafficserver/modules
localstatedir: {work}
runtimedir: {work}/run
logdir: {work}/log
cachedir: {work}/cache
"""
ATS_CONF = {
    "records.config": f"""\
CONFIG proxy.config.http.server_ports STRING {ATS}
CONFIG proxy.config.admin.user_id STRING #-1
CONFIG proxy.config.url_remap.pristine_host_hdr INT 1
CONFIG proxy.config.log.logging_enabled INT 0
""",
    "remap.config": f"map / http://{ORIGIN}/\n",
    "storage.config": "{work}/cache 256M\n",
    "ip_allow.yaml": "ip_allow: [{{apply: in, ip_addrs: 0/0, action: allow, methods: ALL}}]\n",
}


def start(office: Office) -> dict[str, Callable[[], str]]:
    """Start all; returns for each what makes it ready and says its address."""
    work = office.directory / "cache-tests"
    run = work / "run"
    run.mkdir(parents=True)
    pagetool(run, "create")
    pagetool(run, "set", "web", f"address={ORIGIN}", "state=awake", f"grace_s={GRACE_S}")
    for file in run.iterdir():
        shutil.chown(file, group="varnish")
        file.chmod(0o660)
    varnish(office, work, OURS, ["-f", our_vcl(work), *SETTINGS])
    varnish(office, work, PLAIN, ["-b", ORIGIN, *SETTINGS])
    _nginx(office, work)
    _traffic_server(office, work / "ats")

    def ours(flags: str) -> str:
        pagetool(run, "set", "web", f"flags={flags}")
        return _address(OURS)

    return {
        "default": lambda: ours("default,waiting_page,defer"),
        "frozen": lambda: ours("default,waiting_page,defer,frozen"),
        "aggressive": lambda: ours("default,waiting_page,defer,frozen,aggressive"),
        "varnish": lambda: _address(PLAIN),
        "nginx": lambda: _address(NGINX),
        "ats": lambda: _address(ATS),
    }


def _nginx(office: Office, work: Path) -> None:
    conf = work / "nginx.conf"
    conf.write_text(NGINX_CONF.format(work=work))
    office.box.popen(["nginx", "-c", conf], log="cache-tests-nginx")
    wait_for(lambda: office.box.listens(NGINX), "nginx")


def _traffic_server(office: Office, work: Path) -> None:
    for folder in ("etc", "cache", "run", "log"):
        (work / folder).mkdir(parents=True)
    folders = work / "runroot.yaml"
    folders.write_text(ATS_FOLDERS.format(work=work))
    for name, text in ATS_CONF.items():
        (work / "etc" / name).write_text(text.format(work=work))
    office.box.popen(["traffic_server", f"--run-root={folders}"], log="cache-tests-ats")
    wait_for(lambda: office.box.listens(ATS), "traffic_server")


def _address(port: int) -> str:
    return f"http://{ADDRESS}:{port}"
