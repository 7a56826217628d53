"""Two sites over HTTPS: visitors over HTTP/1.1 and HTTP/2, asleep and awake."""

import dataclasses
import hashlib
import os
import ssl
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.e2e import streams
from tests.e2e.clients import PERSON, Curled, ask, curl, fresh, half_closed
from tests.e2e.conftest import settle_asleep, settle_awake
from tests.patience import wait_for
from tests.simulator.office import Office, pki
from tests.simulator.office.app import BLOCK
from tests.simulator.office.box import ADDRESS, ADDRESS_V6, HOST
from tests.simulator.office.websocket import Client

SHOP = "shop.office.example"
CONFIG = {
    "server": {
        "hosts": [HOST, SHOP],
        "https": {"mode": "box", "redirect": True, "hsts_s": 3600},
        "wake": [{"spacing_s": 0.2}],
    }
}
LARGE = int(os.environ.get("LARGE_MB", "64")) << 20
"""Of a body; `make test-large` takes 2 GB."""
VISITOR = "198.18.3.4"


@dataclasses.dataclass(frozen=True)
class Sites:
    """The box's certificates, and the authority that signed them."""

    root: Path
    context: ssl.SSLContext
    www: str
    www_rsa: str
    shop: str


@pytest.fixture(scope="module")
def sites(shared: Office) -> Sites:
    authority = shared.authority
    www, www_rsa, shop = (
        pki.issue(authority, HOST),
        pki.issue(authority, HOST, kind="rsa"),
        pki.issue(authority, SHOP, kind="rsa"),
    )
    shared.box.give(main=www, old=www_rsa, shop=shop)
    return Sites(
        authority.root.file,
        pki.context(authority),
        *(pki.fingerprint(each) for each in (www, www_rsa, shop)),
    )


@dataclasses.dataclass(frozen=True)
class Woken:
    """A request that woke the server: its response, and its traces in logs and ledger."""

    http: str
    host: str
    answer: Curled
    logged: dict[str, str]
    wake: dict[str, str]


def held(office: Office) -> int:
    return int(office.box.page().server[0].held_now)


def logged(office: Office, target: str) -> dict[str, str]:
    """Return what the server wrote down of a request that it was asked once."""

    def found() -> list[dict[str, str]]:
        return [each for each in office.server.requests() if each["target"] == target]

    (one,) = wait_for(found, f"{target} in the server's log")
    return one


def test_each_site_is_shown_its_certificate(office: Office, sites: Sites) -> None:
    def shown(name: str, ciphers: str = "") -> str:
        return pki.shown(office.client, ADDRESS, name, ciphers)

    assert shown(HOST) == sites.www
    assert shown(HOST, "aRSA") == sites.www_rsa
    assert shown(SHOP) == sites.shop
    assert shown("other.example") not in (sites.www, sites.www_rsa, sites.shop)


@pytest.fixture(scope="module", params=[("1.1", HOST), ("2", SHOP)], ids=["http-1.1", "http-2"])
def woken(request: pytest.FixtureRequest, shared: Office, sites: Sites) -> Woken:
    """Somebody asks for a page that is not in the cache, while the server sleeps."""
    http, host = request.param
    path = fresh()
    settle_asleep(shared)
    more = ("--interface", VISITOR)
    (answer,) = curl(shared.client, sites.root, path, http=http, host=host, more=more)
    return Woken(http, host, answer, logged(shared, path), shared.box.wakes()[0])


def test_a_request_wakes_the_server_and_is_answered(woken: Woken) -> None:
    answer = woken.answer
    assert (answer.status, answer.version, answer.error) == (200, woken.http, "")
    assert answer.headers["x-naproxy"] == "held"


def test_the_server_gets_the_site_the_scheme_and_the_visitors_address(woken: Woken) -> None:
    told = [woken.logged[name] for name in ("host", "proto", "forwarded")]
    assert told == [woken.host, "https", VISITOR]


def test_the_ledger_has_who_woke_it(woken: Woken) -> None:
    assert woken.wake["who"] == VISITOR


@pytest.mark.parametrize("http", ["1.1", "2"])
def test_ipv6_is_served(http: str, office: Office, sites: Sites) -> None:
    path = fresh()
    (answer,) = curl(office.client, sites.root, path, http=http, address=ADDRESS_V6)
    assert (answer.status, answer.error) == (200, "")
    assert logged(office, path)["forwarded"] == "2001:db8:2::10"


def test_a_request_over_http_is_redirected_to_https_and_wakes_no_server(
    asleep: Office, sites: Sites
) -> None:
    answer = ask(asleep.client, "/pages/001.html?a=b", method="POST", body=b"x")
    assert (answer.status, answer.headers["location"]) == (
        308,
        f"https://{HOST}/pages/001.html?a=b",
    )
    assert "strict-transport-security" not in answer.headers
    assert asleep.server.board.state == "off"


def test_responses_over_https_have_hsts(office: Office, sites: Sites) -> None:
    answer = ask(office.client, fresh(), https=sites.context)
    assert answer.headers["strict-transport-security"] == "max-age=3600"


def test_a_person_sees_the_waiting_page_and_then_the_page(asleep: Office, sites: Sites) -> None:
    path = fresh("/pages/002.html")
    more = [word for header in PERSON.items() for word in ("-H", ": ".join(header))]
    (waiting,) = curl(asleep.client, sites.root, path, more=more)
    assert (waiting.status, waiting.headers["x-naproxy"]) == (503, "waiting_page")
    asleep.box.await_state("awake")
    (page,) = curl(asleep.client, sites.root, path, more=more)
    assert page.status == 200


