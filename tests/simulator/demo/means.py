"""Real programs among the visitors, by HTTP/2: curl and Chromium."""

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import replace

from naproxy.lab.estimate.accesslog import Entry
from naproxy.lab.replay.replay_visit import LOST, TIMEOUT_S, Returned, Visit, became

from tests.e2e.browser import Browser
from tests.simulator.office import Office, pki
from tests.simulator.office.box import ADDRESS, HOST
from tests.simulator.office.namespace import OfficeError

_HTTP_2 = ("2", "h2")
_WORDS = 100


class Curl:
    """A program; runs where the calling thread is, which is the visitors' machine."""

    def __init__(self, office: Office) -> None:
        self._root = office.authority.root.file

    async def __call__(self, number: int, entry: Entry, shown: Callable[[Visit], None]) -> Visit:
        """Send one request, with a form if it is a POST."""
        begin_s = time.monotonic()
        more = ("--data", f"number={number}") if entry.method == "POST" else ()
        curl = await asyncio.create_subprocess_exec(
            *("curl", "-sS", "--http2", "--cacert", self._root, "--interface", entry.host),
            *("--resolve", f"{HOST}:443:{ADDRESS}", "--max-time", str(TIMEOUT_S)),
            *("-A", entry.agent, "-H", f"X-Request-Id: demo-{number}", *more),
            *("-o", "/dev/null", "-w", "%{json}\n%{header_json}"),
            f"https://{HOST}{entry.path}",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        said, _ = await curl.communicate()
        delay_s = time.monotonic() - begin_s
        told, headers = (json.loads(each) for each in said.decode().split("\n", 1))
        wrong = told["errormsg"] or _not_http_2(told["http_version"])
        if wrong:
            return _lost(number, entry, delay_s, wrong)
        outcome = became({name: values[0] for name, values in headers.items()})
        return Visit(number, entry, outcome, told["http_code"], int(told["size_download"]), delay_s)


class Chromium:
    """A person with a browser, new each time, who stays until the page is there."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._trusted = pki.spki(office.authority.below)

    async def __call__(self, number: int, entry: Entry, shown: Callable[[Visit], None]) -> Visit:
        """Open a page, and wait on the waiting page if that comes."""
        return await asyncio.to_thread(self._open, number, entry, shown)

    def _open(self, number: int, entry: Entry, shown: Callable[[Visit], None]) -> Visit:
        begin_s = time.monotonic()
        try:
            with Browser(
                self._office.client,
                {HOST: ADDRESS},
                trusted=self._trusted,
                directory=self._office.directory,
            ) as tab:
                begin_s = time.monotonic()
                tab.open(f"https://{HOST}{entry.path}")
                first = tab.wait_for_document(None)
                visit = _visit(number, entry, first, time.monotonic() - begin_s)
                if visit.outcome != "waiting_page":
                    return visit
                shown(visit)
                page = tab.wait_for_document(200, TIMEOUT_S)
                after_s = time.monotonic() - begin_s
                back = _visit(number, entry, page, after_s)
                returned = Returned(back.outcome, back.status, after_s, reloads=1)
                return replace(visit, returned=returned, why_lost=back.why_lost)
        except (OfficeError, OSError) as error:
            return _lost(number, entry, time.monotonic() - begin_s, str(error))


def _visit(number: int, entry: Entry, response: dict[str, object], delay_s: float) -> Visit:
    if wrong := _not_http_2(str(response["protocol"])):
        return _lost(number, entry, delay_s, wrong)
    headers = response["headers"]
    assert isinstance(headers, dict)
    outcome = became({name.lower(): value for name, value in headers.items()})
    status, size = int(str(response["status"])), int(float(str(response["encodedDataLength"])))
    return Visit(number, entry, outcome, status, size, delay_s)


def _not_http_2(version: str) -> str:
    return "" if version in _HTTP_2 else f"answered by HTTP {version}"


def _lost(number: int, entry: Entry, delay_s: float, why: str) -> Visit:
    return Visit(number, entry, LOST, None, 0, delay_s, why_lost=why[:_WORDS])
