"""Has certificates issued, or fetches them, in time and one at a time."""

from __future__ import annotations

import asyncio
import logging
import math
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from naproxy.config.document import Certificate, Config, Server
from naproxy.config.installation import Installation
from naproxy.core import files
from naproxy.core.processes import Printed, printed, why
from naproxy.core.reason import Reason, stored_reason
from naproxy.edge import acme, fetching
from naproxy.edge.acme import Issuer, Life, Refusal, Tried
from naproxy.edge.store import account_file, account_folder
from naproxy.edge.x509 import MOST_BYTES, READING, CertificateError, Pair, Sent

_LOG: Final = logging.getLogger(__name__)
_TAKES_S: Final = 900.0
"""A program of the office's may wait for the DNS of the world."""
_KEY_S: Final = 120.0
_FRESH_S: Final = 24 * acme.HOUR_S
_SAVED: Final = "https.renewed"
_LEAST_VERSION: Final = (1, 7, 6)
"""Of uacme, for authorities of one's own: `UACME_CAINFO`."""
_SETTINGS: Final = "[req]\ndistinguished_name=dn\n[dn]\n"
_KEY: Final = ("ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")
"""Every browser of the last ten years takes it, and it costs the box less than RSA."""


class Memory(Protocol):
    """The state that survives restarts."""

    def save(self, key: str, value: Any) -> None:
        """Keep a JSON value."""

    def saved(self, key: str) -> dict[str, Any]:
        """Return what was kept, an empty object if there is none."""


class Keep(Protocol):
    """The keeper of the certificates."""

    async def judge(self, name: str, sent: Sent) -> Pair:
        """Return what can be used; CertificateError."""

    async def put(self, name: str, pair: Pair) -> bool:
        """Use it from now on; return whether it is another than before. OSError."""


class RefusedError(CertificateError):
    """Why there is no new one."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.reason.code, **refusal.reason.params)
        self.until_s = refusal.until_s


@dataclass(slots=True)
class _State:
    """The state of a certificate's renewal."""

    tried: Tried = field(default_factory=Tried)
    problem: Reason | None = None
    of: dict[str, Any] | None = None
    """The settings at the last renewal."""
    came_s: float = 0.0
    life_s: float = 0.0
    """How long the last one is good; 0: not known."""

    def saved(self) -> dict[str, Any]:
        return {
            **asdict(self.tried),
            "problem": self.problem.text() if self.problem else None,
            "of": self.of,
            "came_s": self.came_s,
            "life_s": self.life_s,
        }


def _state(saved: Mapping[str, Any]) -> _State:
    figures = (saved.get(name, 0) for name in ("failures", "last_s", "until_s"))
    problem = saved.get("problem")
    return _State(
        Tried(*figures),
        stored_reason(problem) if problem else None,
        saved.get("of"),
        saved.get("came_s", 0.0),
        saved.get("life_s", 0.0),
    )


