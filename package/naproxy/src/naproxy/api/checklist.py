"""What is still to do until the box is set up, as a list that ends: pure, but for `Checklist`.

Each line has one reason, which says how it is. It is made into words where somebody reads it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, Final

from naproxy.api import https
from naproxy.api.calls import ApiError, Handlers
from naproxy.config.document import Config, Server
from naproxy.core.names import shortly
from naproxy.core.reason import Reason
from naproxy.history.write.journal import Journal

LINES: Final = ("proof", "visitors", "https", "price", "meter", "backup", "notify")
VISITORS_DAYS: Final = 7
OLD_S: Final = 90 * 86400.0
"""A backup that was downloaded so long ago lacks what changed since: a new one is asked for."""
BACKUP: Final = "backup"
"""Where it is kept when a backup was fetched last."""
_DISMISSED: Final = "checklist"
_BY_BOX: Final = ("box", "through")
_PEOPLE: Final = ("person", "api")


@dataclass(frozen=True, slots=True)
class Line:
    """One thing to do, or done; `server` is the first that it is to do for."""

    name: str
    done: bool
    how: Reason
    server: str | None = None
    dismissed: bool = False

    def plain(self) -> dict[str, Any]:
        """Return it as JSON types."""
        return {
            "name": self.name,
            "done": self.done,
            "how": self.how.plain(),
            "server": self.server,
            "dismissed": self.dismissed,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the list is made of."""

    config: Config
    servers: Sequence[Mapping[str, Any]]
    """The status of each."""
    edge: Mapping[str, Any]
    """The status of the box's HTTPS."""
    people: Mapping[str, int]
    """Requests of people and programs to each server in the last `VISITORS_DAYS`."""
    backup_s: float | None
    """When a backup was fetched last."""
    backup_complete: bool = True
    """Whether that one has passwords and keys: without them it restores no box."""
    now_s: float = 0.0
    dismissed: frozenset[str] = frozenset()


def checklist(facts: Facts) -> list[Line]:
    """Return a line for each of `LINES`; none of a box without a server, whose guide leads on."""
    if not facts.config.server:
        return []
    made = (_proof, _visitors, _https, _price, _meter, _backup, _notify)
    found = [line(facts) for line in made]
    return [replace(line, dismissed=line.name in facts.dismissed) for line in found]


def _proof(facts: Facts) -> Line:
    """A server that waits for visitors only has been tested: `_visitors` leads on."""
    lacking = [each["id"] for each in facts.servers if not (each["armed"] or _waits(each))]
    if lacking:
        return _to_do("proof", Reason("overview.no_proof", servers=shortly(lacking)), lacking[0])
    return Line("proof", True, Reason("overview.proof"))


def _waits(status: Mapping[str, Any]) -> bool:
    return status["not_armed"] is not None and status["not_armed"] == status["live"]["waits"]


def _visitors(facts: Facts) -> Line:
    """A request of the last days has come, or one since the controller started.

    Whoever looks at the box by its address alone is no visitor.
    """
    counts = {each["id"]: _people_of(each, facts) for each in facts.servers}
    lacking = [server for server, number in counts.items() if not number]
    if lacking:
        said = Reason("overview.no_visitors", servers=shortly(lacking), days=VISITORS_DAYS)
        return _to_do("visitors", said, lacking[0])
    number = sum(counts.values())
    said = Reason("overview.visitors", number=number, days=VISITORS_DAYS)
    return Line("visitors", True, said)


def _people_of(status: Mapping[str, Any], facts: Facts) -> int:
    if status["live"]["last_s"] is None:
        return 0
    counted = status["counters"]["requests"]
    now = sum(sum(counted.get(klass, {}).values()) for klass in _PEOPLE)
    return max(facts.people.get(status["id"], 0), now)