def test_a_hundred_streams_of_a_connection_are_held_and_answered(
    asleep: Office, sites: Sites
) -> None:
    asleep.server.board.configure(never_wake=True)
    paths = [fresh(f"/images/{n:03}.png") for n in range(100)]
    wakes = len(asleep.box.wakes())
    with ThreadPoolExecutor() as pool:
        asking = pool.submit(curl, asleep.client, sites.root, *paths)
        wait_for(lambda: held(asleep) == 100, "a hundred requests to be held")
        asleep.server.board.configure(never_wake=False)
    answers = asking.result()
    assert {(each.status, each.version, each.error) for each in answers} == {(200, "2", "")}
    assert sum(each.connections for each in answers) == 1
    assert len(asleep.box.wakes()) == wakes + 1


def test_a_client_that_sends_no_more_is_answered_after_the_wake(
    asleep: Office, sites: Sites
) -> None:
    assert half_closed(asleep.client, fresh(), sites.context).startswith(b"HTTP/1.1 200")


def test_a_websocket_is_opened_across_a_wake(asleep: Office, sites: Sites) -> None:
    line = asleep.client.connect(ADDRESS, 443, timeout_s=60)
    with sites.context.wrap_socket(line, server_hostname=HOST) as secure:
        client = Client(secure, HOST, "/app/ws", {})
        assert client.accepted
        assert client.echo(bytes(50_000)) == bytes(50_000)
        client.close()


@pytest.fixture(scope="module", params=["http", "https"], ids=["to-server-http", "to-server-https"])
def to_server(request: pytest.FixtureRequest, shared: Office, sites: Sites) -> str:
    """How the box asks the server."""
    how: str = request.param
    if how == "https":
        settle_awake(shared)
        shared.server.serve(shared.authority.issue(HOST, by=shared.authority.root))
        trusted = shared.box.directory / "authority.pem"
        trusted.write_bytes(sites.root.read_bytes())
        settings = {"": "https", "_ca_file": str(trusted), "_name": HOST}
        changes = [
            {"op": "set", "where": f"server.web.https.to_server{key}", "value": value}
            for key, value in settings.items()
        ]
        version = shared.box.api("GET", "/v1/config")["version"]
        shared.box.api("PATCH", "/v1/config", {"version": version, "changes": changes})

        def heard() -> bool:
            path = fresh()
            (answer,) = curl(shared.client, sites.root, path)
            return answer.status == 200 and logged(shared, path)["scheme"] == "https"

        wait_for(heard, "the box to ask by HTTPS", 60)
    return how


def test_a_websocket_on_a_stream_of_http_2_is_opened_across_a_wake(
    to_server: str, asleep: Office, sites: Sites
) -> None:
    line = asleep.client.connect(ADDRESS, 443, timeout_s=60)
    with streams.connect(line, HOST, str(sites.root)) as secure:
        client = streams.WebSocket(secure, HOST, "/app/ws")
        assert client.offered
        assert client.accepted()
        assert client.echo(bytes(5_000)) == bytes(5_000)


def digest(parts: Iterable[bytes]) -> str:
    made = hashlib.sha256()
    for part in parts:
        made.update(part)
    return made.hexdigest()


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that takes hardly any space, and of which no MiB is like another."""
    file = tmp_path_factory.mktemp("large") / "file"
    with file.open("wb") as made:
        for at in range(0, LARGE, 1 << 20):
            made.seek(at)
            made.write(at.to_bytes(8))
        made.truncate(LARGE)
    return file


@dataclasses.dataclass
class Burden:
    """The bytes that the proxies have written to disks, and their peak memory."""

    office: Office
    written: int = 0
    memory: int = 0

    def grown(self) -> tuple[int, int]:
        """Return by how many bytes both have grown since the last time."""
        written, memory = self.written, self.memory
        self.written = self.memory = 0
        for pid in (self.office.box.child(), *self.office.box.edge_workers()):
            self.written += figure(pid, "io", "write_bytes")
            self.memory += figure(pid, "status", "VmHWM") << 10
        return self.written - written, self.memory - memory


def figure(pid: int, file: str, name: str) -> int:
    lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(f"{name}:")))


def curl_whole(office: Office, sites: Sites, http: str, more: str) -> str:
    """Run curl for a body of any size, and return what it, or a program behind it, prints."""
    base = f"curl -sSf --http{http} --cacert '{sites.root}' --resolve {HOST}:443:{ADDRESS}"
    return office.client.run(["sh", "-ec", f"{base} {more}"], timeout_s=600).stdout.split()[0]


def test_a_large_upload_across_a_wake_arrives_whole(
    to_server: str, asleep: Office, sites: Sites, large: Path
) -> None:
    http = {"http": "1.1", "https": "2"}[to_server]
    burden = Burden(asleep)
    burden.grown()
    url = f"https://{HOST}/app/flow"
    with large.open("rb") as file:
        wanted = digest(iter(lambda: file.read(1 << 20), b""))
    assert curl_whole(asleep, sites, http, f"-T '{large}' {url}") == wanted
    assert max(burden.grown()) < LARGE / 2


def test_a_large_download_across_a_wake_arrives_whole(
    to_server: str, asleep: Office, sites: Sites
) -> None:
    http = {"http": "2", "https": "1.1"}[to_server]
    burden = Burden(asleep)
    burden.grown()
    url = f"https://{HOST}/app/flow?size={LARGE}"
    wanted = digest(BLOCK for _ in range(LARGE // len(BLOCK)))
    assert curl_whole(asleep, sites, http, f"{url} | sha256sum") == wanted
    # Varnish keeps in memory what a client has not taken yet: varnishd.args.
    assert burden.grown()[0] < LARGE / 2
