"""The site that the server serves: made up, and the same bytes every time."""

import os
import random
import struct
import zlib
from pathlib import Path

PAGES = 60
IMAGES = 240
CHANGED_S = 1_704_067_200
"""Last-Modified of every file: 2024-01-01."""

_WORDS = (
    *("office", "server", "energy", "winter", "light", "paper", "desk", "window", "coffee"),
    *("meeting", "report", "garden", "station", "letter", "number", "market", "bridge"),
    *("river", "summer", "travel", "music", "bread", "water", "stone"),
)


def generate(root: Path) -> list[str]:
    """Write the site below `root` and return its paths, as a browser asks for them."""
    dice = random.Random(1)
    files: dict[str, bytes] = {
        "robots.txt": b"User-agent: *\nDisallow: /app/\n",
        "favicon.ico": _png(dice, 16),
        "css/base.css": _rules(dice, 200),
        "css/print.css": _rules(dice, 40),
        "js/menu.js": _script(dice, 120),
        "js/search.js": _script(dice, 400),
    }
    for n in range(IMAGES):
        files[f"images/{n:03}.png"] = _png(dice, dice.choice((16, 32, 64, 128, 256)))
    for n in range(PAGES):
        name = "index.html" if n == 0 else f"pages/{n:03}.html"
        files[name] = _page(dice, n)
    for name, content in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        os.utime(file, (CHANGED_S, CHANGED_S))
    return ["/" if name == "index.html" else f"/{name}" for name in files]


def _text(dice: random.Random, words: int) -> str:
    return " ".join(dice.choices(_WORDS, k=words)).capitalize() + "."


def _page(dice: random.Random, n: int) -> bytes:
    images = "".join(
        f'<img src="/images/{dice.randrange(IMAGES):03}.png" alt="">\n' for _ in range(4)
    )
    links = "".join(
        f'<li><a href="/pages/{dice.randrange(1, PAGES):03}.html">{_text(dice, 3)}</a></li>\n'
        for _ in range(8)
    )
    paragraphs = "".join(f"<p>{_text(dice, dice.randrange(40, 300))}</p>\n" for _ in range(5))
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Page {n}</title>
<link rel="stylesheet" href="/css/base.css">
<link rel="stylesheet" href="/css/print.css" media="print">
<script src="/js/menu.js" defer></script></head>
<body><h1>Page {n}</h1>
{paragraphs}{images}<ul>
{links}</ul></body></html>
""".encode()


def _rules(dice: random.Random, n: int) -> bytes:
    return "".join(
        f".{dice.choice(_WORDS)}-{k} {{ margin: {dice.randrange(9)}px; "
        f"color: #{dice.randrange(0x1000000):06x}; }}\n"
        for k in range(n)
    ).encode()


def _script(dice: random.Random, n: int) -> bytes:
    return "".join(
        f"const {dice.choice(_WORDS)}{k} = {dice.randrange(1000)};\n" for k in range(n)
    ).encode()


def _png(dice: random.Random, side: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    rows = b"".join(b"\0" + dice.randbytes(side) for _ in range(side))
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )
