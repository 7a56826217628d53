#!/usr/bin/env python3
"""Write what bash and zsh complete after `naproxy`: run it after a change of commands or options.

The files are in the repository, because a Debian package is built without our pinned shtab.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import shtab
from naproxy.cli import __main__ as cli

FOLDER = Path(__file__).parents[2] / "debian/completions"
FILES = {"bash": FOLDER / "naproxy", "zsh": FOLDER / "_naproxy"}


def text(shell: str) -> str:
    """Return the file for a shell."""
    parser = cli.make_parser(list(dict.fromkeys(cli.COMMANDS.values())))
    for action in _actions(parser):
        if action.type is Path:
            setattr(action, "complete", shtab.FILE)  # noqa: B010 - argparse does not declare it
    made: str = shtab.complete(parser, shell=shell)
    return made.rstrip("\n") + "\n"


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from _actions(below)


if __name__ == "__main__":
    for shell, file in FILES.items():
        file.write_text(text(shell))
