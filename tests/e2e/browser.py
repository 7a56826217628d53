"""Chromium on the client's machine, driven over its DevTools pipe."""

import contextlib
import functools
import itertools
import json
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from tests.simulator.office import Namespace
from tests.simulator.office.namespace import OfficeError, kill

AGENT = (
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) "
    "Chrome/130.0.0.0 Safari/537.36"
)
"""As a person's: HeadlessChrome is a crawler's name."""

_FLAGS = (
    f"--user-agent={AGENT}",
    *("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
    *("--no-first-run", "--disable-extensions", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--remote-debugging-pipe"),
)


def _session(leader: int) -> list[int]:
    """Return the processes of a session."""
    found = subprocess.run(
        ["pgrep", "-s", str(leader)], stdout=subprocess.PIPE, text=True, check=False
    )
    return [int(pid) for pid in found.stdout.split()]


class Browser:
    """One browser with one tab. `hosts` maps host names to addresses.

    It trusts certificates of an authority whose `pki.spki` it is given; its profile is in
    `directory` while it runs.
    """

    def __init__(
        self,
        namespace: Namespace,
        hosts: dict[str, str],
        *,
        trusted: str = "",
        directory: Path | None = None,
    ):
        self.events: list[dict[str, Any]] = []
        self._stack = contextlib.ExitStack()
        self._numbers = itertools.count(1)
        self._answers: dict[int, dict[str, Any]] = {}
        self._rest = b""
        self._session = ""
        self._namespace = namespace
        self._hosts = hosts
        self._trusted = trusted
        self._directory = directory

    def __enter__(self) -> Self:
        with self._stack:
            self._start()
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def __call__(self, method: str, timeout_s: float = 20.0, **params: Any) -> dict[str, Any]:
        """Give a command of the DevTools protocol and return its result."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        self._read_until(lambda: number in self._answers, method, timeout_s)
        answer = self._answers.pop(number)
        if "error" in answer:
            raise OfficeError(f"{method}: {answer['error']['message']}")
        result: dict[str, Any] = answer["result"]
        return result

    def open(self, url: str) -> None:
        """Navigate; returns when the answer has begun to arrive."""
        self("Page.navigate", url=url)

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression in the tab."""
        return self("Runtime.evaluate", expression=expression)["result"].get("value")

    def wait_for_document(self, status: int | None, timeout_s: float = 20.0) -> dict[str, Any]:
        """Wait until the tab was answered with this status, or any; returns the response."""

        def find() -> dict[str, Any] | None:
            for event in self.events:
                params = event["params"]
                if (
                    event["method"] == "Network.responseReceived"
                    and params["type"] == "Document"
                    and status in (None, params["response"]["status"])
                ):
                    response: dict[str, Any] = params["response"]
                    return response
            return None

        self._read_until(lambda: find() is not None, f"a document with {status}", timeout_s)
        found = find()
        assert found
        return found

    def _start(self) -> None:
        profile = self._stack.enter_context(
            tempfile.TemporaryDirectory(prefix="office-chromium-", dir=self._directory)
        )
        their_in, self._to = os.pipe()
        self._from, their_out = os.pipe()
        self._stack.callback(os.close, self._to)
        self._stack.callback(os.close, self._from)
        rules = ",".join(f"MAP {host} {address}" for host, address in self._hosts.items())
        # Chromium reads commands from descriptor 3 and answers on 4.
        pipes = f'exec "$@" 3<&{their_in} 4>&{their_out}'
        chromium = self._namespace.popen(
            [
                *("bash", "-c", pipes, "bash", "chromium-headless-shell", *_FLAGS),
                *(f"--user-data-dir={profile}", f"--host-resolver-rules={rules}"),
                *(f"--ignore-certificate-errors-spki-list={self._trusted}", "about:blank"),
            ],
            log="chromium",
            env={"HOME": profile, "TMPDIR": profile},
            pass_fds=(their_in, their_out),
        )
        os.close(their_in)
        os.close(their_out)
        self._stack.callback(chromium.wait, 10)
        # All of them: one that lives on writes into the profile while it is removed.
        self._stack.callback(kill, functools.partial(_session, chromium.pid))
        targets = self("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        attached = self("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session = attached["sessionId"]
        self("Page.enable")
        self("Network.enable")

    def _read_until(self, done: Callable[[], bool], what: str, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not done():
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not select.select([self._from], [], [], left_s)[0]:
                raise OfficeError(f"waited {timeout_s:g} s in vain for {what} in the browser")
            data = os.read(self._from, 65536)
            if not data:
                raise OfficeError(f"the browser ended while it was asked for {what}")
            *messages, self._rest = (self._rest + data).split(b"\0")
            for raw in messages:
                message = json.loads(raw)
                if "id" in message:
                    self._answers[message["id"]] = message
                else:
                    self.events.append(message)
