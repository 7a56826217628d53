"""Sends a mail: SMTP with STARTTLS, TLS, or in clear (RFC 5321, 3207, 8314)."""

from __future__ import annotations

import base64
import smtplib
import socket
import ssl
from collections.abc import Mapping
from email.message import EmailMessage
from email.utils import format_datetime, localtime, make_msgid
from typing import Any

from naproxy.core.reason import WrongError, own_words

TAKES_S = 20.0


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
            server = smtplib.SMTP_SSL(*where, timeout=TAKES_S, context=ssl.create_default_context())
        else:
            server = smtplib.SMTP(*where, timeout=TAKES_S)
        with server:
            if settings["smtp_security"] == "starttls":
                server.starttls(context=ssl.create_default_context())
            if settings["smtp_user"]:
                server.login(settings["smtp_user"], settings["smtp_password"])
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
        raise WrongError("notify.no_starttls", server=where[0]) from None
    except smtplib.SMTPException as error:
        raise WrongError("notify.not_sent", why=own_words(str(error))) from None
    if refused:
        raise WrongError("notify.refused", names=tuple(refused))
