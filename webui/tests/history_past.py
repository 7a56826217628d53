"""A past for the tests of the history, written by the controller's own code."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from flask import Flask
from history_box import Box, event, second
from naproxy.api.shapes import check
from naproxy.core.reading import PowerSample
from naproxy.core.reason import Reason
from naproxy.core.request import WakeRequest
from naproxy.core.state import State
from naproxy_webui.office.equipment import Equipment, Meter, Server
from naproxy_webui.options import Settings

ON_MW, OFF_MW = 40_000, 2_000
IDLE = Reason("policy.idle", idle_s=63)
ASKED = WakeRequest("192.0.2.77", "miss", "GET", "api", path="/feed.xml").why


class Past(Box):
    """A history that began some days ago; time passes as its methods are called."""

    def __init__(self, settings: Settings, days: int = 20) -> None:
        settings.data_dir.mkdir()
        super().__init__(settings.data_dir)
        self.stop()
        (settings.data_dir / "history.db").unlink()
        self.begun_s = int(time.time() - days * 86400) // 3600 * 3600
        self.wall_s = float(self.begun_s)
        self.monotonic_s = 1000.0
        self.start()

    def second(self, mean_mw: int) -> PowerSample:
        return second(int(self.house_s), mean_mw)

    def change(self, before: State, state: State, reason: Reason, after_s: float) -> None:
        self.journal.transition("web", before, state, reason)
        self.pass_s(after_s)

    def wake(
        self, *, waited_s: float | None = 5.0, server: str = "web", **wake_request: Any
    ) -> None:
        values = {
            "who": "192.0.2.77",
            "reason": "miss",
            "method": "GET",
            "klass": "api",
            "agent": "Feedly/1.0",
            "host": "www.example.org",
            "path": "/feed.xml",
        }
        row = self.journal.wake_opened(server, WakeRequest(**{**values, **wake_request}))
        assert row is not None
        if waited_s is not None:
            self.journal.wake_closed(row, "up", waited_s, 1)

    def cycle(self, *, asleep_s: float = 600, awake_s: float = 300, **wake_request: Any) -> None:
        """Asleep, woken by somebody in 5 s, awake."""
        self.change(State.FALLING_ASLEEP, State.ASLEEP, IDLE, asleep_s)
        self.wake(**wake_request)
        self.change(State.ASLEEP, State.WAKING, ASKED, 5)
        self.change(State.WAKING, State.AWAKE, Reason("server.up_after", took_s=5.0), awake_s)

    def measured_cycle(self, **wake_request: Any) -> None:
        """20 minutes asleep, then woken, 10 awake, all of it measured."""
        self.change(State.FALLING_ASLEEP, State.ASLEEP, IDLE, 0)
        self.meter(1200, OFF_MW)
        self.wake(**wake_request)
        self.change(State.ASLEEP, State.WAKING, ASKED, 0)
        self.change(State.WAKING, State.AWAKE, Reason("server.up_after", took_s=0.1), 0)
        self.meter(600, ON_MW)

    def all_of_it(self) -> None:
        """Something in every table."""
        self.measured_cycle()
        self.history.request("web", event(self))
        self.journal.decision(
            "web", self.house_s, False, Reason("policy.idle_of", idle_s=5, least_s=60)
        )
        self.pass_s(120)
        self.history.flush()


SERVER = Server(
    id="web",
    wake_classes=("person", "api"),
    defer_crawlers=True,
    on_w=43.3,
    off_w=1.6,
    worth_s=4.1,
)


def known(
    app: Flask,
    *,
    server: Server = SERVER,
    tariff: Sequence[dict[str, Any]] = (),
    **office: Any,
) -> None:
    """Say what the controller would: for ever, instead of for some seconds."""
    app.extensions["naproxy_equipment"] = {
        "until_s": float("inf"),
        "equipment": Equipment(
            answered=True,
            version="1",
            servers=(server,),
            meters=(Meter("web", "web"), Meter("plug", "box")),
        ),
    }
    values = {"time_zone": "Europe/Zurich", "price_per_kwh": 0.5, "currency": "CHF"} | office
    app.extensions["naproxy_office"] = {
        "until_s": float("inf"),
        "configuration": {"office": values, "tariff": list(tariff)},
    }


def as_declared(app: Flask, path: str, answer: Any) -> Any:
    """Return an answer that is as its route declares it; ShapeError."""
    views = app.view_functions.values()
    routes = [view.naproxy_route for view in views if hasattr(view, "naproxy_route")]
    [declared] = [each for each in routes if each.path == path and each.method == "GET"]
    check(answer, declared.answer)
    return answer
