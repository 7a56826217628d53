"""Keeps the edge as the configuration wants it, and watches when certificates end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from naproxy.config.document import Certificate as Configured
from naproxy.config.document import Config, Server
from naproxy.config.installation import Installation
from naproxy.core import files
from naproxy.core.names import ascii_site
from naproxy.core.processes import why
from naproxy.core.reason import Reason, plain
from naproxy.edge import acme
from naproxy.edge.apply import Generations, Haproxy, Info
from naproxy.edge.challenges import Challenges, Write
from naproxy.edge.render import Here, passed, render, serves, wanted
from naproxy.edge.renewing import Memory, Renewing
from naproxy.edge.store import own_file, store_of
from naproxy.edge.to_server import ToServers
from naproxy.edge.x509 import (
    READING,
    Certificate,
    CertificateError,
    Openssl,
    Pair,
    Sent,
    day_of,
    make_own,
    read,
)
from naproxy.server.inhibitors import CLOCK_SET_S

_LOG: Final = logging.getLogger(__name__)
_LOOK_S: Final = 10.0
_STARTS_S: Final = 20.0
"""So long haproxy may take until it is said that it does not run."""
_DAY_S: Final = 86400.0
_STEPS_DAYS: Final = (0, 1, 7, 14, 30)
"""So many days before a certificate ends it is said, each once."""
_SAID: Final = "https.said"
_VISITED: Final = "https.visited"


@dataclass(frozen=True, slots=True)
class _Known:
    """A stored certificate: its contents, or the reason why it cannot be used."""

    digest: str
    pair: Pair | None
    problem: Reason | None


class Keeper:
    """The only one who changes what the edge lives by."""

    def __init__(
        self,
        here: Installation,
        memory: Memory,
        now: Callable[[], float] = time.time,
        haproxy: Haproxy | None = None,
        *,
        show: Write = lambda answers: None,
        awake: Callable[[str], bool] = lambda server: False,
        served: Callable[[], None] = lambda: None,
    ) -> None:
        """Change nothing yet.

        `awake` tells whether a server is awake. `show` passes the answers for a certificate
        issuer to Varnish. `served` is called when the served names change.
        """
        ipv6 = Path("/proc/net/if_inet6").exists()
        self._here = Here(Path(here.run_dir), here.edge_user, ipv6, here.group)
        self._folder = Path(here.edge_dir)
        self._memory = memory
        self._now = now
        self.store = store_of(self._folder)
        self._haproxy = haproxy or Haproxy(self._here)
        self._generations = Generations(self._folder, self._haproxy)
        self._to_servers = ToServers(self._folder, awake, now)
        self._openssl = Openssl(Path(here.run_dir))
        self._config: Config | None = None
        self._changed = asyncio.Event()
        self._work: asyncio.Task[None] | None = None
        self._busy = asyncio.Lock()
        self._known: dict[str, _Known] = {}
        self._problem: Reason | None = None
        self._info: Info | None = None
        self._visited: bool | None = None
        self._silent_s: float | None = None
        """Since when it is wanted and does not answer."""
        self._deaf: tuple[Reason | None, ...] = (None, None)
        self._said: dict[str, Any] | None = None
        self.served: frozenset[str] = frozenset()
        """The names of good certificates in force, and those whose connections are passed on."""
        self._hear_served = served
        self.challenges = Challenges(show)
        self._renewing = Renewing(here, self, memory, now, awake)

    # The loop's side

    def take(self, config: Config) -> None:
        """Live by a new configuration, soon."""
        self._config = config
        self._changed.set()

    def begin(self) -> None:
        """Start work; delete files of an interrupted reading, since they may have a key."""
        for left in self._here.run_dir.glob(f"{READING}*"):
            shutil.rmtree(left, ignore_errors=True)
        self._work = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """Work no more; HTTPS goes on."""
        self._renewing.stop()
        if self._work:
            self._work.cancel()

    async def _run(self) -> None:
        while True:
            try:
                await self.once()
                self.renew_due()
            except Exception:  # no error may end this loop
                _LOG.exception("https: a fault in Naproxy")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    await self._changed.wait()

    async def once(self) -> None:
        """Apply what has changed, and look what became of it."""
        config = self._config
        async with self._busy:
            if config and self._changed.is_set():
                self._changed.clear()
                self._say(await self._apply(config))
            self._info = await self._haproxy.info() if config and wanted(config) else None
            if self._info or not config or not wanted(config):
                self._silent_s = None
            elif self._silent_s is None:
                self._silent_s = self._now()
            self._note_visits(config)
            deaf = await self._nobody_passes_on(config) if config else None
            self._deaf = self._deaf[1], deaf
            await self._follow(config)
            self._serve(config)
        if config and await self._to_servers.look(config):
            self._changed.set()
        self._watch()

    def _note_visits(self, config: Config | None) -> None:
        """Note the first visitor over HTTPS: haproxy's counters restart with each change.

        Its count of handshakes includes those with servers; its frontend keys count visitors only.
        """
        if self._visited is None:
            self._visited = self._memory.saved(_VISITED).get("yes") is True
        visited = self._visited or bool(_figure(self._info, "SslFrontendMaxKeyRate"))
        visited = visited and bool(config is None or serves(config))
        if visited != self._visited:
            self._visited = visited
            self._memory.save(_VISITED, {"yes": visited})

    def _serve(self, config: Config | None) -> None:
        """Note the names that visitors get over HTTPS now; note nothing if unsure."""
        served: frozenset[str] = frozenset()
        if config and serves(config) and self._info and not self._problem:
            good = [pair.certificate for pair in self._pairs(config).values()]
            served = frozenset(
                name for each in good if self._now() < each.not_after_s for name in each.names
            )
        if config and self._info and not self._problem:
            served |= {site for server in passed(config) for site in _sites(server)}
        if served != self.served:
            self.served = served
            self._hear_served()

    def renew_due(self) -> None:
        """Begin to renew what is due: with another clock no issuer's certificate holds."""
        self.challenges.forget()
        if self._config and self._dated:
            self._renewing.next(self._config, self._pairs(self._config))

    async def _apply(self, config: Config) -> Reason | None:
        try:
            await self._learn(config)
            if not wanted(config):
                return None
            self._make_jail()
            pairs = self._pairs(config)
            return await self._generations.apply(
                render(config, pairs, await self._own(), self._here, self._to_servers.ways(config))
            )
        except CertificateError as error:
            return error.reason
        except OSError as error:
            return Reason("https.not_kept", why=why(error))

    async def _nobody_passes_on(self, config: Config) -> Reason | None:
        """Return that naproxy-through does not take connections for a server."""
        for server in passed(config):
            try:
                _, writer = await asyncio.open_unix_connection(self._here.through(server.id))
                writer.close()
            except OSError:
                return Reason("https.through_not_running", server=server.id)
        return None

    async def _follow(self, config: Config | None) -> None:
        """Repair the state after a missed signal or a restart of this process."""
        if config and not wanted(config):
            if self._generations.current or self._haproxy.master():
                self._generations.stop()
        elif self._info and self._info.get("description") != self._generations.current:
            self._say(await self._generations.follow())

    def _say(self, problem: Reason | None) -> None:
        if problem and problem != self._problem:
            _LOG.error("https: %s", problem)
        self._problem = problem

    def _make_jail(self) -> None:
        """Make the folder of Varnish's socket, if its service has not."""
        jail = self._here.jail
        if not jail.exists():
            jail.mkdir(mode=0o750, parents=True)
            with contextlib.suppress(LookupError):
                shutil.chown(jail, "root" if os.geteuid() == 0 else None, self._here.user)

    async def _own(self) -> bytes:
        """Return the box's own certificate, replaced if it expires soon."""
        file = own_file(self._folder)
        with contextlib.suppress(OSError, CertificateError):
            pem = file.read_bytes()
            found = (await read(Sent(pem), self._openssl)).certificate
            if not self._dated or not found.untimely(self._now() + 30 * _DAY_S):
                return pem
        pem = await make_own(self._openssl)
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        await asyncio.to_thread(files.write, file, pem, 0o600)
        return pem

    async def _learn(self, config: Config) -> None:
        """Read what is kept, as far as it is new; OSError."""
        ids = {each.id for each in config.certificate} | set(self.store.ids())
        known = {name: await self._read(name) for name in sorted(ids)}
        self._known = known

    async def _read(self, name: str) -> _Known:
        pem = self.store.get(name)
        if pem is None:
            return _Known("", None, Reason("https.not_sent"))
        digest = sha256(pem).hexdigest()
        before = self._known.get(name)
        if before and before.digest == digest:
            return before
        try:
            return _Known(digest, await read(Sent(pem), self._openssl), None)
        except CertificateError as error:
            _LOG.error("certificate %s: %s", name, error.reason)
            return _Known(digest, None, error.reason)

    def _pairs(self, config: Config) -> dict[str, Pair]:
        known = ((each.id, self._known.get(each.id)) for each in config.certificate)
        return {name: each.pair for name, each in known if each and each.pair}

    def _watch(self) -> None:
        """Say once, in the log, that a certificate ends in 30, 14, 7 days, in one, or has ended."""
        if self._said is None:
            self._said = self._memory.saved(_SAID)
        said, now = self._said, {}
        for name, known in self._known.items():
            if known.pair is None or not self._dated:
                continue
            certificate = known.pair.certificate
            day_s = _DAY_S * certificate.scale
            steps = [s for s in _STEPS_DAYS if self._left_s(certificate) <= s * day_s]
            ending = self._ending(certificate, name)
            if not steps or not ending:
                continue
            before = said.get(certificate.fingerprint)
            now[certificate.fingerprint] = steps[0]
            if not (isinstance(before, int) and before <= steps[0]):
                _LOG.warning("certificate %s: %s", name, ending)
        if self._dated and self._known and now != said:
            self._said = now
            self._memory.save(_SAID, now)

    @property
    def _dated(self) -> bool:
        """Is the clock set? Before, dates say nothing."""
        return self._now() >= CLOCK_SET_S

    def _left_s(self, certificate: Certificate) -> float:
        return certificate.not_after_s - self._now()

    def _ending(self, certificate: Certificate, name: str = "") -> Reason | None:
        """Return that it is not good now, or ends soon; `name` is that of one that is kept."""
        if not self._dated:
            return None
        if wrong := certificate.untimely(self._now()):
            return wrong
        left_s = self._left_s(certificate)
        day_s = _DAY_S * certificate.scale
        if left_s > _STEPS_DAYS[-1] * day_s:
            return None
        day = day_of(certificate.not_after_s)
        config, own = self._config, self._configured(name)
        if config and own and own.source != "upload":
            failing = self._renewing.problem(own, config)
            return Reason("https.renewal_fails", day=day) if failing else None
        # Of a short-lived one, people need to know what its days are worth.
        short = {"life_days": round(90 * certificate.scale, 2)} if certificate.scale < 1 else {}
        return Reason("https.ends_soon", days=int(left_s // _DAY_S), day=day, **short)

    # Changes

    async def judge(self, name: str, sent: Sent) -> Pair:
        """Return what was sent if it can be used here; CertificateError, and nothing changes."""
        pair = await read(sent, self._openssl)
        wrong = pair.certificate.untimely(self._now()) if self._dated else None
        wrong = wrong or self._for_others(pair.certificate) or await self._unfit(name, pair)
        if wrong:
            raise CertificateError(wrong.code, **wrong.params)
        return pair

    def _for_others(self, certificate: Certificate) -> Reason | None:
        """Return that it is for none of the sites here, where any are known."""
        sites = [site for server in self._servers() for site in _sites(server)]
        if not sites or any(certificate.covers(site) for site in sites):
            return None
        return Reason("https.wrong_names", names=certificate.names[:4], served=sites[:4])

    async def _unfit(self, name: str, pair: Pair) -> Reason | None:
        """Ask haproxy, which has its own demands: without it nobody can say."""
        if not self._config:
            return None
        pairs = self._pairs(self._config)
        async with self._busy:
            try:
                own = await self._own()
                ways = self._to_servers.ways(self._config)
                files_with = render(self._config, {**pairs, name: pair}, own, self._here, ways)
                wrong = await self._generations.check(files_with)
                if wrong is None or wrong.code == "https.no_haproxy":
                    return None
                without = render(self._config, pairs, own, self._here, ways)
                # If it does not live by the others either, this one is not to blame.
                return None if await self._generations.check(without) else wrong
            except OSError as error:
                return Reason("https.not_kept", why=why(error))

    async def put(self, name: str, pair: Pair) -> bool:
        """Keep one, in the place of another or new; return whether it is another. OSError."""
        pem = pair.chain + pair.key
        async with self._busy:
            if self.store.get(name) == pem:
                return False
            await asyncio.to_thread(self.store.put, name, pem)
            self._known[name] = _Known(sha256(pem).hexdigest(), pair, None)
            self._changed.set()
            return True

    async def renew(self, name: str) -> dict[str, Any]:
        """Renew one; CertificateError."""
        config, own = self._config, self._configured(name)
        if not config or not own:
            raise CertificateError("https.unknown", name=name[:40])
        await self._renewing.renew(own, config, by_hand=True)
        return self.certificate(name)

    async def trial(self, name: str, config: Config) -> dict[str, Any]:
        """Try whether one would be issued with a configuration; CertificateError."""
        own = next(each for each in config.certificate if each.id == name)
        return self.about((await self._renewing.trial(own, config)).certificate)

    async def remove(self, name: str) -> None:
        """Forget one; OSError."""
        async with self._busy:
            self.store.remove(name)
            self._known.pop(name, None)
            self._renewing.forget(name)
            self._changed.set()

    def needed_by(self, name: str) -> list[str]:
        """Return the servers whose visitors must use HTTPS, and would see a warning without it."""
        found = []
        for server in self._servers(served=True):
            if not (server.https.redirect or server.https.hsts_s):
                continue
            others = [p.certificate for n, p in self._readable().items() if n != name]
            mine = [s for s in _sites(server) if self._covers(name, s)]
            if any(not any(other.covers(site) for other in others) for site in mine):
                found.append(server.id)
        return found

    # Telling

    def told(self) -> dict[str, Any]:
        """Return all as JSON types; no key."""
        return {
            "certificates": [self.certificate(name) for name in sorted(self._known)],
            "edge": self._edge(),
        }

    def status(self) -> dict[str, Any]:
        """Return what the status of the box has of it."""
        ends = [
            {
                "id": name,
                "names": [self._written(each) for each in own.names],
                "not_before_s": own.not_before_s,
                "not_after_s": own.not_after_s,
                "problem": problem.plain() if problem else None,
            }
            for name, pair in self._readable().items()
            for own, problem in [(pair.certificate, self._problem_of(name))]
        ]
        ending = [
            Reason("https.certificate", name=name, why=reason)
            for name, pair in self._readable().items()
            if (reason := self._ending(pair.certificate, name))
        ]
        return {**self._edge(), "certificates": ends, "ending": plain(ending)}

    def _problem_of(self, name: str) -> Reason | None:
        """Return why one that is shown is not renewed."""
        own = self._configured(name)
        if not self._config or not own or own.source == "upload":
            return None
        return self._renewing.problem(own, self._config)

    def certificate(self, name: str) -> dict[str, Any]:
        """Return what is known of one, as JSON types."""
        known, own = self._known[name], self._configured(name)
        told: dict[str, Any] = {"id": name, "source": own.source if own else None}
        problem = known.problem or (None if own else Reason("https.not_configured"))
        # Uploads that fail to parse have no known names.
        told["asked"] = None if known.pair or known.digest else self._asked(own)
        told["next_try_s"] = None
        if self._config and own and own.source != "upload":
            failing = self._renewing.problem(own, self._config)
            problem = failing or (self._coming(own.source) if known.pair is None else problem)
            told["next_try_s"] = self._renewing.next_s(own, self._config, known.pair)
        told["problem"] = problem.plain() if problem else None
        if known.pair is None:
            return {**told, **_UNKNOWN}
        return {**told, **self.about(known.pair.certificate, name)}

    def _asked(self, own: Configured | None) -> list[str]:
        """Return the names, as the settings have them, that one is to be for."""
        if not self._config or not own or own.source == "upload":
            return []
        if own.source == "server":
            hosts = [s.hosts for s in self._servers() if s.id == own.server]
            return [host for each in hosts for host in each]
        return [self._written(name) for name in acme.names_for(own, self._config)]

    def _written(self, name: str) -> str:
        """Return a name as the settings have it."""
        hosts = [host for server in self._servers() for host in server.hosts]
        return next((host for host in hosts if ascii_site(host) == name), name)

    def _coming(self, source: str) -> Reason:
        if not self._dated:
            return Reason("https.acme_clock")
        return Reason("https.acme_coming" if source == "acme" else "https.fetch_coming")

    def _configured(self, name: str) -> Configured | None:
        listed = self._config.certificate if self._config else ()
        return next((each for each in listed if each.id == name), None)

    def about(self, certificate: Certificate, name: str = "") -> dict[str, Any]:
        """Return what a certificate says, as JSON types."""
        ending = self._ending(certificate, name)
        notes = [*([ending] if ending else []), *certificate.notes]
        return {
            "names": list(certificate.names),
            "not_before_s": certificate.not_before_s,
            "not_after_s": certificate.not_after_s,
            "ends_in_days": int(self._left_s(certificate) // _DAY_S) if self._dated else None,
            "issuer": certificate.issuer,
            "fingerprint": certificate.fingerprint,
            "kind": certificate.kind,
            "bits": certificate.bits,
            "trusted": certificate.trusted,
            "in_use_by": [
                server.id
                for server in self._servers(served=True)
                if any(certificate.covers(site) for site in _sites(server))
            ],
            "notes": plain(notes),
        }

    def _edge(self) -> dict[str, Any]:
        config, info = self._config, self._info
        is_wanted = bool(config and wanted(config))
        problem = self._problem
        if is_wanted and not problem and not info:
            since_s = self._now() if self._silent_s is None else self._silent_s
            # The clock may have been set meanwhile.
            starts = 0 <= self._now() - since_s < _STARTS_S
            problem = Reason("https.starting" if starts else "https.not_running")
        # At first it may not have heard yet whom it is to serve.
        problem = problem or (self._deaf[1] if self._deaf[0] else None)
        return {
            "wanted": is_wanted,
            "running": info is not None,
            "version": info.get("Version") if info else None,
            "problem": problem.plain() if problem else None,
            "applied_s": self._generations.applied_s(),
            "connections": _figure(info, "CurrConns"),
            "handshakes": _figure(info, "CumSslConns"),
            "visited": bool(self._visited),
            "uncovered": self._uncovered(),
            "ended": self._ended(),
            "serves": bool(config and serves(config)),
            "passes": [s for server in passed(config) for s in _sites(server)] if config else [],
            "to_server": [
                {"server": server.id, "problem": problem.plain() if problem else None}
                for server in self._servers()
                if server.by_https
                for problem in [self._to_servers.problem(server)]
            ],
        }

    def configuration(self) -> str:
        """Return what haproxy was told last, empty if nothing; no key is in it."""
        try:
            return (self._folder / "current" / "haproxy.cfg").read_text()
        except OSError:
            return ""

    def _uncovered(self) -> list[str]:
        """Return the served names for which there is no certificate."""
        pairs = self._pairs(self._config) if self._config else {}
        found = [pair.certificate for pair in pairs.values()]
        hosts = [host for server in self._servers(served=True) for host in server.hosts]
        return [h for h in hosts if not any(each.covers(ascii_site(h)) for each in found)]

    def _ended(self) -> list[dict[str, str]]:
        """Return the served names whose certificates have all ended, and when the last did."""
        if not self._config or not self._dated:
            return []
        known = [pair.certificate for pair in self._pairs(self._config).values()]
        ends = {
            host: max((each.not_after_s for each in known if each.covers(site)), default=None)
            for server in self._servers(served=True)
            for host, site in zip(server.hosts, _sites(server), strict=True)
        }
        return [
            {"name": host, "day": day_of(end_s)}
            for host, end_s in ends.items()
            if end_s is not None and end_s <= self._now()
        ]

    def _readable(self) -> Mapping[str, Pair]:
        return {name: known.pair for name, known in self._known.items() if known.pair}

    def _covers(self, name: str, site: str) -> bool:
        pair = self._readable().get(name)
        return pair is not None and pair.certificate.covers(site)

    def _servers(self, *, served: bool = False) -> list[Server]:
        servers = self._config.server if self._config else ()
        return [server for server in servers if not served or server.https.mode == "box"]


_UNKNOWN: Final[dict[str, Any]] = {
    **{"names": [], "not_before_s": None, "not_after_s": None, "ends_in_days": None},
    **{"issuer": None, "fingerprint": None, "kind": None, "bits": None, "trusted": False},
    **{"in_use_by": [], "notes": []},
}


def _sites(server: Server) -> list[str]:
    return [ascii_site(host) for host in server.hosts]


def _figure(info: Info | None, name: str) -> int | None:
    value = info.get(name, "") if info else ""
    return int(value) if value.isdigit() else None
