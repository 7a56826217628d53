"""An experiment as its TOML file declares it: factors, levels, workload and checks. Pure.

A cell is one combination of levels. `{factor}` in the command stands for the level's name,
`{factor.word}` for one of its words, `{name}` for a variable. An argument that consists of one
placeholder becomes as many arguments as its list has items.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

from naproxy.api.command import CommandError

MOST_BYTES: Final = 1 << 18
MOST_CELLS: Final = 1000
LEAST_REPEATS: Final = 3

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,31}")
_PLACEHOLDER: Final = re.compile(r"\{([a-z][a-z0-9_]*)(?:\.([a-z][a-z0-9_]*))?\}")

Word = str | float | Sequence[str]
Levels = Mapping[str, str | float]
"""A cell: the name of one level of each factor."""


@dataclass(frozen=True, slots=True)
class Level:
    """A level of a factor: its name, which is a number if the factor is one, and its words."""

    name: str | float
    words: Mapping[str, Word]


@dataclass(frozen=True, slots=True)
class Factor:
    """One factor and its levels."""

    name: str
    levels: Sequence[Level]

    @property
    def numeric(self) -> bool:
        """Whether a line can be fitted over its levels."""
        return all(isinstance(level.name, float) for level in self.levels)


@dataclass(frozen=True, slots=True)
class Check:
    """A condition of a valid run: the pattern's group is a number between two bounds."""

    pattern: re.Pattern[str]
    least: float
    most: float

    def fault(self, said: str) -> str | None:
        """Return the reason why a run's output is not valid."""
        try:
            value = number(self.pattern, said)
        except ValueError as error:
            return str(error)
        if self.least <= value <= self.most:
            return None
        bounds = f"{self.least:g}"
        if self.most != self.least:
            bounds += f" to {self.most:g}"
        return f"{self.pattern.pattern!r} is {value:g}, not {bounds}"


@dataclass(frozen=True, slots=True)
class Host:
    """A Linux machine whose processor time and bytes are counted; over ssh, or this one."""

    name: str
    ssh: str | None


@dataclass(frozen=True, slots=True)
class Experiment:
    """The whole declaration."""

    name: str
    repeats: int
    warm_up: int
    settle_s: float
    baseline_s: float
    limit_s: float
    seed: int
    factors: Sequence[Factor]
    cells: Sequence[Levels]
    command: Sequence[str]
    before: Sequence[str]
    variables: Mapping[str, Word]
    unit: str
    units_from: re.Pattern[str] | None
    metrics: Mapping[str, re.Pattern[str]]
    checks: Sequence[Check]
    hosts: Sequence[Host]
    digest: str
    """Hash of the declaration without `repeats`: runs of another one are not continued."""

    def words(self, arguments: Sequence[str], cell: Levels) -> list[str]:
        """Return a command's arguments for a cell."""
        return [word for argument in arguments for word in self._expand(argument, cell)]

    def _expand(self, argument: str, cell: Levels) -> list[str]:
        alone = _PLACEHOLDER.fullmatch(argument)
        if alone:
            return self._words(alone, cell)
        return [_PLACEHOLDER.sub(lambda found: " ".join(self._words(found, cell)), argument)]

    def _words(self, found: re.Match[str], cell: Levels) -> list[str]:
        name, word = found.groups()
        if word is None:
            return _listed(cell[name] if name in cell else self.variables[name])
        factor = next(factor for factor in self.factors if factor.name == name)
        value = next(level.words[word] for level in factor.levels if level.name == cell[name])
        # A level's words may name variables, and nothing else.
        return [part for item in _listed(value) for part in self._expand_variables(item)]

    def _expand_variables(self, argument: str) -> list[str]:
        alone = _PLACEHOLDER.fullmatch(argument)
        if alone:
            return _listed(self.variables[alone[1]])
        return [
            _PLACEHOLDER.sub(lambda found: " ".join(_listed(self.variables[found[1]])), argument)
        ]


def _listed(value: Word) -> list[str]:
    return [_text(value)] if isinstance(value, str | float) else list(value)


