"""nginx and PHP-FPM: what a program is told of a request, sessions, odd gzip."""

import gzip
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
    for kind in ("member", "zeros", "newline", "plain", "cut"):
        for encoding in ("gzip", "identity"):
            # A login: what is passed.
            headers = {"Authorization": "Basic eDp5", "Accept-Encoding": encoding}
            response, body = php.ask(f"/packed?kind={kind}", **headers)
            assert response.status == 200
            assert response.headers["Content-Encoding"] == "gzip"
            assert len(body) == int(response.headers.get("X-Length", "-1")), (kind, encoding)
            if kind == "member":
                assert gzip.decompress(body) == b"first second"
