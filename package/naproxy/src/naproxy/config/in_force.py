"""The configuration in force, and the file it comes from."""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from naproxy.config import document, edit, kept, paths, places
from naproxy.config.document import Config, Found
from naproxy.config.elsewhere import elsewhere
from naproxy.config.installation import argument
from naproxy.config.worked import Chosen, Refused, Worked
from naproxy.core import files
from naproxy.core.reason import Reason
from naproxy.core.schema import ConfigError, Problem, plain, secrets

_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Checked:
    """A configuration that a request brought and `InForce.checked` found good."""

    config: Config
    text: bytes


class InForce:
    """Holds it, and has another put into force."""

    def __init__(self, file: Path, chosen: Chosen, take: Callable[[Config], None]) -> None:
        """`chosen` is what we start with; `take` lives by a new configuration."""
        self.file = file
        self.refused: Refused | None = chosen.refused
        self._take = take
        self._config = chosen.found.config
        self._arguments = chosen.found.arguments
        self._text = chosen.text
        self._worked = Worked(file)
        self.coming: set[str] = set()  # paths of secrets that the next configuration names
        self.version = edit.version(chosen.text)

    def current(self) -> Config:
        """Return the configuration in force."""
        return self._config

    def told(self) -> dict[str, Any]:
        """Return the configuration in force, secrets left out but named, with `version`.

        `held`: the files with secrets that it names, and since when each is as it is.

        `refused`: it is not the file's, which cannot be used.
        """
        found: dict[str, Any] = plain(self._config)
        named = list(secrets(self._config))
        refused = self.refused is not None
        held = kept.told(self._config, self.secrets_folder)
        told = {"version": self.version, "secrets": named, "held": held, "refused": refused}
        return {**found, **told}

    @property
    def secrets_folder(self) -> Path:
        """Return where secrets are kept that requests bring."""
        return self.file.with_name(kept.FOLDER)

    def sweep(self) -> None:
        """Remove secrets that were kept and that nothing names any more; a fault is said."""
        try:
            kept.sweep(self.file, self.coming)
        except OSError as error:
            _LOG.warning("%s: not tidied: %s", self.secrets_folder, error.strerror)

    def text(self) -> bytes:
        """Return the file as it is now, nothing if there is none yet; OSError.

        Nothing, too, of one that is refused because it cannot be read.
        """
        try:
            return document.text(self.file)
        except OSError as error:
            if self.refused or isinstance(error, FileNotFoundError):
                return b""
            raise

    def to_edit(self) -> bytes:
        """Return the text that changes of single keys are for: that of the settings in force."""
        return self.refused.text if self.refused else self.text()

    def begin(self) -> None:
        """Count a start with the settings in force."""
        if self.refused is None:
            self._worked.begin(self._text)

    def proved(self) -> None:
        """Keep the settings in force for a start that cannot use those in the file."""
        if self.refused is None:
            self._worked.end(self._text)
            self.sweep()

    def secret_names(self) -> frozenset[str]:
        """Return the names of the secret keys that are given."""
        return frozenset(path.rpartition(".")[2] for path in secrets(self._config))

    def checked(self, text: bytes, changes: Collection[edit.Change] | None = None) -> Checked:
        """Check what a request brings, of which only `changes` are its own words; ConfigError."""
        found = document.look(text)
        self._refuse_arguments(found.arguments)
        new = found.config
        problems = list(paths.strange(new, self._config, self.file.parent))
        known = {server.address for server in self._config.server}
        # One on the box itself is for trials, as in the demonstration.
        come = [
            server
            for server in new.server
            if server.address not in known and not ipaddress.ip_address(server.address).is_loopback
        ]
        problems += places.misplaced(come, places.own_networks() if come else ())
        if changes is not None:
            problems += elsewhere(new, self._config, changes, self.coming)
        if problems:
            raise ConfigError(problems)
        return Checked(new, text)

    def put(self, new: Checked) -> None:
        """Write `new` to the file and put it into force; OSError, and nothing changes."""
        if self.refused:
            self._set_aside()
        document.replace(self.file, new.text)
        self._use(new.config, new.text)

    def reload(self) -> None:
        """Use the file as it is now; ConfigError or OSError, and nothing changes."""
        text = self.text()
        found = document.look(text)
        self._use(found.config, text)
        self._arguments = found.arguments
        warn(self.file, found)

    def reload_quietly(self) -> None:
        """Do the same; what is wrong is said."""
        try:
            self.reload()
        except (ConfigError, OSError) as error:
            complain(f"{self.file}: not used, the configuration in force stays", error)
            return
        _LOG.info("%s: in force now", self.file)

    def _use(self, new: Config, text: bytes) -> None:
        self._worked.begin(text)
        self._take(new)
        self.refused = None
        self._config = new
        self._text = text
        self.version = edit.version(text)

    def _set_aside(self) -> None:
        """Keep the file that is not used: somebody may have written much into it by hand."""
        aside = self.file.with_name(f"{self.file.name}.refused")
        try:
            files.write(aside, self.text(), 0o600)
        except OSError as error:
            _LOG.warning("%s: not kept: %s", aside, error.strerror)

    def _refuse_arguments(self, given: dict[str, Any]) -> None:
        """Refuse a text that says other than the file how we are installed."""
        problems = [
            Problem(f"box.{key}", Reason("config.only_argument", name=argument(key)))
            for key in sorted({*given, *self._arguments})
            if given.get(key) != self._arguments.get(key)
        ]
        if problems:
            raise ConfigError(problems)


def complain(of: str, error: ConfigError | OSError) -> None:
    """Say what is wrong with a configuration, a line for each problem."""
    _LOG.error("%s:", of)
    for problem in error.problems if isinstance(error, ConfigError) else (error,):
        _LOG.error("%s", problem)


def warn(file: Path, found: Found) -> None:
    """Say which keys of a file are old or unwise."""
    for warning in found.warnings:
        _LOG.warning("%s: %s", file, warning)
