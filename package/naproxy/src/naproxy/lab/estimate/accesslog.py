"""Read web servers' access logs as a stream; `logformat` detects their format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Final

from naproxy.lab.estimate import logfile, logformat
from naproxy.lab.estimate.logfile import Damaged
from naproxy.lab.estimate.logline import LINE_MAX, Entry, Format, Malformed, Parse, parse

__all__ = ["LINE_MAX", "Entry", "Example", "Log", "Malformed", "Options", "parse"]

WRONG_YEAR: Final = "the year cannot be right"
NOT_A_LOG: Final = "no line of the file is an access log's"

_EXAMPLES: Final = 5
_EXAMPLE_LEN: Final = 120
_YEAR_S: Final = 366 * 86400.0
_MANY: Final = 20
"""So many lines in another year cannot be a mistake,"""
_TOGETHER: Final = 5
"""if no more than these lie between one and the next."""
_CHANGE: Final = 100
"""So many lines in a row that cannot be read may have another format."""
_FEW: Final = 20
"""With fewer entries than these in the sample, a larger one is taken."""
_SAMPLES: Final = (logformat.SAMPLE, 2 * logformat.SAMPLE, 7 * logformat.SAMPLE)
_SAMPLE_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class Options:
    """The user's statements about the logs."""

    zone_s: int = 0
    """How far the office's clocks are ahead of UTC: of times that do not say."""
    parse: Parse | None = None
    """How to read a line, for a format that was described."""
    described: str = ""
    """The description."""


@dataclass(frozen=True, slots=True)
class Example:
    """A malformed line, for the person who owns the log."""

    file: str
    line: int  # 1 is the first
    why: str
    text: str  # cut


@dataclass
class Log:
    """The entries of one or several files ("-" is standard input), in the files' order.

    Iterating reads the files once more each time and starts the counts again. Servers write
    a line when the answer is sent, so times may step back a little from one entry to the next.
    """

    files: Sequence[str | Path]
    options: Options = field(default_factory=Options)
    lines: int = 0  # up to date after each file
    read_bytes: int = 0  # of the files, compressed as they are
    malformed: Counter[str] = field(default_factory=Counter)  # reason -> lines
    examples: list[Example] = field(default_factory=list)
    wrong_years: list[Example] = field(default_factory=list)  # the first few of those left out
    formats: list[Format] = field(default_factory=list)  # of the files, each once
    damaged: list[str] = field(default_factory=list)  # why a file could not be read to its end
    unread: list[str] = field(default_factory=list)  # files of which no line could be read

    def __iter__(self) -> Iterator[Entry]:
        """Stream the entries; OSError if a file cannot be read."""
        self.lines = self.read_bytes = 0
        self.malformed.clear()
        for found in (self.examples, self.wrong_years, self.formats, self.damaged, self.unread):
            found.clear()
        for name in self.files:
            yield from _File(self, str(name)).entries()

    def count(self, read: int) -> None:
        """Count bytes of a file."""
        self.read_bytes += read

    def skip(self, name: str, number: int, why: str, text: str) -> None:
        """Count an unreadable line."""
        self.malformed[why] += 1
        if len(self.examples) < _EXAMPLES:
            self.examples.append(Example(name, number, why, text[:_EXAMPLE_LEN]))

    def leave_out(self, name: str, number: int, text: str) -> None:
        """Count an entry whose time cannot be right."""
        self.skip(name, number, WRONG_YEAR, text)
        if len(self.wrong_years) < _EXAMPLES:
            self.wrong_years.append(Example(name, number, WRONG_YEAR, text[:_EXAMPLE_LEN]))

    def damage(self, name: str, number: int, why: str) -> None:
        """Note that a file cannot be read on from a line."""
        self.damaged.append(why)
        self.skip(name, number, why, "")

    def reads(self, found: Format) -> None:
        """Note the format of a file."""
        if all((each.name, each.client) != (found.name, found.client) for each in self.formats):
            self.formats.append(found)