class Renewing:
    """Renews certificates when they are due, and on request."""

    def __init__(
        self,
        here: Installation,
        keep: Keep,
        memory: Memory,
        now: Callable[[], float],
        awake: Callable[[str], bool],
    ) -> None:
        """Begin nothing yet. `awake`: is this server?"""
        self._awake = awake
        self._here = here
        self._keep = keep
        self._memory = memory
        self._now = now
        self._states: dict[str, _State] | None = None
        self._work: asyncio.Task[None] | None = None
        self._working: Any = None
        """The certificate that is being renewed."""
        self._busy = asyncio.Lock()

    def stop(self) -> None:
        """End what is under way."""
        if self._work:
            self._work.cancel()

    def next(self, config: Config, pairs: Mapping[str, Pair]) -> None:
        """Begin what is due, if nothing is under way."""
        if self._busy.locked():
            return
        for certificate in config.certificate:
            if self._due_s(certificate, config, pairs.get(certificate.id)) <= self._now():
                work = self._by_itself(certificate, config)
                self._working = certificate.id, _wanted(certificate, config)
                self._work = asyncio.get_running_loop().create_task(work)
                return

    def forget(self, name: str) -> None:
        """Know nothing of one that was removed: another may get its name."""
        self._of(name)
        if self._states:
            del self._states[name]

    def next_s(self, certificate: Certificate, config: Config, pair: Pair | None) -> float | None:
        """Return when it is renewed next; None: not by itself."""
        due_s = self._due_s(certificate, config, pair)
        return max(due_s, self._now()) if due_s < math.inf else None

    def problem(self, certificate: Certificate, config: Config) -> Reason | None:
        """Return why it is not issued or renewed."""
        return _lacking(certificate, config) or self._of(certificate.id).problem

    def _due_s(self, certificate: Certificate, config: Config, pair: Pair | None) -> float:
        if _lacking(certificate, config):
            return math.inf
        state = self._of(certificate.id)
        is_good = pair is not None and state.of == _wanted(certificate, config)
        if certificate.source == "server":
            if not self._awake(certificate.server):
                return math.inf
            last_s = state.tried.last_s if state.tried.failures else state.came_s * is_good
            return last_s + fetching.EVERY_S
        life = None
        if pair and is_good:
            known = pair.certificate
            life = Life(known.not_before_s, known.not_after_s, known.fingerprint)
        return acme.when(life, state.tried)

    def _of(self, name: str) -> _State:
        if self._states is None:
            saved = self._memory.saved(_SAVED)
            self._states = {name: _state(each) for name, each in saved.items()}
        return self._states.setdefault(name, _State())

    def _save(self, config: Config) -> None:
        ids = [each.id for each in config.certificate]
        self._memory.save(_SAVED, {name: self._of(name).saved() for name in ids})

    async def _by_itself(self, certificate: Certificate, config: Config) -> None:
        try:
            await self.renew(certificate, config)
        except CertificateError as error:
            _LOG.error("certificate %s: %s", certificate.id, error.reason)
        except Exception:  # counted as a failure: the next try comes, later
            _LOG.exception("certificate %s: a fault in Naproxy", certificate.id)

    async def renew(
        self, certificate: Certificate, config: Config, *, by_hand: bool = False
    ) -> None:
        """Renew it and use it; CertificateError.

        By hand: if a scheduled renewal is running, wait for its result.
        """
        self._check(certificate, config)
        asked = certificate.id, _wanted(certificate, config)
        if by_hand and self._work and not self._work.done() and self._working == asked:
            await asyncio.wait([self._work])
            if problem := self._of(certificate.id).problem:
                raise CertificateError(problem.code, **problem.params)
            return
        async with self._busy:
            state = self._of(certificate.id)
            if by_hand and self._is_fresh(certificate, config):
                raise CertificateError("https.acme_fresh")
            if state.problem and self._now() < state.tried.until_s:
                raise CertificateError(state.problem.code, **state.problem.params)
            # Counted before the start, so that a crash cannot cause endless requests.
            state.tried = Tried(state.tried.failures + 1, self._now(), state.tried.until_s)
            self._save(config)
            try:
                pair = await self._judged(certificate, config)
                is_new = await self._put(certificate.id, pair)
            except CertificateError as error:
                state.problem = error.reason
                until_s = error.until_s if isinstance(error, RefusedError) else 0.0
                state.tried = Tried(state.tried.failures, state.tried.last_s, until_s)
                self._save(config)
                raise
            state.tried, state.problem = Tried(), None
            state.of, state.came_s = _wanted(certificate, config), self._now()
            known = pair.certificate
            state.life_s = known.not_after_s - known.not_before_s
            self._save(config)
            if is_new:
                names = ", ".join(pair.certificate.names)
                _LOG.info("certificate %s: a new one for %s is in use", certificate.id, names)

    async def trial(self, certificate: Certificate, config: Config) -> Pair:
        """Test issuance, by Let's Encrypt's staging server if possible; CertificateError."""
        self._check(certificate, config)
        async with self._busy:
            return await self._judged(certificate, config, trial=True)

    def _is_fresh(self, certificate: Certificate, config: Config) -> bool:
        """Would another use up Let's Encrypt's limit of five of the same in a week?"""
        state = self._of(certificate.id)
        costs = certificate.source == "acme" and config.https.acme_directory == "letsencrypt"
        is_good = state.of == _wanted(certificate, config)
        return costs and is_good and self._now() < state.came_s + _FRESH_S

    def _check(self, certificate: Certificate, config: Config) -> None:
        if lacking := _lacking(certificate, config):
            raise CertificateError(lacking.code, **lacking.params)
        if certificate.source == "server" and not self._awake(certificate.server):
            raise CertificateError("https.server_asleep", name=certificate.server)

    async def _judged(
        self, certificate: Certificate, config: Config, *, trial: bool = False
    ) -> Pair:
        if certificate.source == "server":
            sent = await fetching.fetched(certificate, _server(certificate, config))
            return await self._keep.judge(certificate.id, sent)
        try:
            life_s = self._of(certificate.id).life_s or math.inf
            run = _Run(self._here, certificate, config, self._now, trial=trial, life_s=life_s)
            sent = await run.issued()
        except OSError as error:
            raise CertificateError("https.not_kept", why=why(error)) from None
        return await self._keep.judge(certificate.id, sent)

    async def _put(self, name: str, pair: Pair) -> bool:
        try:
            return await self._keep.put(name, pair)
        except OSError as error:
            raise CertificateError("https.not_kept", why=why(error)) from None


def _server(certificate: Certificate, config: Config) -> Server:
    return next(each for each in config.server if each.id == certificate.server)


def _wanted(certificate: Certificate, config: Config) -> dict[str, Any]:
    if certificate.source == "server":
        return {"server": certificate.server}
    return {
        "issuer": acme.issuer(config.https).folder,
        "kind": "ecdsa",
        "names": sorted(acme.names_for(certificate, config)),
    }


def _lacking(certificate: Certificate, config: Config) -> Reason | None:
    """Return what must be set before a certificate can be asked for."""
    if certificate.source == "server":
        return None
    if certificate.source != "acme":
        return Reason("https.not_by_itself")
    if not config.https.acme_terms:
        return Reason("https.terms")
    if not acme.names_for(certificate, config):
        return Reason("https.acme_no_names")
    return None


