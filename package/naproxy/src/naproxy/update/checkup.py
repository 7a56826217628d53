"""The image's check after each start: its readings, and its effects on the box.

Run as `python3 -m naproxy.update.checkup`, once, by the image's supervisor (docs/update.md).
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import logging
import os
import re
import sqlite3
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Final

from naproxy.api.client import DEFAULT_SOCKET, NoAnswerError, ask
from naproxy.core import log
from naproxy.core.reason import Reason, stored_reason
from naproxy.history.read.queries import open_history
from naproxy.update.effects import Machine
from naproxy.update.health import Check, Seen, UnhealthyError, watch
from naproxy.update.rauc import Rauc, RaucError
from naproxy.update.updates import confirmed_last

_LOG: Final = logging.getLogger(__name__)
_ANSWER_S: Final = 5.0
_REBOOT_S: Final = 90.0
"""Longer than a restart in order takes; this program ends with it."""
_IN_MEMORY: Final = ("tmpfs", "ramfs", "rootfs", "overlay", "squashfs")


@dataclass(frozen=True, slots=True)
class Places:
    """Where things are on the box."""

    data_dir: Path
    data: str = "/data"
    mounts: Path = Path("/proc/mounts")
    command_line: Path = Path("/proc/cmdline")
    socket: str = DEFAULT_SOCKET
    web_port: int = 80
    ui_port: int = 8443
    rauc_conf: str = "/etc/rauc/system.conf"


# ------------------------------------------------------------------- what is looked at


def data_is_kept(places: Places) -> None:
    """Is /data a disk, and can it be written?"""
    kinds = [
        words[2:4]
        for line in places.mounts.read_text().splitlines()
        if (words := line.split())[1:2] == [places.data]
    ]
    if not kinds or kinds[-1][0] in _IN_MEMORY:
        raise UnhealthyError("update.not_on_disk", name=places.data)
    if "rw" not in kinds[-1][1].split(","):
        raise UnhealthyError("update.read_only", name=places.data)
    probe = places.data_dir / ".checkup"
    try:
        with probe.open("wb") as file:
            file.write(b"?")
            os.fsync(file.fileno())
        probe.unlink()
    except OSError as error:
        said = str(error.strerror)
        name = str(places.data_dir)
        raise UnhealthyError("update.not_written_to", name=name, said=said) from None


def controller_beats(places: Places) -> None:
    """Does the controller's loop turn?"""
    try:
        answer = ask(places.socket, "GET", "/v1/health", timeout_s=_ANSWER_S)
    except NoAnswerError as error:
        raise UnhealthyError("core.own_words", text=error.reason) from None
    if not answer.good:
        said = str(answer.body.get("error", answer.status))
        raise UnhealthyError("update.controller_ill", said=said)


def varnish_serves(places: Places) -> None:
    """Does Varnish answer, with our VCL? A box that is not set up says so, which is in order."""
    connection = http.client.HTTPConnection("127.0.0.1", places.web_port, timeout=_ANSWER_S)
    response = _get(connection, "/.naproxy/status", Reason("update.varnish"))
    if response.headers.get("X-Naproxy") is None:
        raise UnhealthyError("update.other_on_port", port=places.web_port)


def interface_answers(places: Places) -> None:
    """Does the web interface answer, through lighttpd and TLS?"""
    # Its certificate is the box's own; the question is only whether it works.
    anyone = ssl._create_unverified_context()  # noqa: S323 - see above
    connection = http.client.HTTPSConnection(
        "127.0.0.1", places.ui_port, timeout=_ANSWER_S, context=anyone
    )
    status = _get(connection, "/login", Reason("update.interface")).status
    # Below: it may not know this name, or lead elsewhere. From lighttpd: nobody is behind it.
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise UnhealthyError("update.interface_ill", status=status)


def _get(
    connection: http.client.HTTPConnection, path: str, who: Reason
) -> http.client.HTTPResponse:
    with closing(connection):
        try:
            connection.request("GET", path, headers={"User-Agent": "naproxy-checkup"})
            response = connection.getresponse()
            response.read(1 << 20)
        except (OSError, http.client.HTTPException) as error:
            raise UnhealthyError("update.silent", who=who, said=str(error)) from None
        return response


