"""Where the secrets are: keys of the configuration that are marked so, and files it names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from naproxy.config import edit as configedit
from naproxy.config.document import Config
from naproxy.config.edit import Change
from naproxy.config.paths import inside
from naproxy.core import bounded
from naproxy.core.files import peek
from naproxy.core.schema import given, secrets
from naproxy.drivers.openssh import SshSettings

_MOST_BYTES: Final = 1 << 16


def without_secrets(text: bytes, loaded: Config) -> bytes:
    """Return a configuration's text without them, and without comments, which may tell."""
    data = bounded.toml(text)
    import tomlkit  # noqa: PLC0415 - in a child process only

    gone = [Change("remove", path) for path in private(loaded)]
    return configedit.edit(tomlkit.dumps(data).encode(), gone)


def private(loaded: Config) -> list[str]:
    """Return the paths of the secrets, then of the values that go and stay with one.

    That is the fleet's server: it is useless without its token, and no other may get the token.
    """
    return [*secrets(loaded), *(["fleet.url"] if loaded.fleet.url else [])]


def files(loaded: Config) -> Iterator[Path]:
    """Yield the files that a loaded configuration names for keys and passwords."""
    for _, field, value, section in given(loaded):
        if field.name.endswith("_file") and isinstance(value, str) and value:
            yield Path(value)
        if field.name == "key_file" and isinstance(section, SshSettings):
            yield Path(section.known_hosts)


def named_files(loaded: Config, folder: Path) -> list[Path]:
    """Return those of them that are there and lie in the configuration's own folder."""
    return sorted({path for path in files(loaded) if path.is_file() and inside(path, folder)})


def values(loaded: Config) -> list[str]:
    """Return the secrets themselves, which no shared file may contain."""
    found = [str(value) for _, field, value, _ in given(loaded) if field.metadata.get("secret")]
    for file in files(loaded):
        if file.name == "known_hosts":
            continue
        try:
            lines = peek(file, _MOST_BYTES)[0].decode(errors="replace").splitlines()
        except OSError:
            continue
        found += [line.strip() for line in lines]
    # Longest first: one that begins another must not leave its rest. Short ones would eat words.
    return sorted({each for each in found if len(each) >= 4}, key=len, reverse=True)
