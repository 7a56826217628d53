#!/usr/bin/env python3
"""The boards' configurations, from fragments; and what kconfig made of them.

    defconfig.py boards CONFIGS                 the boards' names
    defconfig.py merge CONFIGS BOARD            the whole defconfig of a board
    defconfig.py lost REQUESTED... -- RESULT    fail if RESULT lacks what was asked for

A file BOARD_defconfig has a line `# from: NAME...` that names fragments of the folder
fragments/. A symbol is set in one place only; `@BOARD@` in a value is the board's name.
kconfig drops a symbol in silence when what it depends on is missing: `lost` says so.
"""

import re
import sys
from pathlib import Path

_SET = re.compile(r"(?:# )?((?:BR2|CONFIG)_\w+)(?:=(.+)| is not set)")
_FROM = "# from:"


class ConfigError(ValueError):
    """What is wrong in a fragment, and where."""


def settings(text: str, name: str) -> dict[str, str]:
    """Give symbol to value, `n` where it is not set.

    Raises ConfigError for a line that is neither a setting nor a comment, and for a symbol
    that is set twice.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        match = _SET.fullmatch(line.strip())
        negative = line.startswith("# ")
        if match is None or negative != line.endswith(" is not set"):
            if line.strip() and not line.startswith("#"):
                raise ConfigError(f"{name}:{number}: not a setting: {line}")
            continue
        symbol, value = match[1], match[2] or "n"
        if symbol in found:
            raise ConfigError(f"{name}:{number}: {symbol} is set twice")
        found[symbol] = value
    return found


def boards(configs: Path) -> list[str]:
    """Give the names of all boards."""
    return sorted(f.name.removesuffix("_defconfig") for f in configs.glob("*_defconfig"))


def parts(configs: Path, board: str) -> list[Path]:
    """Give the files a board's configuration is made of, its own last."""
    own = configs / f"{board}_defconfig"
    if not own.is_file():
        raise ConfigError(f"no board {board!r}: there are {', '.join(boards(configs))}")
    lines = [line for line in own.read_text().splitlines() if line.startswith(_FROM)]
    if len(lines) != 1:
        raise ConfigError(f"{own.name}: wants one line '{_FROM} NAME...', has {len(lines)}")
    fragments = [
        configs / "fragments" / f"{name}.fragment" for name in lines[0][len(_FROM) :].split()
    ]
    for fragment in fragments:
        if not fragment.is_file():
            raise ConfigError(f"{own.name}: no fragment {fragment.name}")
    return [*fragments, own]


def merge(configs: Path, board: str) -> str:
    """Give the text of a board's whole defconfig."""
    where: dict[str, str] = {}
    texts = []
    for part in parts(configs, board):
        text = part.read_text()
        for symbol in settings(text, part.name):
            if symbol in where:
                raise ConfigError(f"{part.name}: {symbol} is set in {where[symbol]} already")
            where[symbol] = part.name
        texts.append(text.rstrip("\n"))
    return "\n\n".join(texts).replace("@BOARD@", board) + "\n"


def lost(requested: dict[str, str], result: dict[str, str]) -> list[str]:
    """Give a line for each symbol that the result does not have as requested."""
    return [
        f"{symbol}: asked for {value}, got {result.get(symbol, 'n')}"
        for symbol, value in requested.items()
        if result.get(symbol, "n") != value
    ]


def _lost(arguments: list[str]) -> int:
    at = arguments.index("--")
    requested: dict[str, str] = {}
    for name in arguments[:at]:
        requested |= settings(Path(name).read_text(), name)
    if not requested:
        raise ConfigError("nothing is requested")
    (name,) = arguments[at + 1 :]
    lines = lost(requested, settings(Path(name).read_text(), name))
    for line in lines:
        print(f"{name}: {line}", file=sys.stderr)
    return 1 if lines else 0


def main(arguments: list[str]) -> int:
    """Do what the command line says."""
    try:
        match arguments:
            case ["boards", configs]:
                print("\n".join(boards(Path(configs))))
            case ["merge", configs, board]:
                print(merge(Path(configs), board), end="")
            case ["lost", _, *_, "--", _]:
                return _lost(arguments[1:])
            case _:
                print(__doc__, file=sys.stderr)
                return 2
    except (ConfigError, OSError) as error:
        print(f"defconfig.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
