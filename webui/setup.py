"""Compile the texts with the package; all else is in pyproject.toml."""

from datetime import UTC, datetime
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
                texts = read_po(po)
                # Babel notes when it compiles, and no two builds would be the same.
                texts.creation_date = datetime(1970, 1, 1, tzinfo=UTC)
                write_mo(mo, texts)
        super().run()


setup(cmdclass={"build_py": BuildWithTexts})
