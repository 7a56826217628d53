"""The table of the control API's routes, and who answers them."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from box import ONE_SERVER
from naproxy.api.calls import ApiError, Call, answer, joined
from naproxy.api.table import ROUTES
from naproxy.config import document as config
from naproxy.config.installation import Installation
from naproxy.config.worked import Chosen
from naproxy.core.reason import Reason
from naproxy.daemon.main import Controller


def test_each_route_has_exactly_one_handler(tmp_path: Path) -> None:
    async def handlers() -> Any:
        here = Installation(
            run_dir=str(tmp_path), data_dir=str(tmp_path), group="", control_group=""
        )
        return Controller(
            tmp_path / "naproxy.toml", Chosen(config.look(ONE_SERVER), ONE_SERVER.encode()), here
        ).handlers()

    found = asyncio.run(handlers())
    assert found.keys() == ROUTES.keys()
    with pytest.raises(ValueError, match="update"):
        joined({name: each for name, each in found.items() if name != "update"})
    with pytest.raises(ValueError, match="not one handler for each"):
        joined(found, {"update": found["update"]})


def test_no_two_routes_have_the_same_address() -> None:
    addresses = [(each.method, re.sub("<.*?>", "<>", each.path)) for each in ROUTES.values()]
    assert len(set(addresses)) == len(addresses)


def test_the_table_is_read_without_the_controller() -> None:
    code = "import sys, naproxy.api.table; print([m for m in sys.modules if 'controller' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout == "[]\n"


def test_a_target_has_its_variables_in_the_path_and_the_rest_in_the_query() -> None:
    assert ROUTES["server.wake"].target(server="a/b ü") == "/v1/servers/a%2Fb%20%C3%BC/wake"
    asked = ROUTES["wakes"].target(server="web", since_s=None, limit=5)
    assert asked == "/v1/wakes?server=web&limit=5"
    removed = ROUTES["certificate.remove"].target(certificate="main", force=True)
    assert removed == "/v1/certificates/main?force=true"


def ask(method: str, path: str, query: Any = None, body: bytes = b"") -> Any:
    def said(**asked: Any) -> dict[str, Any]:
        return asked

    handlers = dict.fromkeys(ROUTES, said)
    call = Call(method, tuple(path.removeprefix("/").split("/")), query or {}, body)
    return asyncio.run(answer(handlers, call))


def test_a_handler_gets_what_path_query_and_body_say() -> None:
    assert ask("GET", "/v1/wakes", {"limit": ["5"]}) == (200, {"limit": 5})
    assert ask("POST", "/v1/servers/web/wake") == (202, {"server": "web"})
    said = ask("POST", "/v1/servers/web/mode", body=b'{"mode": "awake"}')
    assert said == (200, {"server": "web", "mode": "awake"})
    assert ask("PUT", "/v1/config", body=b"[box]") == (200, {"body": b"[box]"})


def test_an_undeclared_argument_is_rejected_with_a_reason(
    subtests: pytest.Subtests,
) -> None:
    for asked, status, reason, where in (
        (("GET", "/v1/nothing"), 404, Reason("api.nothing_here"), None),
        (("GET", "/v1/servers/web/wake"), 405, Reason("api.not_used", method="GET"), None),
        (("GET", "/v1/status", {"x": ["1"]}), 400, Reason("config.unknown"), "x"),
        (("GET", "/v1/wakes", {"limit": ["1", "2"]}), 400, Reason("config.there_twice"), "limit"),
        (("PUT", "/v1/box/restore/part"), 400, Reason("config.empty"), "offset"),
        (("GET", "/v1/status", {}, b'{"a": 1}'), 400, Reason("config.unknown"), "a"),
        (("POST", "/v1/scan", {}, b"{"), 400, Reason("api.not_json"), None),
        (("POST", "/v1/scan", {}, b"[]"), 400, Reason("config.object"), None),
    ):
        with subtests.test(asked=asked), pytest.raises(ApiError) as refused:
            ask(*asked)
        assert (refused.value.status, refused.value.reason) == (status, reason), asked
        assert refused.value.body["where"] == where, asked
