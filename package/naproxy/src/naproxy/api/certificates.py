"""The control API's part for HTTPS: certificates, and the edge that shows them."""

from __future__ import annotations

import base64
import binascii
from http import HTTPStatus
from typing import Any, Final

from naproxy.api import configuration
from naproxy.api.calls import ApiError, Handlers
from naproxy.api.jobs import JobError, Jobs, Progress
from naproxy.config.edit import Change
from naproxy.config.in_force import InForce
from naproxy.core.processes import why
from naproxy.core.reason import Reason, WrongError
from naproxy.edge.keeper import Keeper
from naproxy.edge.store import is_id
from naproxy.edge.x509 import CertificateError, Pair, Sent

_PAUSE_S: Final = 1.0
_TRIED: Final = "tried_only"
"""The name of one that is only looked at: no id has an underscore."""
_OF_KEY: Final = ("https.no_key", "https.bad_key", "https.many_keys", "https.other_key")


class Certificates:
    """Answers what is below /v1/certificates and /v1/challenges."""

    def __init__(self, keeper: Keeper, in_force: InForce) -> None:
        self._keeper = keeper
        self._in_force = in_force
        self._jobs = Jobs()

    def stop(self) -> None:
        """End what is under way."""
        self._jobs.stop()

    def handlers(self) -> Handlers:
        """Return who answers which route."""
        return {
            "certificates": self._keeper.told,
            "certificate.put": self._put,
            "certificate.check": self._check,
            "certificate.remove": self._remove,
            "edge": self._edge,
            "certificate.renew.begin": self._renew,
            "certificate.renew": self._renewal,
            "certificate.renew.end": self._renew_no_more,
            "challenge.put": self._answer,
            "challenge.remove": self._answer_no_more,
        }

    async def _renew(
        self, certificate: str, *, staging: bool = False, changes: list[Any] | None = None
    ) -> dict[str, Any]:
        config = self._in_force.current()
        if changes is not None:
            config, staging = await configuration.draft(self._in_force, changes), True
        if not any(each.id == certificate for each in config.certificate):
            raise ApiError(HTTPStatus.NOT_FOUND, Reason("https.unknown", name=certificate[:40]))

        async def work(progress: Progress) -> dict[str, Any]:
            progress.part = "trial" if staging else "renewal"
            try:
                if staging:
                    return await self._keeper.trial(certificate, config)
                return await self._keeper.renew(certificate)
            except CertificateError as error:
                raise JobError(error.reason.code, **error.reason.params) from None

        return self._jobs.start(certificate, work, _PAUSE_S)

    def _renewal(self, certificate: str) -> dict[str, Any]:
        return self._jobs.status(certificate)

    def _renew_no_more(self, certificate: str) -> dict[str, Any]:
        return self._jobs.cancel(certificate)

    def _answer(self, token: str, answer: str) -> dict[str, Any]:
        try:
            self._keeper.challenges.put(token, answer)
        except WrongError as error:
            raise ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, error.reason) from None
        return {}

    def _answer_no_more(self, token: str) -> dict[str, Any]:
        self._keeper.challenges.remove(token)
        return {}

    def _edge(self) -> dict[str, Any]:
        return {**self._keeper.status(), "configuration": self._keeper.configuration()}

    async def _check(self, **sent: str) -> dict[str, Any]:
        return self._keeper.about((await self._judged(_TRIED, sent)).certificate)

    async def _put(self, certificate: str, **sent: str) -> dict[str, Any]:
        if not is_id(certificate):
            raise ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, Reason("config.id"), "certificate")
        if self._source(certificate) != "upload":
            raise ApiError(HTTPStatus.CONFLICT, Reason("https.by_itself"))
        pair = await self._judged(certificate, sent)
        is_new = not self._configured(certificate)
        before = self._keeper.store.get(certificate)
        await self._keep(certificate, pair)
        if is_new:
            try:
                await self._change(Change("add", "certificate", {"id": certificate}))
            except ApiError:
                if before is None:
                    await self._keeper.remove(certificate)
                raise
        return self._keeper.certificate(certificate)

    async def _remove(self, certificate: str, *, force: bool = False) -> dict[str, Any]:
        configured = self._configured(certificate)
        if not configured and certificate not in self._keeper.store.ids():
            raise ApiError(HTTPStatus.NOT_FOUND, Reason("https.unknown", name=certificate[:40]))
        needed = self._keeper.needed_by(certificate)
        if needed and not force:
            raise ApiError(HTTPStatus.CONFLICT, Reason("https.needed", names=needed))
        if configured:
            await self._change(Change("remove", f"certificate.{certificate}"))
        if is_id(certificate):
            await self._keeper.remove(certificate)
        return self._keeper.told()

    async def _judged(self, name: str, sent: dict[str, str]) -> Pair:
        try:
            return await self._keeper.judge(name, _read(sent))
        except CertificateError as error:
            field = _field(error.reason.code, sent)
            raise ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, error.reason, field) from None

    async def _keep(self, name: str, pair: Pair) -> None:
        try:
            await self._keeper.put(name, pair)
        except OSError as error:
            said = Reason("https.not_kept", why=why(error))
            raise ApiError(HTTPStatus.INSUFFICIENT_STORAGE, said) from None

    def _configured(self, name: str) -> bool:
        return any(each.id == name for each in self._in_force.current().certificate)

    def _source(self, name: str) -> str:
        listed = self._in_force.current().certificate
        return next((each.source for each in listed if each.id == name), "upload")

    async def _change(self, change: Change) -> None:
        await configuration.change(self._in_force, [change], self._in_force.version)


def _field(code: str, sent: dict[str, str]) -> str:
    """Return which of what was sent a refusal is about."""
    if code in ("https.password", "https.encrypted"):
        return "password"
    if sent.get("pkcs12"):
        return "pkcs12"
    return "key" if code in _OF_KEY else "pem"


def _read(sent: dict[str, str]) -> Sent:
    try:
        pkcs12 = base64.b64decode(sent.get("pkcs12", ""), validate=True)
    except (binascii.Error, ValueError):
        raise CertificateError("https.pkcs12") from None
    pem, key = (sent.get(name, "").encode() for name in ("pem", "key"))
    return Sent(pem, key, pkcs12, sent.get("password", ""))
