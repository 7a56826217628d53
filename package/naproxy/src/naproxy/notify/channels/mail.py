"""By mail: SMTP with STARTTLS, TLS, or in clear (RFC 5321, 3207, 8314)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from naproxy.core.reason import Reason
from naproxy.core.schema import Problem, fits, is_host, option, or_empty
from naproxy.notify.channels import SendBy

ON: Final = "mail_to"
TO: Final = ("smtp_host", "smtp_port", "smtp_security")
SENT: Final = "smtp_password"
_is_mail: Final = fits(r"[!#-'*+/-9=?A-Z^-~.-]{1,64}@[A-Za-z0-9.-]{1,253}", Reason("config.mail"))


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Its keys."""

    mail_to: tuple[str, ...] = option(
        "Mail addresses that are told; none: no mail", (), high=8, check=_is_mail
    )
    mail_from: str = option(
        "Address that the mail comes from; empty: naproxy at the box's name",
        "",
        high=320,
        check=or_empty(_is_mail),
    )
    smtp_host: str = option(
        "Mail server that takes the mail", "", high=253, check=or_empty(is_host)
    )
    smtp_port: int = option(
        "Its port: 587 is usual with starttls, 465 with tls, 25 with none", 587, low=1, high=65535
    )
    smtp_security: str = option(
        "Encryption: starttls or tls; none sends in clear, for a server in the own network",
        "starttls",
        choices=("starttls", "tls", "none"),
    )
    smtp_user: str = option("User to log in as; empty: no login", "", high=256)
    smtp_password: str = option("That user's password", "", high=256, secret=True)


def conflicts(settings: Any) -> Iterator[Problem]:
    """Yield what is wrong between keys that are each right."""
    if settings.mail_to and not settings.smtp_host:
        yield Problem("notify.smtp_host", Reason("config.smtp_host"))
    if settings.smtp_user and settings.smtp_security == "none":
        yield Problem("notify.smtp_security", Reason("config.smtp_in_clear"))


def send(settings: Mapping[str, Any], letter: Mapping[str, Any], send_by: SendBy) -> None:
    """Hand it to the mail server."""
    send_by.mail(settings, letter)
