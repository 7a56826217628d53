"""Who asks the box during the campaign, and whether everybody was answered."""

import os
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Self

from tests.e2e.clients import ASSET, PERSON, Answer, ask, fresh
from tests.patience import PATIENCE_S
from tests.simulator.office import Office
from tests.simulator.office.box import ADDRESS, HOST
from tests.simulator.office.websocket import Client

AGAIN_S = 0.25
HIT = "/css/base.css"
STORM = ("image",) * 3 + ("same",) * 2 + ("post",) * 3 + ("head", "page", "page", "websocket")
SAFE = ("image", "same", "head", "page", "hit")
"""What a browser asks for again by itself when its connection is cut: RFC 9110, 9.2.2."""


@dataclass(frozen=True, slots=True)
class Visit:
    """One request, with all that it took until it was answered."""

    kind: str
    waited_s: float
    asked: int
    """1, and once more for each connection that was cut; reloads of the waiting page not."""
    sent_again: bool
    """The connection was closed before any byte of an answer, so it was sent once more."""
    wrong: str
    """What came instead of an answer; empty: it was answered."""
    ids: tuple[str, ...]


@dataclass
class Visitors:
    """A cached file is asked for all the time; storms come when told.

    A safe request whose connection was closed without a byte of an answer is sent once more,
    as RFC 9112, 9.3.1 allows; what fails then is lost.
    `cut`: varnishd's child is killed in this cycle, so connections end. Then only safe requests
    are sent, and they are asked again until they are answered.
    """

    office: Office
    dice: random.Random
    cut: bool
    visits: list[Visit] = field(default_factory=list)
    _coming: list[Future[Visit]] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(max_workers=64)
        self._reader = self._pool.submit(self._read)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._pool.shutdown()
        self._reader.result()
        self.answered()

    def storm(self) -> None:
        """Let a dozen requests of every kind come, within half a second."""
        for kind in STORM:
            if kind in SAFE or not self.cut:
                later_s = self.dice.uniform(0, 0.5)
                size = self.dice.randrange(1, 200_000)
                self._coming.append(self._pool.submit(self._later, later_s, kind, size))

    def answered(self) -> None:
        """Wait until all that came are answered, or have lost patience."""
        self.visits += [each.result() for each in self._coming]
        self._coming.clear()

    def _later(self, wait_s: float, kind: str, size: int) -> Visit:
        time.sleep(wait_s)
        return self.visit(kind, size)

    def _read(self) -> None:
        while not self._stop.wait(0.05):
            self.visits.append(self.visit("hit"))

    def visit(self, kind: str, size: int = 0) -> Visit:
        """Ask until there is an answer, as such a client does."""
        call = self._call(kind, size)
        begun_s, asked, sent_again, ids = time.monotonic(), 1, False, []
        while True:
            answer = call()
            ids.append(answer.request_id)
            waited_s = time.monotonic() - begun_s
            wrong = _wrong(kind, answer)
            reload = answer.headers.get("x-naproxy") == "waiting_page" and kind == "page"
            cut = answer.status == 0 and self.cut and kind in SAFE
            once_more = answer.unanswered and not (self.cut or sent_again) and kind in SAFE
            if not wrong or waited_s > PATIENCE_S or not (reload or cut or once_more):
                return Visit(kind, waited_s, asked, sent_again, wrong, tuple(ids))
            asked += cut
            sent_again |= once_more
            if not once_more:
                time.sleep(AGAIN_S)

    def _call(self, kind: str, size: int) -> Callable[[], Answer]:
        get = partial(ask, self.office.client)
        calls: dict[str, Callable[[], Answer]] = {
            "hit": partial(get, HIT, headers=ASSET),
            "image": partial(get, fresh("/images/001.png"), headers=ASSET),
            "same": partial(get, "/app/reply?h.Cache-Control=max-age%3D1", headers=ASSET),
            "head": partial(get, fresh(HIT), method="HEAD"),
            "page": partial(get, fresh(), headers=PERSON),
            "post": partial(_post, self.office, size),
            "websocket": partial(_websocket, self.office),
        }
        return calls[kind]


def _wrong(kind: str, answer: Answer) -> str:
    if answer.status == (101 if kind == "websocket" else 200):
        return answer.error
    how = answer.headers.get("x-naproxy", "")
    return f"{answer.status} {how}: {answer.error}"


def _post(office: Office, size: int) -> Answer:
    body = os.urandom(size)
    answer = ask(office.client, "/app/echo", method="POST", body=body)
    same = answer.status != 200 or answer.body == body
    return answer if same else replace(answer, error="another body")


def _websocket(office: Office) -> Answer:
    message = os.urandom(2000)
    request_id = f"websocket-{message[:8].hex()}"
    begun_s, status, error = time.monotonic(), 0, ""
    try:
        with office.client.connect(ADDRESS, 80, timeout_s=40) as line:
            client = Client(line, HOST, "/app/ws", {"X-Request-Id": request_id})
            status = client.status
            if client.accepted and client.echo(message) != message:
                error = "another message"
            client.close()
    except (OSError, EOFError, IndexError) as cut:
        status, error = 0, repr(cut)
    return Answer(request_id, status, {}, b"", begun_s, time.monotonic(), error)