def _https(facts: Facts) -> Line:
    status = {each["id"]: each for each in facts.servers}
    lacking = [
        server.id
        for server in facts.config.server
        if not _by_https(server, status.get(server.id, {}), facts.edge)
    ]
    if lacking:
        return _to_do("https", Reason("overview.no_https", servers=shortly(lacking)), lacking[0])
    return Line("https", True, Reason("overview.https"))


def _by_https(server: Server, status: Mapping[str, Any], edge: Mapping[str, Any]) -> bool:
    if server.https.mode == "unused":
        return True
    seen = https.seen(server.https.mode, server.hosts, status, edge)
    return server.https.mode in _BY_BOX and seen.kind in ("good", "info")


def _price(facts: Facts) -> Line:
    if facts.config.office.price_per_kwh or facts.config.tariff:
        return Line("price", True, Reason("overview.price"))
    return _to_do("price", Reason("overview.no_price"))


def _meter(facts: Facts) -> Line:
    of = {meter.of for meter in facts.config.meter}
    lacking = [each.id for each in facts.config.server if each.id not in of]
    if lacking:
        return _to_do("meter", Reason("overview.no_meter", servers=shortly(lacking)), lacking[0])
    return Line("meter", True, Reason("overview.meter"))


def _backup(facts: Facts) -> Line:
    if facts.backup_s is None:
        return _to_do("backup", Reason("overview.no_backup"))
    if not facts.backup_complete:
        return _to_do("backup", Reason("overview.backup_without_keys"))
    if facts.now_s - facts.backup_s > OLD_S:
        return _to_do("backup", Reason("overview.backup_old", fetched_at_s=facts.backup_s))
    return Line("backup", True, Reason("overview.backup", fetched_at_s=facts.backup_s))


def _notify(facts: Facts) -> Line:
    if facts.config.notify.channels:
        return Line("notify", True, Reason("overview.notify"))
    return _to_do("notify", Reason("overview.no_notify"))


def _to_do(name: str, how: Reason, server: str | None = None) -> Line:
    return Line(name, False, how, server)


class Checklist:
    """Answers for the list. `look` is what the control API tells of the box and its servers."""

    def __init__(
        self,
        journal: Journal,
        current: Callable[[], Config],
        look: Callable[[], Mapping[str, Any]],
        now: Callable[[], float] = time.time,
    ) -> None:
        """What was dismissed, and when a backup was fetched, the journal keeps."""
        self._journal = journal
        self._current = current
        self._look = look
        self._now = now

    def handlers(self) -> Handlers:
        """Return who answers which route."""
        return {"checklist": self._told, "checklist.dismiss": self._dismiss}

    def _told(self) -> dict[str, Any]:
        said, since_s = self._look(), self._now() - VISITORS_DAYS * 86400
        backup = self._journal.saved(BACKUP)
        facts = Facts(
            config=self._current(),
            servers=said["servers"],
            edge=said["box"]["edge"],
            people={
                each["id"]: self._journal.people(each["id"], since_s) for each in said["servers"]
            },
            backup_s=_moment(backup.get("fetched_s")),
            backup_complete=backup.get("complete") is True,
            now_s=self._now(),
            dismissed=frozenset(self._dismissed()),
        )
        return {"lines": [line.plain() for line in checklist(facts)]}

    def _dismissed(self) -> list[str]:
        kept = self._journal.saved(_DISMISSED).get("dismissed")
        return [each for each in kept if each in LINES] if isinstance(kept, list) else []

    def _dismiss(self, line: str, dismissed: bool) -> dict[str, Any]:
        if line not in LINES:
            raise ApiError(HTTPStatus.NOT_FOUND, Reason("overview.no_line", line=line[:40]), "line")
        names = [each for each in self._dismissed() if each != line]
        self._journal.save(_DISMISSED, {"dismissed": [*names, line] if dismissed else names})
        return self._told()


def _moment(kept: Any) -> float | None:
    return float(kept) if isinstance(kept, int | float) else None