def number(pattern: re.Pattern[str], said: str) -> float:
    """Return the number that a pattern's first group finds; ValueError in words without one."""
    found = pattern.search(said)
    if not found:
        raise ValueError(f"{pattern.pattern!r} is not in the command's output")
    try:
        value = float(found[1])
    except (TypeError, ValueError):
        raise ValueError(f"{pattern.pattern!r} finds {found[0][:60]!r}, not a number") from None
    if not abs(value) < 1e18:
        raise ValueError(f"{pattern.pattern!r} finds {value!r}, which is too large")
    return value


def label(cell: Levels) -> str:
    """Return a cell in words for a table."""
    return ", ".join(f"{name}={_text(level)}" for name, level in cell.items())


def _text(value: Word) -> str:
    if isinstance(value, float):
        return f"{value:.15g}"
    return value if isinstance(value, str) else " ".join(value)


# Reading


def read(
    raw: bytes, variables: Mapping[str, str] | None = None, *, quick: bool = False
) -> Experiment:
    """Return a declared experiment; CommandError names the fault and its place.

    `variables` replace those of the file. `quick` applies the file's table `quick`: other
    settings, and fewer levels.
    """
    if len(raw) > MOST_BYTES:
        raise CommandError(f"the declaration is larger than {MOST_BYTES} bytes")
    try:
        told = tomllib.loads(raw.decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CommandError(f"not valid TOML: {error}") from None
    told = _shortened(told, apply=quick)
    table = _Table(told, "")
    factors = [_factor(part) for part in table.tables("factor")]
    names = [factor.name for factor in factors]
    if len(set(names)) != len(names):
        raise CommandError("two factors have the same name", "factor")
    workload = table.table("workload")
    hosts = [Host(part.name("name"), part.text("ssh", None)) for part in table.tables("host")]
    known: dict[str, Word] = dict(table.table("variables", {}).words())
    for name, value in (variables or {}).items():
        if name not in known:
            raise CommandError(f"there is no variable {name}; the file has: {', '.join(known)}")
        known[name] = value
    cells = _cells(factors, [part.anything() for part in table.tables("skip", empty=True)])
    units = workload.pattern("units_from")
    experiment = Experiment(
        name=table.name("name"),
        repeats=table.whole("repeats", 10, LEAST_REPEATS, 10000),
        warm_up=table.whole("warm_up", 1, 0, 100),
        settle_s=table.seconds("settle_s", 10.0),
        baseline_s=table.seconds("baseline_s", 10.0),
        limit_s=table.seconds("limit_s", 3600.0),
        seed=table.whole("seed", 1, 0, 2**31),
        factors=factors,
        cells=cells,
        command=workload.list("command"),
        before=workload.list("before", ()),
        variables=known,
        unit=workload.text("unit", "unit") or "unit",
        units_from=units,
        metrics=workload.patterns("metric"),
        checks=[_check(part) for part in workload.tables("check", empty=True)],
        hosts=hosts,
        digest=_digest(told, known),
    )
    for part in (workload, table):
        part.nothing_else()
    _placeholders(experiment)
    return experiment


def _shortened(told: Mapping[str, Any], *, apply: bool) -> dict[str, Any]:
    """Return the declaration without its table `quick`, or with it applied."""
    rest = {name: value for name, value in told.items() if name != "quick"}
    if "quick" not in told:
        if apply:
            raise CommandError("is missing", "quick")
        return rest
    part = _Table({"quick": told["quick"]}, "").table("quick")
    kept = part.table("levels", {}).anything()
    settings = dict(part.anything())
    for name in settings:
        if name not in ("repeats", "warm_up", "settle_s", "baseline_s"):
            raise CommandError("is not a known key", f"quick.{name}")
    factors = rest.get("factor")
    names = (
        [f.get("name") for f in factors if isinstance(f, dict)] if isinstance(factors, list) else []
    )
    for name in kept:
        if name not in names:
            raise CommandError("is not a factor", f"quick.levels.{name}")
    if not apply:
        return rest
    shorter = [_fewer(factor, kept) for factor in rest["factor"]]
    return {**rest, **settings, "factor": shorter}


def _fewer(factor: Any, kept: Mapping[str, Any]) -> Any:
    if not isinstance(factor, dict) or factor.get("name") not in kept:
        return factor
    wanted = kept[factor["name"]]
    levels = [
        level
        for level in factor.get("levels", [])
        if (level.get("name") if isinstance(level, dict) else level) in wanted
    ]
    return {**factor, "levels": levels}


def _digest(told: Mapping[str, Any], variables: Mapping[str, Word]) -> str:
    # More repeats continue an experiment; anything else makes it another one.
    decisive = {name: value for name, value in told.items() if name != "repeats"}
    decisive["variables"] = {name: _text(value) for name, value in variables.items()}
    written = json.dumps(decisive, sort_keys=True, default=str)
    return hashlib.sha256(written.encode()).hexdigest()[:16]


def _factor(part: _Table) -> Factor:
    name = part.name("name")
    levels = []
    for place, told in enumerate(part.sequence("levels")):
        where = f"{part.where}levels[{place}]"
        if isinstance(told, Mapping):
            inner = _Table(dict(told), f"{where}.")
            levels.append(Level(_level(inner.take("name"), where), dict(inner.words())))
        else:
            levels.append(Level(_level(told, where), {}))
    part.nothing_else()
    named = [level.name for level in levels]
    if not named or len(set(map(_text, named))) != len(named):
        raise CommandError("must be different levels, at least one", f"{part.where}levels")
    return Factor(name, levels)


def _level(told: object, where: str) -> str | float:
    if isinstance(told, str) and told.isprintable() and 0 < len(told) <= 60:
        return told
    if isinstance(told, int | float) and not isinstance(told, bool) and abs(told) < 1e15:
        return float(told)
    raise CommandError("must be a number or a short text", where)


def _check(part: _Table) -> Check:
    pattern = part.pattern("pattern")
    if pattern is None:
        raise CommandError("is missing", f"{part.where}pattern")
    least = part.number("least", None)
    most = part.number("most", None)
    equals = part.number("equals", None)
    part.nothing_else()
    if (equals is None) == (least is None and most is None):
        raise CommandError("needs equals, or least and most", part.where.rstrip("."))
    if equals is not None:
        return Check(pattern, equals, equals)
    return Check(
        pattern,
        least if least is not None else float("-inf"),
        most if most is not None else float("inf"),
    )


def _cells(factors: Sequence[Factor], skipped: Sequence[Mapping[str, Any]]) -> list[Levels]:
    names = [factor.name for factor in factors]
    for rule in skipped:
        for name in rule:
            if name not in names:
                raise CommandError(f"there is no factor {name}", "skip")
    count = 1
    for factor in factors:
        count *= len(factor.levels)
    if count > MOST_CELLS:
        raise CommandError(f"{count} combinations are too many: at most {MOST_CELLS}", "factor")
    combinations = product(*([level.name for level in factor.levels] for factor in factors))
    cells: list[Levels] = [dict(zip(names, levels, strict=True)) for levels in combinations]
    left = [cell for cell in cells if not any(_skips(rule, cell) for rule in skipped)]
    if not left:
        raise CommandError("no combination of levels is left", "skip")
    return left


def _skips(rule: Mapping[str, Any], cell: Levels) -> bool:
    return bool(rule) and all(
        cell[name] in (wanted if isinstance(wanted, list) else [wanted])
        for name, wanted in rule.items()
    )


def _placeholders(experiment: Experiment) -> None:
    """Refuse an unknown placeholder now and not after hours."""
    for cell in experiment.cells:
        try:
            experiment.words(experiment.command, cell)
            experiment.words(experiment.before, cell)
            experiment.words([host.ssh or "" for host in experiment.hosts], {})
        except (KeyError, StopIteration) as error:
            raise CommandError(
                f"a placeholder stands for nothing with {label(cell)}: {error}", "workload.command"
            ) from None


class _Table:
    """A table of the file. Each key is taken once; the rest are unknown keys."""

    def __init__(self, told: Mapping[str, Any], where: str) -> None:
        self._told = dict(told)
        self.where = where

    def take(self, key: str, default: Any = ...) -> Any:
        if key in self._told:
            return self._told.pop(key)
        if default is ...:
            raise CommandError("is missing", self.where + key)
        return default

    def _wrong(self, key: str, wanted: str) -> CommandError:
        return CommandError(f"must be {wanted}", self.where + key)

    def name(self, key: str) -> str:
        value = self.take(key)
        if not isinstance(value, str) or not _NAME.fullmatch(value):
            raise self._wrong(key, "a name of small letters, digits and _")
        return value

    def text(self, key: str, default: str | None) -> str | None:
        value = self.take(key, default)
        if value is not None and (not isinstance(value, str) or not value or "\0" in value):
            raise self._wrong(key, "a text")
        return value

    def whole(self, key: str, default: int, least: int, most: int) -> int:
        value = self.take(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self._wrong(key, f"a whole number from {least} to {most}")
        return value

    def number(self, key: str, default: float | None) -> float | None:
        value = self.take(key, default)
        if value is None:
            return None
        if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) < 1e18:
            raise self._wrong(key, "a number")
        return float(value)

    def seconds(self, key: str, default: float) -> float:
        value = self.number(key, default)
        if value is None or not 0 <= value <= 86400:
            raise self._wrong(key, "seconds, from 0 to 86400")
        return value

    def sequence(self, key: str) -> Sequence[Any]:
        value = self.take(key)
        if not isinstance(value, list):
            raise self._wrong(key, "a list")
        return value

    def list(self, key: str, default: Any = ...) -> Sequence[str]:
        value = self.take(key, default)
        if not isinstance(value, list | tuple) or not all(
            isinstance(word, str) and "\0" not in word for word in value
        ):
            raise self._wrong(key, "a list of texts, one for each argument")
        if default is ... and not value:
            raise self._wrong(key, "a list of texts, one for each argument")
        return list(value)

    def table(self, key: str, default: Any = ...) -> _Table:
        value = self.take(key, default)
        if not isinstance(value, dict):
            raise self._wrong(key, "a table")
        return _Table(value, f"{self.where}{key}.")

    def tables(self, key: str, *, empty: bool = False) -> Sequence[_Table]:
        value = self.take(key, [] if empty or key == "host" else ...)
        if not isinstance(value, list) or not all(isinstance(part, dict) for part in value):
            raise self._wrong(key, f"tables [[{self.where}{key}]]")
        return [_Table(part, f"{self.where}{key}[{n}].") for n, part in enumerate(value)]

    def pattern(self, key: str) -> re.Pattern[str] | None:
        value = self.text(key, None)
        return None if value is None else self._compiled(key, value)

    def patterns(self, key: str) -> Mapping[str, re.Pattern[str]]:
        part = self.table(key, {})
        return {name: part._compiled(name, text) for name, text in part.anything().items()}

    def _compiled(self, key: str, value: object) -> re.Pattern[str]:
        try:
            pattern = re.compile(value) if isinstance(value, str) and len(value) < 300 else None
        except re.error as error:
            raise self._wrong(key, f"a regular expression: {error}") from None
        if pattern is None or not pattern.groups:
            raise self._wrong(key, r"a regular expression with a group, such as '(\d+) done'")
        return pattern

    def words(self) -> Iterator[tuple[str, Word]]:
        for key, value in list(self._told.items()):
            if not _NAME.fullmatch(key):
                raise self._wrong(key, "named by small letters, digits and _")
            del self._told[key]
            if isinstance(value, bool):
                raise self._wrong(key, "a text, a number or a list of texts")
            if isinstance(value, int | float):
                yield key, float(value)
            elif isinstance(value, str) or (
                isinstance(value, list) and all(isinstance(word, str) for word in value)
            ):
                yield key, value
            else:
                raise self._wrong(key, "a text, a number or a list of texts")

    def anything(self) -> Mapping[str, Any]:
        told, self._told = self._told, {}
        return told

    def nothing_else(self) -> None:
        if self._told:
            raise CommandError("is not a known key", self.where + next(iter(self._told)))
