"""Cycles of sleep and wake under what an office's people and programs do at all hours."""

import dataclasses
import os
import random
import subprocess
import tarfile
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from tests.e2e.clients import Answer, visitor
from tests.patience import wait_for
from tests.recipes import clients, nightly
from tests.recipes.place import Place
from tests.simulator.office.box import RefusedError

KB = 1 << 10
NIGHT_EVERY = 8
"""One cycle of so many is a night, with its backup."""
RATE = "60mbit"
"""What the client can send at most."""
MOST_FILES = 12
"""So many lie at home and in the share; then the oldest is replaced."""


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """What one cycle showed; times in seconds."""

    number: int
    kind: str
    sleeps: int
    """How often the server fell asleep, by its mainboard."""
    orders: int
    webhooks: int
    syncs: int
    copies: int
    backups: int
    refused: list[str]
    """Codes of what the box gave as reason not to let it sleep yet."""
    reasons: list[str]
    """Codes of the reasons of each falling asleep and each wake, oldest first."""
    longest_wait_s: float
    took_s: float
    wrong: list[str]
    """What was lost, doubled, broken, missed or without a reason."""


class Campaign:
    """Cycles in one office."""

    def __init__(self, place: Place, seed: int):
        """The server is awake, and no backup is due for the next minutes."""
        self.place = place
        self.seed = seed
        self.sent: dict[str, list[str]] = {"order": [], "stripe": [], "github": []}
        self.copied: dict[str, bytes] = {}
        # Else a copy is over before the box has asked.
        shape = ("tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", RATE)
        place.office.client.run([*shape, "burst", "64k", "latency", "50ms"])

    def cycle(self, number: int) -> Row:
        """Run one cycle; whatever goes wrong is in the row."""
        return _Cycle(self, number).run()


