"""Lines on the wire: ASCII, one a line, each ending in `*` and a CRC-32.

    F BOOT SEQUENCE UPTIME_US COVERED_US READINGS SHUNT BUS ENERGY FLAGS*CRC
    H FORMAT KEY=VALUE ...*CRC
    A TAG WORDS*CRC      acknowledged
    R TAG REASON*CRC     refused
    C TAG WORDS*CRC      a command, from the host

CRC is zlib's and Ethernet's CRC-32 of everything before the `*`, in eight
lower-case hexadecimal digits. Fields are documented in docs/meter.md.
"""

import binascii

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .accumulator import Accumulator

FORMAT = "1"
LONGEST_LINE = 250  # bytes, without the line's end
SEQUENCES = 1 << 32  # the sequence number wraps here, after 2.7 years at 50 a second


class LineError(ValueError):
    """A line that is not one of ours. `kind` names what is wrong with it."""

    def __init__(self, kind: str, words: str) -> None:
        super().__init__(f"{kind}: {words}")
        self.kind = kind


def seal(text: str) -> bytes:
    """`text` as a line with its checksum."""
    return f"{text}*{binascii.crc32(text.encode()):08x}\n".encode()


def unseal(line: bytes) -> str:
    """The text of a line without its end, or LineError: huge, noise, cut, doubled, checksum."""
    if len(line) > LONGEST_LINE:
        raise LineError("huge", f"longer than {LONGEST_LINE} bytes")
    if any(not 32 <= byte < 127 for byte in line):
        raise LineError("noise", "bytes that are not printable ASCII")
    stars = line.count(b"*")
    if stars > 1:
        raise LineError("doubled", "more than one checksum")
    body, _, checksum = line.partition(b"*")
    if stars == 0 or len(checksum) < 8:
        raise LineError("cut", "no whole checksum at the end")
    if checksum != f"{binascii.crc32(body):08x}".encode():
        raise LineError("checksum", "does not match the line")
    return body.decode()


def frame(boot: str, sequence: int, uptime_us: int, sums: "Accumulator", flags: int) -> bytes:
    """The sums as they are now. Any two frames of one boot give all that lies between them."""
    return seal(
        f"F {boot} {sequence} {uptime_us} {sums.covered_us} {sums.readings}"
        f" {sums.shunt} {sums.bus} {sums.energy} {flags:02x}"
    )


class Lines:
    """Bytes as they arrive, cut into lines. Keeps at most one line, however long it is."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> "list[bytes]":
        """The lines that `data` completes, without their ends; empty ones are left out."""
        lines = (self._rest + data).replace(b"\r", b"\n").split(b"\n")
        self._rest = lines.pop()[: LONGEST_LINE + 1]
        return [line for line in lines if line]
