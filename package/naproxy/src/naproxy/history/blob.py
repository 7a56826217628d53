"""A block's bytes: columns of numbers, one after the other, compressed behind the form's number.

A history may come from a backup that somebody made up.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Mapping


def columns_of(blob: bytes, forms: Mapping[bytes, str], most: int) -> list[tuple[str, bytes]]:
    """Return the code and the bytes of each column; ValueError if it is not such a blob.

    `forms` has the codes of the columns by the form's number; they have at most `most` bytes.
    """
    codes = forms.get(blob[:1])
    if codes is None:
        raise ValueError(f"a block of a form that is not known: {blob[:1]!r}")
    data = _inflated(blob[1:], most)
    sizes = [array(code).itemsize for code in codes]
    count, rest = divmod(len(data), sum(sizes))
    if rest or not count:
        raise ValueError("a damaged block: its length is wrong")
    ends = [count * sum(sizes[: n + 1]) for n in range(len(sizes))]
    return [(c, data[e - count * s : e]) for c, s, e in zip(codes, sizes, ends, strict=True)]


def _inflated(data: bytes, most: int) -> bytes:
    opened = zlib.decompressobj()
    try:
        made = opened.decompress(data, most + 1)
    except zlib.error as error:
        raise ValueError(f"a damaged block: {error}") from None
    if len(made) > most:
        raise ValueError("a damaged block: it is too long")
    if not opened.eof:
        raise ValueError("a damaged block: it is cut off")
    return made
