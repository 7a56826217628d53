"""Compile the texts with the package; all else is in pyproject.toml."""

from pathlib import Path

from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithTexts(build_py):
    """Puts a compiled catalogue beside each source."""

    def run(self) -> None:
        """Compile, then build as always."""
        for source in Path("src").glob("**/*.po"):
            with source.open("rb") as po, source.with_suffix(".mo").open("wb") as mo:
                write_mo(mo, read_po(po))
        super().run()


setup(cmdclass={"build_py": BuildWithTexts})