class _Cycle:
    def __init__(self, campaign: Campaign, number: int):
        self.campaign, self.number = campaign, number
        self.place, self.office = campaign.place, campaign.place.office
        self.dice = random.Random(f"{campaign.seed} {number}")
        self.kind = "night" if number % NIGHT_EVERY == NIGHT_EVERY - 1 else "day"
        self.wrong: list[str] = []
        self.refused: set[str] = set()
        self.counts = dict.fromkeys(("orders", "webhooks", "syncs", "copies", "backups"), 0)
        self.longest_s = 0.0
        self.answers: list[tuple[str, str, Future[Answer]]] = []

    def run(self) -> Row:
        begun_s = time.monotonic()
        board = self.office.server.board
        slept, told = _sleeps(board.report()), self._journal()[0]["id"]
        with ThreadPoolExecutor(max_workers=16) as pool:
            try:
                self._turn(pool)
            except Exception as error:
                self.wrong.append(f"{type(error).__name__}: {error}")
        new = [each for each in self._journal() if each["id"] > told]
        sleeps = _sleeps(board.report()) - slept
        self._check_reasons(new, sleeps)
        codes = [f"{each['to']}: {(each['reason'] or {}).get('code')}" for each in reversed(new)]
        return Row(
            number=self.number,
            kind=self.kind,
            sleeps=sleeps,
            **self.counts,
            refused=sorted(self.refused),
            reasons=codes,
            longest_wait_s=round(self.longest_s, 2),
            took_s=round(time.monotonic() - begun_s, 2),
            wrong=self.wrong,
        )

    def _turn(self, pool: ThreadPoolExecutor) -> None:
        # What is under way when the box gives its order, and what comes while it is carried out.
        copy = self._start_copy() if self.dice.random() < 0.5 else None
        sync = self._start_sync() if self.dice.random() < 0.3 else None
        if self.dice.random() < 0.3:
            self._ask(pool, later_s=self.dice.uniform(0, 1.5))
        self._sleep()
        if copy:
            self._end_copy(*copy)
        if self.kind == "night":
            self._night()
        for _ in range(self.dice.randint(1, 4)):
            self._ask(pool, later_s=self.dice.uniform(0, 0.3))
        if sync:
            self._end_sync(sync)
        self._end_sync(self._start_sync())
        for kind, name, future in self.answers:
            answer = future.result()
            self.longest_s = max(self.longest_s, answer.took_s)
            if answer.status not in (200, 201):
                self.wrong.append(f"{kind} {name}: {answer.status} {answer.error}")
        self.office.box.wake(60)
        self._check()

    def _ask(self, pool: ThreadPoolExecutor, later_s: float) -> None:
        kind = self.dice.choice(("order", "order", "stripe", "github"))
        name = f"{kind}-{self.number}-{len(self.answers)}"
        source = visitor(self.dice.randrange(10_000))

        def send() -> Answer:
            time.sleep(later_s)
            if kind == "order":
                return clients.order(self.office, name, source)
            return (clients.stripe if kind == "stripe" else clients.github)(self.office, name)

        self.campaign.sent[kind].append(name)
        self.counts["orders" if kind == "order" else "webhooks"] += 1
        self.answers.append((kind, name, pool.submit(send)))

    def _sleep(self) -> None:
        """Want it asleep until it is, as the box does; what keeps it awake is kept.

        It counts as done too if somebody has woken it already.
        """
        box, board = self.office.box, self.office.server.board
        before = _sleeps(board.report())

        def slept() -> bool:
            status = box.status()
            if status["state"] == "awake" and _sleeps(board.report()) == before:
                try:
                    box.api("POST", "/v1/servers/web/sleep", {})
                except RefusedError as error:
                    self.refused.add(str(error.answer.get("code")))
            self.refused |= {_inner(each) for each in status["inhibitors"]}
            time.sleep(0.1)
            return _sleeps(board.report()) > before

        wait_for(slept, "the server to sleep", 90)
        wait_for(lambda: box.status()["state"] in ("asleep", "waking", "awake"), "its state")

    def _start_copy(self) -> tuple[subprocess.Popen[str], str, bytes]:
        name = f"copy-{self.number % MOST_FILES}"
        whole = self.dice.randbytes(self.dice.randrange(1000 * KB, 12_000 * KB))
        here = self.office.directory / name
        here.write_bytes(whole)
        self.counts["copies"] += 1
        return self.place.samba.start(f"put {here} {name}"), name, whole

    def _end_copy(self, copy: subprocess.Popen[str], name: str, whole: bytes) -> None:
        """A copy that began as the server fell asleep goes on when it is awake again."""
        if copy.poll() is None:
            self.office.box.wake(60)
        if status := copy.wait(timeout=60):
            self.wrong.append(f"{name}: smbclient ended with {status}")
        self.campaign.copied[name] = whole
        if self.office.server.board.state != "off":
            self._sleep()

    def _start_sync(self) -> subprocess.Popen[str]:
        cloud = self.place.cloud
        for folder, whose in ((cloud.here, "mine"), (cloud.files, "theirs")):
            for part in range(self.dice.randint(1, 2)):
                file = folder / f"{whose}-{self.number % MOST_FILES}-{part}"
                file.write_bytes(os.urandom(self.dice.randrange(1, 400 * KB)))
        self.counts["syncs"] += 1
        return cloud.start_sync()

    def _end_sync(self, sync: subprocess.Popen[str]) -> None:
        if status := sync.wait(timeout=120):
            self.wrong.append(f"nextcloudcmd ended with {status}")

    def _night(self) -> None:
        """The time of the backup comes in the sleep: the box wakes it, and the backup is made."""
        place, box = self.place, self.office.box
        if self.office.server.board.state != "off":
            self._sleep()
        box.await_state("asleep", 60)
        night = nightly.night_of(place.now_s) + 1
        place.step(nightly.due_s(night) - 30 - place.now_s)
        box.await_state("awake", 60)
        if _inner(box.wakes()[0]["reason"]) != "sleep.appointment":
            self.wrong.append(f"woken for {box.wakes()[0]['reason']}")
        place.step(nightly.due_s(night) + 1 - place.now_s)
        try:
            box.api("POST", "/v1/servers/web/sleep", {})
        except RefusedError as error:
            self.refused.add(str(error.answer.get("code")))
        made = place.backups / f"night-{night}"
        wait_for((made / "files.tar").exists, f"the backup of night {night}", 60)
        self.counts["backups"] += 1
        with tarfile.open(made / "files.tar") as tar:
            kept = {each.name.removeprefix("./"): each for each in tar if each.isfile()}
            for name, whole in self.campaign.copied.items():
                file = tar.extractfile(kept[name]) if name in kept else None
                if not file or file.read() != whole:
                    self.wrong.append(f"night {night}: {name} is not in the backup")
        self.refused |= {_inner(each) for each in box.status()["inhibitors"]}
        place.step(700)
        place.forget_appointments()
        self._sleep()

    def _check(self) -> None:
        for kind, sent in self.campaign.sent.items():
            got = self.place.shop.received(kind)
            self.wrong += [f"{kind} {name}: lost" for name in set(sent) - set(got)]
            self.wrong += [
                f"{name}: {got.count(name)} times" for name in set(got) if got.count(name) > 1
            ]
            # What was found wrong is said once.
            self.campaign.sent[kind] = list(got)
        for name, whole in self.campaign.copied.items():
            if (self.place.samba.share / name).read_bytes() != whole:
                self.wrong.append(f"{name}: another in the share")
        here, there = (
            {path.name: path.read_bytes() for path in folder.iterdir() if path.name[0] != "."}
            for folder in (self.place.cloud.here, self.place.cloud.files)
        )
        if here != there:
            differ = sorted(n for n in here.keys() | there.keys() if here.get(n) != there.get(n))
            self.wrong.append(f"not the same at home and in the cloud: {differ}")

    def _journal(self) -> list[dict[str, Any]]:
        """Return its last rows, newest first."""
        path = "/v1/transitions?server=web&limit=200"
        rows: list[dict[str, Any]] = self.office.box.api("GET", path)["transitions"]
        return rows

    def _check_reasons(self, new: list[dict[str, Any]], sleeps: int) -> None:
        """Each sleep stands in the journal with its reason, also one that ended at once."""
        told = [each for each in new if each["to"] == "falling_asleep"]
        if len(told) < sleeps:
            self.wrong.append(f"{sleeps} sleeps, {len(told)} in the journal")
        if any(not (each["reason"] or {}).get("code") for each in new):
            self.wrong.append("a change without a reason")


def _sleeps(report: dict[str, Any]) -> int:
    return sum(each["state"] == "off" for each in report["transitions"])


def _inner(reason: dict[str, Any]) -> str:
    """Return the code of what a reason ends with: the server's own words, for a refusal."""
    for value in (reason.get("params") or {}).values():
        if isinstance(value, dict) and "code" in value and value["code"] != "sleep.the_server":
            return _inner(value)
    return str(reason.get("code"))