class HistoryOpens:
    """Does the database open, and is it whole? Looked at until it once was."""

    def __init__(self, places: Places) -> None:
        """Nothing is opened yet."""
        self._places = places
        self._was_whole = False

    def __call__(self) -> None:
        """UnhealthyError with SQLite's own words."""
        if self._was_whole:
            return
        try:
            with closing(open_history(self._places.data_dir)) as db:
                said = db.execute("PRAGMA quick_check(1)").fetchone()[0]
        except sqlite3.Error as error:
            raise UnhealthyError("update.history_closed", said=str(error)) from None
        if said != "ok":
            raise UnhealthyError("update.history_damaged", said=str(said))
        self._was_whole = True


def checks(places: Places) -> list[Check]:
    """Return all of them, each with a place to look at."""
    simple = (data_is_kept, controller_beats, varnish_serves, interface_answers)
    return [*(partial(check, places) for check in simple), HistoryOpens(places)]


def https_missing(places: Places) -> Reason | None:
    """Return the reason why wanted HTTPS is not served.

    A note only: it may have failed on the other system too, and over HTTP the box does its work.
    """
    try:
        answer = ask(places.socket, "GET", "/v1/edge", timeout_s=_ANSWER_S)
    except NoAnswerError as error:
        return Reason("core.own_words", text=error.reason)
    problem = answer.body.get("problem") if answer.good else None
    return stored_reason(problem) if problem else None


# --------------------------------------------------------------------- what is done


class Box:
    """Effects on the box; tests replace them."""

    def __init__(
        self,
        places: Places,
        run: Callable[[list[str]], object],
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`run` runs a program and waits for it."""
        self._places = places
        self._run = run
        self._sleep = sleep

    def now_s(self) -> float:
        """Return a time that never steps."""
        return time.monotonic()

    def sleep(self, time_s: float) -> None:
        """Let time pass."""
        self._sleep(time_s)

    def seen(self) -> Seen:
        """Return what is known of the two systems."""
        found = re.search(r"\brauc\.slot=(\S+)", self._places.command_line.read_text())
        try:
            slots = asyncio.run(Rauc(self._places.rauc_conf, Machine()).slots())
        except RaucError:
            slots = None
        confirmed = confirmed_last(self._places.data_dir / "update")
        return Seen(found[1] if found else "", slots, confirmed)

    def confirm(self) -> None:
        """Have this system stay; UnhealthyError if that could not be done."""
        try:
            answer = ask(self._places.socket, "POST", "/v1/update/confirm", {}, timeout_s=120)
        except NoAnswerError as error:
            raise UnhealthyError("core.own_words", text=error.reason) from None
        if not answer.good:
            raise UnhealthyError("update.not_confirmed", said=str(answer.body["error"]))

    def give_way(self) -> None:
        """Tell the boot loader that this system is bad, and restart the box.

        Where RAUC cannot tell it, the boot loader's count of tries does.
        """
        self._run(["rauc", f"--conf={self._places.rauc_conf}", "status", "mark-bad", "booted"])
        self._run(["reboot"])
        self.sleep(_REBOOT_S)
        self._run(["reboot", "-f"])


def _run(argv: list[str]) -> None:
    try:
        subprocess.run(argv, check=False, timeout=60, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError) as error:
        _LOG.error("%s: %s", argv[0], error)


def main(arguments: list[str]) -> int:
    """Look until it is decided; exit status 0 when it is."""
    log.to_standard_error()
    parser = argparse.ArgumentParser(prog="naproxy-health", description=__doc__)
    parser.add_argument("--data-dir", type=Path, default=Path("/data/naproxy"))
    places = Places(parser.parse_args(arguments).data_dir)
    if watch(checks(places), Box(places, _run)) and (missing := https_missing(places)):
        _LOG.warning("HTTPS is not served, and this system stays all the same: %s", missing)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
