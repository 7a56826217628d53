"""Who comes by HTTPS, as the program that ends TLS hands him to Varnish."""

import socket
import stat
from http.client import HTTPResponse

from tests.e2e.clients import fresh
from tests.simulator.office import Office
from tests.simulator.office.box import EDGE_GROUP, HOST
from tests.simulator.office.namespace import wait_for

VISITOR = "203.0.113.7"


def ask_by_https(office: Office, request_id: str) -> HTTPResponse:
    """Ask for a page that is not in the cache; return the answer, read to its end."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(30)
        sock.connect(str(office.box.edge_socket))
        head = f"GET {fresh()} HTTP/1.1\r\nHost: {HOST}\r\nX-Request-Id: {request_id}\r\n\r\n"
        sock.sendall(f"PROXY TCP4 {VISITOR} 192.0.2.1 1111 443\r\n{head}".encode())
        answer = HTTPResponse(sock)
        answer.begin()
        answer.read()
        return answer


def test_a_request_by_https_wakes_the_server_which_hears_who_asks(asleep: Office) -> None:
    answer = ask_by_https(asleep, "by-https")
    assert (answer.status, answer.headers["X-Naproxy"]) == (200, "held")
    assert asleep.server.board.state == "on"
    seen = wait_for(
        lambda: [r for r in asleep.server.requests() if r["id"] == "by-https"], "it in the log"
    )
    assert [each["forwarded"] for each in seen] == [VISITOR]


def test_only_its_group_gets_to_where_https_comes_from(office: Office) -> None:
    socket_, folder = office.box.edge_socket, office.box.edge_socket.parent
    assert (socket_.group(), folder.group()) == (EDGE_GROUP, EDGE_GROUP)
    assert stat.S_IMODE(socket_.stat().st_mode) == 0o660
    assert stat.S_IMODE(folder.stat().st_mode) == 0o750
