"""nginx and PHP-FPM: what a program is told of a request, sessions, odd gzip."""

import base64
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S, wait_for
from tests.traffic.conftest import PROGRAMS, Behind
from tests.traffic.test_express import CLAIMS

FPM = """
[global]
error_log = {tmp}/fpm.log
daemonize = no
[site]
user = root
listen = {tmp}/php.sock
pm = static
pm.max_children = 2
php_admin_value[session.save_path] = {tmp}
"""

NGINX = """
daemon off;
user root;
pid {tmp}/pid;
error_log stderr;
events {{ }}
http {{
    access_log off;
    client_body_temp_path {tmp}/body;
    proxy_temp_path {tmp}/proxy;
    fastcgi_temp_path {tmp}/fastcgi;
    uwsgi_temp_path {tmp}/uwsgi;
    scgi_temp_path {tmp}/scgi;
    underscores_in_headers on;
    server {{
        listen 127.0.0.1:{{port}};
        location / {{
            include /etc/nginx/fastcgi_params;
            fastcgi_param SCRIPT_FILENAME {program};
            fastcgi_pass unix:{tmp}/php.sock;
        }}
    }}
}}
"""


@pytest.fixture(scope="module")
def php(serve: Callable[..., Behind], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Behind]:
    tmp = tmp_path_factory.mktemp("php")
    values = {"tmp": tmp, "program": PROGRAMS / "first.php"}
    (tmp / "fpm.conf").write_text(FPM.format(**values))
    (tmp / "nginx.conf").write_text(NGINX.format(**values))
    [program] = Path("/usr/sbin").glob("php-fpm[0-9]*")
    fpm = subprocess.Popen([program, "--allow-to-run-as-root", "--fpm-config", tmp / "fpm.conf"])
    wait_for((tmp / "php.sock").exists, "PHP")
    # nginx has no variable for a port on its command line.
    start = f"sed -i s/{{port}}/$0/ {tmp}/nginx.conf; exec nginx -e stderr -c {tmp}/nginx.conf"
    yield serve("sh", "-c", start.replace("s/{port}", "s/[{]port}"), "{port}")
    fpm.terminate()
    fpm.wait(PATIENCE_S)


def test_php_is_told_nothing_that_a_visitor_made_up(php: Behind) -> None:
    for number, (name, value) in enumerate(CLAIMS.items()):
        for said in (name, name.replace("-", "_")):
            page = php.ask(f"/server?{number}{said}", **{said: value})[1]
            assert b"HTTP_HOST=127.0.0.1" in page
            assert b"evil" not in page, said


def test_a_page_with_pragma_of_php_s_sessions_is_not_kept(php: Behind) -> None:
    assert php.ask("/session")[1] != php.ask("/session")[1]


def test_packed_bytes_that_are_passed_arrive_as_they_were_sent(php: Behind) -> None:
    """Those who ask are logged in, or not, and it is private or has a cookie."""
    requests: list[tuple[str, str, dict[str, str]]] = [
        ("GET", "cache=private", {}),
        ("GET", "cache=no-store", {}),
        ("GET", "", {"Cookie": "session=ada"}),
        ("GET", "", {"Authorization": "Basic eDp5"}),
        ("GET", "", {"Range": "bytes=2-", "X-API-Key": "k"}),
        ("GET", "cache=private", {"Range": "bytes=0-"}),
        ("POST", "", {"Content-Length": "0"}),
        ("HEAD", "cache=private", {}),
        ("HEAD", "", {"Authorization": "Basic eDp5"}),
    ]
    accepted = ("gzip", "br, gzip", "identity", "gzip;q=0", "br", "*;q=0, identity", None)
    for number, (method, query, headers) in enumerate(requests):
        for kind in ("member", "zeros", "newline", "plain", "cut"):
            for encoding in accepted:
                said = headers if encoding is None else {**headers, "Accept-Encoding": encoding}
                for protocol in ("HTTP/1.1", "HTTP/1.0"):
                    case = (method, query, headers, kind, encoding, protocol)
                    path = f"/packed?kind={kind}&{query}&{number}"
                    response, body = php.ask(path, method, protocol, **said)
                    assert response.headers["Content-Encoding"] == "gzip", case
                    sent = base64.b64decode(response.headers["X-Sent"])
                    if response.status == 206:
                        # PHP sends all; Varnish takes the range where it has all by then.
                        sent = sent[int(headers["Range"][6:-1]) :]
                    else:
                        assert response.status == 200, case
                    assert body == (b"" if method == "HEAD" else sent), case


def test_packed_bytes_that_are_kept_arrive_as_they_were_sent(php: Behind) -> None:
    """Or unpacked, where they are gzip and nothing else."""
    for kind in ("member", "zeros", "newline", "plain", "cut", "whole"):
        for time, encoding in enumerate(("identity", "gzip", "identity", None)):
            for first in ("gzip", "identity"):
                path = f"/packed?kind={kind}&cache=max-age=60&{first}"
                if time == 0:
                    php.ask(path, Accept_Encoding=first)
                said = {} if encoding is None else {"Accept-Encoding": encoding}
                response, body = php.ask(path, **said)
                if kind == "whole" and encoding != "gzip":
                    assert (body, response.headers["Content-Encoding"]) == (b"first ", None)
                else:
                    assert response.headers["Content-Encoding"] == "gzip"
                    assert body == base64.b64decode(response.headers["X-Sent"]), kind
