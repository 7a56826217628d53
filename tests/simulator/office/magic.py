"""Magic packets, as a network card recognises them.

The format is AMD's (white paper 20213, 1995): six bytes 0xFF, then the card's
own address sixteen times, anywhere in a frame that the card would accept, of
any protocol. Some cards add a SecureOn password of 4 or 6 bytes behind it.
"""

import re

SYNC = b"\xff" * 6
HEADER = 14
"""Bytes of an Ethernet header: both addresses and the type."""

_LOOKS_LIKE_ONE = re.compile(rb"\xff{6}(.{6})\1", re.DOTALL)


def address(text: str) -> bytes:
    """Six bytes from aa:bb:cc:dd:ee:ff."""
    octets = bytes.fromhex(text.replace(":", ""))
    if len(octets) != 6:
        raise ValueError(f"not an Ethernet address: {text!r}")
    return octets


def packet(mac: bytes, password: bytes = b"") -> bytes:
    """Return the magic sequence for a card: 102 bytes and the password's."""
    return SYNC + 16 * mac + password


def wakes(frame: bytes, mac: bytes, password: bytes = b"") -> bool:
    """Whether this frame would wake the card."""
    return packet(mac, password) in frame[HEADER:]


def looks_like_one(frame: bytes) -> bool:
    """Whether somebody meant this frame to wake something: sync and a repeated address."""
    return _LOOKS_LIKE_ONE.search(frame, HEADER) is not None
