"""Fetches a certificate with its key from the server that has it, by a login for that alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from naproxy.config.document import Certificate, Server
from naproxy.core.processes import words
from naproxy.core.reason import Reason, WrongError, own_words
from naproxy.drivers.openssh import Ssh, SshSettings
from naproxy.edge.x509 import MOST_BYTES, CertificateError, Sent

EVERY_S: Final = 3600.0
"""Between two looks whether it has another, while it is awake: nobody is woken for that."""
_TAKES_S: Final = 30.0
_COMMAND: Final = "naproxy-certificate"
"""The forced command of that login overrides it."""
_BEGINS: Final = b"-----BEGIN "


def login(certificate: Certificate, server: Server) -> SshSettings:
    """Return how the box logs in for a certificate: as to put it to sleep, with another key."""
    assert isinstance(server.sleep, SshSettings), "the configuration has been checked"
    known_hosts = server.sleep.known_hosts
    return replace(server.sleep, key_file=certificate.key_file, known_hosts_file=known_hosts)


async def fetched(certificate: Certificate, server: Server) -> Sent:
    """Return what the server has; CertificateError. It has a key in it: no word of it is shown."""
    ssh = Ssh(login(certificate, server), server.address)
    try:
        done, log = await ssh.fetch(_COMMAND, _TAKES_S, MOST_BYTES + 1)
    except WrongError as error:
        raise CertificateError("https.not_fetched", why=error.reason) from None
    if done.code == 0 and _BEGINS in done.output:
        return Sent(done.output)
    if "Permission denied" in log:
        raise CertificateError("https.no_login", name=server.sleep.user)
    if "Authenticated to" not in log:
        raise CertificateError("https.not_fetched", why=ssh.failure(log))
    said = words(done.complaint)
    why = own_words(said) if said else Reason("https.nothing_given")
    raise CertificateError("https.not_fetched", why=why)
