"""The lines of a log's file: plain or compressed, in UTF-8, UTF-16 or any 8-bit encoding.

A file is told by its content, not by its name.
"""

from __future__ import annotations

import codecs
import gzip
import importlib
import io
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final, cast

from naproxy.lab.estimate.logline import LINE_MAX

_CHUNK: Final = 1 << 20
MOST_LINE: Final = 64 << 20
"""A file without the end of a line in so many bytes is not a text file."""
MOST_RATIO: Final = 1000
"""Of the size unpacked over the size packed: logs reach a hundred."""
_RATIO_FROM: Final = 64 << 20


class Damaged(Exception):  # noqa: N818 - the file is
    """The file cannot be read on from here; its text says why."""


class UnusableError(OSError):
    """The file cannot be read at all; `strerror` says why and what to do."""

    def __init__(self, name: str, words: str) -> None:
        super().__init__(0, words, name)


def lines(name: str, count: Callable[[int], None]) -> Iterator[str]:
    """Yield lines without their newline, one character a byte; "-" is standard input.

    One over LINE_MAX comes as its beginning, over-long. `count` is told how many bytes more of
    the file were read. Raises Damaged, and OSError if the file cannot be read.
    """
    standard_input = cast(io.BufferedReader, sys.stdin.buffer)
    with nullcontext(standard_input) if name == "-" else Path(name).open("rb") as raw:
        carry, long = "", 0
        end: str | None = None
        for chunk in _chunks(_unpacked(raw, name), raw, name, count):
            text = chunk.decode("latin-1")
            if end is None:
                end = "\r" if "\r" in text and "\n" not in text else "\n"
            found = (carry + text).split(end)
            # Of a line without an end only enough is kept to see that it is too long.
            carry = found.pop()[: LINE_MAX + 1]
            yield from found
            long = 0 if found else long + len(chunk)
            if long > MOST_LINE:
                raise Damaged("no line ends here: the file is not text")
        if carry:
            yield carry


def _chunks(
    stream: io.BufferedIOBase, raw: io.BufferedReader, name: str, count: Callable[[int], None]
) -> Iterator[bytes]:
    """Yield the content in UTF-8, or its bytes unchanged."""
    at = whole = 0
    decode: Callable[[bytes], bytes] | None = None
    first = True
    while chunk := _read(stream):
        if raw.seekable():
            at, before = raw.tell(), at
            count(at - before)
        whole += len(chunk)
        if stream is not raw and _RATIO_FROM < whole > MOST_RATIO * max(at, 1) and raw.seekable():
            raise Damaged(f"the file unpacks to more than {MOST_RATIO} times its size")
        if first:
            _refuse_archive(chunk, name)
            decode, first = _encoding(chunk), False
            chunk = chunk.removeprefix(codecs.BOM_UTF8)
        yield decode(chunk) if decode else chunk


def _read(stream: io.BufferedIOBase) -> bytes:
    try:
        # Not `read`: in a file that is cut off it loses the part that it has unpacked.
        return stream.read1(_CHUNK)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise Damaged("the file is damaged or cut here") from None
    except OSError as error:
        if error.errno:
            raise
        raise Damaged("the file is damaged or cut here") from None  # bz2
    except Exception as error:
        if type(error).__name__ in ("LZMAError", "ZstdError"):
            raise Damaged("the file is damaged or cut here") from None
        raise


def _encoding(begin: bytes) -> Callable[[bytes], bytes] | None:
    """Return what makes UTF-8 of UTF-16, which PowerShell's `>` writes; else None."""
    if begin.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        name = "utf-16"
    else:
        some = begin[:4096]
        even, odd = some[::2].count(0), some[1::2].count(0)
        if max(even, odd) * 2 <= len(some) // 2 or min(even, odd) * 10 > max(even, odd):
            return None
        name = "utf-16-le" if odd > even else "utf-16-be"
    decoder = codecs.getincrementaldecoder(name)("replace")
    return lambda chunk: decoder.decode(chunk).encode("utf-8", "replace")


_ARCHIVES: Final = (
    (0, b"PK\x03\x04", "a zip archive"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive"),
    (0, b"Rar!\x1a", "a RAR archive"),
    (0, b"ElfFile\0", "a log of Windows' Event Viewer"),
    (0, b"SQLite format 3\0", "a database"),
    (0, b"LPKSHHRH", "a binary journal"),
    (257, b"ustar", "a tar archive"),
)


def _refuse_archive(begin: bytes, name: str) -> None:
    for at, magic, words in _ARCHIVES:
        if begin[at : at + len(magic)] == magic:
            raise UnusableError(name, f"this is {words}, not a log: unpack it first")


def _unpacked(raw: io.BufferedReader, name: str) -> io.BufferedIOBase:
    """Return the stream to read from; UnusableError if the box lacks what unpacks it."""
    begin = raw.peek(6)[:6]
    stream: Any = raw
    if begin[:2] == b"\x1f\x8b":
        stream = gzip.GzipFile(fileobj=raw)
    elif begin[:3] == b"BZh":
        stream = _module("bz2", name, "bunzip2").BZ2File(raw)
    elif begin == b"\xfd7zXZ\0":
        stream = _module("lzma", name, "unxz").LZMAFile(raw)
    elif begin[:4] == b"\x28\xb5\x2f\xfd":
        packed = _module("zstandard", name, "unzstd").ZstdDecompressor()
        stream = io.BufferedReader(packed.stream_reader(raw, read_across_frames=True))
    return cast(io.BufferedIOBase, stream)


def _module(module: str, name: str, program: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        words = f"this box cannot unpack it: use {program} first, or install Python's {module}"
        raise UnusableError(name, words) from None