class _File:
    """One file of a log while it is read."""

    def __init__(self, log: Log, name: str) -> None:
        self._log = log
        self._name = name
        self._damage = ""
        self._odd: list[tuple[int, str, Entry]] = []  # in another year than those before
        self._failed: list[tuple[int, str, str]] = []  # one after another, and why
        self._looked = False

    def entries(self) -> Iterator[Entry]:
        """Yield the entries."""
        log, name = self._log, self._name
        lines = self._lines()
        found, head, whole = self._format(lines)
        if found is None:
            self._refuse(head, whole=whole)
            return
        log.reads(found)
        parse_line, last_s = found.parse, found.first_s
        low_s, high_s = last_s - _YEAR_S, last_s + _YEAR_S
        number = comments = 0
        try:
            for line in chain(head, lines):
                number += 1
                try:
                    entry = parse_line(line)
                except Malformed as error:
                    if line[:1] == "#":
                        comments += 1
                    elif changed := self._changed(number, line, str(error)):
                        # The lines that failed are read once more, in the format they have.
                        log.reads(changed)
                        parse_line = changed.parse
                        for entry in self._failed_entries(parse_line):
                            last_s = entry.t_s
                            low_s, high_s = last_s - _YEAR_S, last_s + _YEAR_S
                            yield entry
                    continue
                t_s = entry[0]
                if low_s < t_s < high_s:
                    last_s = t_s
                    yield entry
                elif abs(t_s - last_s) < _YEAR_S or self._is_another_year(number, line, entry):
                    last_s = t_s
                    low_s, high_s = t_s - _YEAR_S, t_s + _YEAR_S
                    yield from (each for _, _, each in self._odd)
                    self._odd.clear()
                    yield entry
            self._forget_odd()
            self._forget_failed()
            if self._damage:
                log.damage(name, number + 1, self._damage)
        finally:
            log.lines += number - comments

    def _changed(self, number: int, line: str, why: str) -> Format | None:
        """Take a line that cannot be read; return its format if many after one another have it."""
        failed = self._failed
        if failed and number - failed[-1][0] > 1:
            self._forget_failed()
            self._looked = False
        if self._looked:
            self._log.skip(self._name, number, why, line)
            return None
        failed.append((number, line, why))
        if len(failed) < _CHANGE:
            return None
        self._looked = True  # once for lines in a row
        found = logformat.detect([text for _, text, _ in failed], self._log.options.zone_s)
        if self._log.options.parse is None and found and found.entries * 2 > len(failed):
            return found
        self._forget_failed()
        return None

    def _failed_entries(self, parse_line: Parse) -> Iterator[Entry]:
        for number, line, _ in self._failed:
            try:
                yield parse_line(line)
            except Malformed as error:
                self._log.skip(self._name, number, str(error), line)
        self._failed.clear()

    def _forget_failed(self) -> None:
        for number, line, why in self._failed:
            self._log.skip(self._name, number, why, line)
        self._failed.clear()

    def _lines(self) -> Iterator[str]:
        """Yield the lines that can be read."""
        try:
            yield from logfile.lines(self._name, self._log.count)
        except Damaged as error:
            self._damage = str(error)

    def _format(self, lines: Iterator[str]) -> tuple[Format | None, list[str], bool]:
        """Return the format, the lines that were read for it, and whether these are all."""
        options = self._log.options
        head: list[str] = []
        read = 0
        for size in _SAMPLES:
            before = len(head)
            for line in lines:
                head.append(line)
                read += len(line)
                if len(head) == before + size or read > _SAMPLE_BYTES:
                    break
            whole = len(head) < before + size and read <= _SAMPLE_BYTES
            if options.parse:
                return logformat.named(options.described, options.parse, head), head, whole
            found = logformat.detect(head, options.zone_s)
            if whole or read > _SAMPLE_BYTES or (found and found.entries >= _FEW):
                break
        return found, head, whole

    def _refuse(self, head: list[str], *, whole: bool) -> None:
        """Say of lines in no known format what is wrong with them."""
        log, number = self._log, 0
        for number, line in enumerate(head, 1):
            try:
                parse(line)
            except Malformed as error:
                log.skip(self._name, number, str(error), line)
        log.lines += len(head)
        if any(line.strip(" \r\0") and line[:1] != "#" for line in head):
            log.unread.append(self._name)
        if damage := self._damage or ("" if whole else NOT_A_LOG):
            log.damage(self._name, number + 1, damage)

    def _is_another_year(self, number: int, line: str, entry: Entry) -> bool:
        """Take an entry of another year; is it one more than a mistake makes?"""
        odd = self._odd
        if odd and (abs(odd[-1][2].t_s - entry.t_s) > _YEAR_S or number - odd[-1][0] > _TOGETHER):
            self._forget_odd()
        if len(odd) == _MANY:
            return True
        odd.append((number, line, entry))
        return False

    def _forget_odd(self) -> None:
        for number, line, _ in self._odd:
            self._log.leave_out(self._name, number, line)
        self._odd.clear()
