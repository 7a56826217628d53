"""RAUC through its own command line: inspects a bundle and the slots, and writes one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from naproxy.core.processes import Printed, words
from naproxy.core.reason import WrongError
from naproxy.update.effects import Machine

_ASK_S: Final = 100.0
_SIGNER: Final = re.compile(rb"Verified (?:inline|detached) signature by '([^'\n]*)'")
_PERCENT: Final = re.compile(r" *(\d{1,3})% (.*)")
_LOG: Final = re.compile(r"\(rauc:\d+\): |^rauc-[A-Za-z]+: [\d:.]+: ")
_FAILURE: Final = "LastError: "

Why = Literal["signature", "format", "rauc"]
_SIGNATURE_WORDS: Final = ("signature", "certificate", "cms", "keyring")
_FORMAT_WORDS: Final = (
    "bundle format",
    "invalid bundle",
    "too small",
    "exceeds bundle size",
    "magic",
)


class RaucError(WrongError):
    """RAUC refused, or does not answer; `why` is the kind of fault."""

    def __init__(self, code: str, /, *, why: Why = "rauc", **params: Any) -> None:
        """Take what `Reason` takes; RAUC's own words are one line that is safe to show."""
        super().__init__(code, **params)
        self.why: Why = why


@dataclass(frozen=True, slots=True)
class Bundle:
    """The description in a verified bundle."""

    board: str
    """RAUC's `compatible`: for which machines it is."""
    version: str
    description: str
    build: str
    signed_by: str
    image_bytes: int


@dataclass(frozen=True, slots=True)
class Slot:
    """One of the two places for an image, each with its boot loader's name."""

    name: str
    booted: bool
    boots_next: bool
    good: bool
    """The boot loader may start it."""
    version: str
    """Empty: it was not written by RAUC."""
    installed: str
    """When, as RAUC says it (ISO 8601); empty as above."""


@dataclass(frozen=True, slots=True)
class Slots:
    """The machine."""

    board: str
    slots: tuple[Slot, ...]

    def booted(self) -> Slot | None:
        """Return the slot that runs, if RAUC knows it."""
        return next((slot for slot in self.slots if slot.booted), None)

    def other(self) -> Slot | None:
        """Return the one that does not."""
        return next((slot for slot in self.slots if not slot.booted), None)


class Rauc:
    """The program."""

    def __init__(self, conf: str, does: Machine) -> None:
        """`conf` is RAUC's configuration, with the keyring and the slots."""
        self._does = does
        self._rauc = ("rauc", f"--conf={conf}")

    async def info(self, bundle: Path) -> Bundle:
        """Verify a bundle's signature and return what it is; RaucError if it is not good."""
        done = await self._ask("info", "--output-format=json", str(bundle))
        said, signer = _json(done), _SIGNER.search(done.complaint)
        return Bundle(
            board=_text(said, "compatible"),
            version=_text(said, "version"),
            description=_text(said, "description"),
            build=_text(said, "build"),
            signed_by=words(signer[1]) if signer else "",
            image_bytes=sum(_sizes(said.get("images"))),
        )

    async def slots(self) -> Slots:
        """Return the slots; RaucError if RAUC's service does not answer."""
        said = _json(await self._ask("status", "--detailed", "--output-format=json"))
        primary = said.get("boot_primary")
        found = [
            (name, about)
            for each in said.get("slots", ())
            for name, about in each.items()
            # A slot with a parent belongs to one that can be booted.
            if about.get("bootname")
        ]
        slots = tuple(_slot(name, about, primary) for name, about in found)
        return Slots(_text(said, "compatible"), slots)

    async def install(self, bundle: Path, progress: Callable[[int, str], None]) -> None:
        """Write a bundle into the other slot, which boots next; RaucError if that failed."""
        failure, last = "", ""

        def line(said: str) -> None:
            nonlocal failure, last
            if found := _PERCENT.fullmatch(said):
                progress(min(100, int(found[1])), words(found[2].encode()))
            elif said.startswith(_FAILURE):
                failure = said.removeprefix(_FAILURE)
            elif said.strip():
                last = said

        try:
            code = await self._does.follow((*self._rauc, "install", str(bundle)), line)
        except OSError as error:
            raise _not_run(error) from None
        if code != 0:
            raise _judged(words((failure or last).encode()), code)

    async def activate(self, which: Literal["other", "booted"]) -> None:
        """Have a slot booted from now on."""
        await self._ask("status", "mark-active", which)

    async def mark_good(self) -> None:
        """Tell the boot loader that the slot that runs is in order."""
        await self._ask("status", "mark-good", "booted")

    async def _ask(self, *arguments: str) -> Printed:
        try:
            done = await self._does.run((*self._rauc, *arguments), _ASK_S)
        except OSError as error:
            raise _not_run(error) from None
        if done.code != 0:
            raise _refused(done)
        return done


def _refused(done: Printed) -> RaucError:
    if done.code is None:
        return RaucError("update.rauc_late")
    lines = [_LOG.sub("", line) for line in done.complaint.decode(errors="replace").splitlines()]
    told = [line for line in lines if line.strip() and not line.startswith(("Reading", "Using"))]
    return _judged(words((told[-1] if told else "").encode()), done.code)


def _judged(said: str, status: int) -> RaucError:
    if not said:
        return RaucError("update.rauc_status", status=status)
    lowered = said.lower()
    why: Why = "rauc"
    if any(word in lowered for word in _FORMAT_WORDS):
        why = "format"
    elif any(word in lowered for word in _SIGNATURE_WORDS):
        why = "signature"
    return RaucError("core.own_words", text=said, why=why)


def _not_run(error: OSError) -> RaucError:
    return RaucError("update.rauc_not_run", said=error.strerror or str(error))


def _json(done: Printed) -> Mapping[str, Any]:
    try:
        said = json.loads(done.output)
    except ValueError:
        raise RaucError("update.rauc_strange") from None
    if not isinstance(said, dict):
        raise RaucError("update.rauc_strange")
    return said


def _text(said: Mapping[str, Any], key: str) -> str:
    value = said.get(key)
    return words(value.encode()) if isinstance(value, str) else ""


def _sizes(images: object) -> Sequence[int]:
    if not isinstance(images, list):
        return []
    parts = [part for image in images if isinstance(image, dict) for part in image.values()]
    return [p["size"] for p in parts if isinstance(p, dict) and isinstance(p.get("size"), int)]


def _slot(name: str, about: Mapping[str, Any], primary: object) -> Slot:
    status = about.get("slot_status") or {}
    return Slot(
        name=_text(about, "bootname"),
        booted=about.get("state") == "booted",
        boots_next=name == primary,
        good=about.get("boot_status") == "good",
        version=_text(status.get("bundle") or {}, "version"),
        installed=_text(status.get("installed") or {}, "timestamp"),
    )
