"""What the configuration says of notifications: whom to tell, of what, and when not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from naproxy.core.hours import span
from naproxy.core.reason import Reason
from naproxy.core.schema import Problem, checked, fits, is_host, option, or_empty

EVENTS: Final = ("not_woken", "promise", "certificate", "meter", "disk", "update", "report")

_is_mail: Final = fits(r"[!#-'*+/-9=?A-Z^-~.-]{1,64}@[A-Za-z0-9.-]{1,253}", Reason("config.mail"))
_is_url: Final = fits(r"https?://[!-~]{1,500}", Reason("config.url"))
_is_topic: Final = fits(r"https?://[!-~]{1,400}/[-_A-Za-z0-9]{1,64}", Reason("config.ntfy"))


@dataclass(frozen=True, kw_only=True)
class Notify:
    """Who is told when something is wrong, and how."""

    events: tuple[str, ...] = option(
        "What to tell: a server did not wake (and is back), the promise was not kept, a certificate"
        " ends, a meter is silent, the disk is nearly full, an update failed, the monthly report",
        EVENTS,
        choices=EVENTS,
    )
    quiet: tuple[str, ...] = option(
        'Quiet hours, such as "mon-sun 22:00-07:00": what happens then is told when they are over',
        (),
        high=16,
        check=checked(span),
    )
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
    ntfy: str = option(
        "Topic of an ntfy server, such as https://ntfy.example.org/naproxy; empty: none",
        "",
        high=500,
        check=or_empty(_is_topic),
        secret=True,
    )
    ntfy_token: str = option("Access token of the ntfy server", "", high=256, secret=True)
    webhook: str = option(
        "Address that each notification is posted to as JSON; empty: none",
        "",
        high=500,
        check=or_empty(_is_url),
        secret=True,
    )
    webhook_token: str = option(
        "Token that is sent along, as Authorization: Bearer", "", high=256, secret=True
    )

    @property
    def channels(self) -> tuple[str, ...]:
        """Return the ways to tell that are set up, by name."""
        there = {"mail": self.mail_to, "ntfy": self.ntfy, "webhook": self.webhook}
        return tuple(name for name, said in there.items() if said)

    @property
    def in_clear(self) -> tuple[str, ...]:
        """Return those whose token anybody on the way can read."""
        told = (("ntfy", self.ntfy, self.ntfy_token), ("webhook", self.webhook, self.webhook_token))
        return tuple(name for name, url, token in told if token and url.startswith("http:"))


def conflicts(notify: Notify) -> Iterator[Problem]:
    """Yield what is wrong between keys that are each right."""
    if notify.mail_to and not notify.smtp_host:
        yield Problem("notify.smtp_host", Reason("config.smtp_host"))
    if notify.smtp_user and notify.smtp_security == "none":
        yield Problem("notify.smtp_security", Reason("config.smtp_in_clear"))
