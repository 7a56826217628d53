"""Sends a mail: SMTP with STARTTLS, TLS, or in clear (RFC 5321, 3207, 8314)."""

from __future__ import annotations

import base64
import smtplib
import socket
import ssl
from collections.abc import Mapping
from email.message import EmailMessage
from email.utils import format_datetime, localtime, make_msgid
from typing import TYPE_CHECKING, Any

from naproxy.core.reason import WrongError, own_words

if TYPE_CHECKING:
    from typing_extensions import Buffer

TAKES_S = 20.0
_MECHANISMS = {"CRAM-MD5", "PLAIN", "LOGIN"}
"""That smtplib has."""


class _Utf8(str):
    """Text that smtplib, which encodes logins as ASCII, sends as UTF-8 (RFC 4616)."""

    __slots__ = ()

    def encode(self, _encoding: str = "", _errors: str = "") -> bytes:
        return super().encode()


class _Utf8Login(smtplib.SMTP):
    """Logs in with any characters."""

    def auth_plain(self, challenge: Buffer | None = None) -> str:
        return _Utf8(super().auth_plain(challenge))

    def auth_login(self, challenge: Buffer | None = None) -> str:
        return _Utf8(super().auth_login(challenge))

    def auth_cram_md5(self, challenge: bytes | None = None) -> str | None:  # type: ignore[override]
        self.password = _Utf8(self.password)
        answer = super().auth_cram_md5(challenge)
        return None if answer is None else _Utf8(answer)


class _Utf8LoginTls(_Utf8Login, smtplib.SMTP_SSL):
    """The same by TLS."""


def message(settings: Mapping[str, Any], letter: Mapping[str, Any], host: str) -> EmailMessage:
    """Return the mail of a letter; `host` is the box's name."""
    made = EmailMessage()
    made["From"] = settings["mail_from"] or f"naproxy@{host}"
    made["To"] = ", ".join(settings["mail_to"])
    made["Subject"] = " ".join(letter["title"].split())
    made["Date"] = format_datetime(localtime())
    made["Message-ID"] = make_msgid(domain=host)
    made["Auto-Submitted"] = "auto-generated"  # RFC 3834: nobody's holiday note answers it
    made.set_content(letter["text"])
    if letter.get("picture"):
        png = base64.b64decode(letter["picture"])
        made.add_attachment(png, maintype="image", subtype="png", filename="naproxy.png")
    return made


def send(settings: Mapping[str, Any], letter: Mapping[str, Any]) -> None:
    """Hand it to the mail server; WrongError or OSError."""
    host = socket.getfqdn() or "naproxy"
    made = message(settings, letter, host)
    where = (settings["smtp_host"], settings["smtp_port"])
    try:
        server: smtplib.SMTP
        if settings["smtp_security"] == "tls":
            server = _Utf8LoginTls(*where, timeout=TAKES_S, context=ssl.create_default_context())
        else:
            server = _Utf8Login(*where, timeout=TAKES_S)
        with server:
            if settings["smtp_security"] == "starttls":
                _start_tls(server, where[0])
            if settings["smtp_user"]:
                _log_in(server, settings)
            refused = server.send_message(made)
    except smtplib.SMTPRecipientsRefused as error:
        raise WrongError("notify.refused", names=tuple(error.recipients)) from None
    except smtplib.SMTPAuthenticationError:
        raise WrongError("notify.login", server=where[0]) from None
    except smtplib.SMTPResponseException as error:
        said = error.smtp_error
        words = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
        raise WrongError("notify.answered", status=error.smtp_code, why=own_words(words)) from None
    except smtplib.SMTPNotSupportedError:
        raise WrongError("notify.no_smtputf8", server=where[0]) from None
    except smtplib.SMTPException as error:
        raise WrongError("notify.not_sent", why=own_words(str(error))) from None
    if refused:
        raise WrongError("notify.refused", names=tuple(refused))


def _start_tls(server: smtplib.SMTP, name: str) -> None:
    try:
        server.starttls(context=ssl.create_default_context())
    except smtplib.SMTPNotSupportedError:
        raise WrongError("notify.no_starttls", server=name) from None


def _log_in(server: smtplib.SMTP, settings: Mapping[str, Any]) -> None:
    name = settings["smtp_host"]
    server.ehlo_or_helo_if_needed()
    if not server.has_extn("auth"):
        raise WrongError("notify.no_auth", server=name)
    offered = server.esmtp_features["auth"].upper().split()
    if not _MECHANISMS & set(offered):
        raise WrongError("notify.other_auth", server=name, names=tuple(offered))
    server.login(settings["smtp_user"], settings["smtp_password"])