class _Run:
    """One certificate's issue."""

    def __init__(
        self,
        here: Installation,
        certificate: Certificate,
        config: Config,
        now: Callable[[], float],
        *,
        trial: bool,
        life_s: float = math.inf,
    ) -> None:
        """`life_s`: how long the certificate before is good."""
        self._here = here
        self._life_s = life_s
        self._certificate = certificate
        self._config = config
        self._now = now
        self._at: Issuer = acme.issuer(config.https, trial=trial)
        self._folder = account_folder(Path(here.edge_dir), self._at.folder)

    async def issued(self) -> Sent:
        """Return a certificate with a key of its own; CertificateError, OSError."""
        if not Path(self._here.acme_hook).exists():
            raise CertificateError("https.acme_no_hook", file=self._here.acme_hook)
        if self._config.https.acme_ca_file:
            _start(Path(self._config.https.acme_ca_file))  # uacme would wait for a pipe
            await self._need_version()
        for folder in (self._folder.parent.parent, self._folder.parent, self._folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=READING, dir=self._here.run_dir) as made:
            key, request = Path(made) / "key.pem", Path(made) / "request.csr"
            await self._request(key, request)
            await self._account()
            await self._issue(request)
            return Sent(_start(request.with_name("request-cert.pem")), _start(key))

    async def _request(self, key: Path, request: Path) -> None:
        """Make a key and a certificate request (CSR) for it. A key is used once."""
        names = acme.names_for(self._certificate, self._config)
        settings = request.with_name("settings")
        settings.write_text(_SETTINGS)
        listed = ",".join(f"DNS:{name}" for name in names)
        argv = (
            *("openssl", "req", "-new", "-config", str(settings), "-nodes", "-sha256"),
            *("-newkey", *_KEY, "-subj", "/"),
            *("-addext", f"subjectAltName={listed}", "-keyout", str(key), "-out", str(request)),
        )
        done = await printed(argv, _KEY_S, {"LC_ALL": "C.UTF-8"}, MOST_BYTES)
        if done.code != 0:
            raise CertificateError("https.openssl", why=done.why)

    async def _account(self) -> None:
        """Make sure of an account with the issuer, and update the office's address there."""
        email = self._folder / "email"
        if not account_file(self._folder).exists():
            await self._register()
        elif not email.exists() or email.read_text() != self._config.https.acme_email:
            done = await self._uacme(acme.rewrite(self._at, str(self._folder), self._config.https))
            if done.code:
                return  # No account any more, as the next step will find, or another time.
            await asyncio.to_thread(files.write, email, self._config.https.acme_email, 0o600)

    async def _register(self) -> None:
        argv = acme.register(self._at, str(self._folder), self._config.https)
        await self._often(argv, "", acme.KNOWN_ALREADY)
        email = self._config.https.acme_email
        await asyncio.to_thread(files.write, self._folder / "email", email, 0o600)

    async def _issue(self, request: Path) -> None:
        argv = acme.issue(self._at, str(self._folder), self._here.acme_hook, str(request))
        said = await self._often(argv, self._certificate.challenge, acme.NO_ACCOUNT)
        if acme.NO_ACCOUNT in said:
            await self._register()
            await self._often(argv, self._certificate.challenge)

    async def _often(self, argv: list[str], challenge: str, fine: str = "\0") -> str:
        """Run uacme until it is done, or says what is `fine` too; return its words."""
        for left in reversed(range(acme.MOST_TRIES)):
            done = await self._uacme(argv)
            said = done.complaint.decode(errors="replace")
            if done.code == 0 or fine in said:
                return said
            if done.code is None:
                raise CertificateError("https.acme_late")
            refusal = acme.refusal(said, challenge, self._now(), self._life_s)
            if not (refusal.again and left):
                raise RefusedError(refusal)
        raise AssertionError

    async def _uacme(self, argv: list[str]) -> Printed:
        environment = {
            "LC_ALL": "C.UTF-8",
            "UACME_CAINFO": self._config.https.acme_ca_file,
            "NAPROXY_SOCKET": str(Path(self._here.run_dir) / "control.sock"),
            "NAPROXY_CHALLENGE": self._certificate.challenge,
            "NAPROXY_HOOK": self._certificate.hook,
        }
        if not self._config.https.acme_ca_file:
            del environment["UACME_CAINFO"]
        try:
            return await printed(argv, _TAKES_S, environment, MOST_BYTES)
        except FileNotFoundError:
            raise CertificateError("https.no_uacme") from None

    async def _need_version(self) -> None:
        done = await self._uacme([acme.PROGRAM, "-V"])
        if (found := acme.version(done.complaint.decode(errors="replace"))) < _LEAST_VERSION:
            raise CertificateError(
                "https.acme_ca_old",
                found=".".join(map(str, found)),
                least=".".join(map(str, _LEAST_VERSION)),
            )


def _start(file: Path) -> bytes:
    return files.peek(file, MOST_BYTES + 1)[0]
