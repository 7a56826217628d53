"""Changing single keys of the configuration file; comments, order and secrets in it survive.

`edit` is pure: the file's text and the changes are arguments. What it returns is read back
and compared with the same changes made to plain data, so no fault of the library that
writes TOML can change another key unnoticed.
"""

from __future__ import annotations

import hashlib
import math
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from naproxy.schema import ConfigError, Problem, label

MOST_BYTES: Final = 1 << 16
"""A larger file is not edited key by key: that would take too long on a small box."""
MOST_CHANGES: Final = 200
MOST_VALUES: Final = 2000
"""In all changes together: no configuration has so many, and they are written one by one."""
_DEEPEST: Final = 6
_SELECTORS: Final = ("driver", "kind", "name")
_OPS: Final = ("set", "add", "remove")


@dataclass(frozen=True, slots=True)
class _Hand:
    """How to write: `make` turns a value into what belongs into a container."""

    make: Callable[[Any, Any], Any]
    secrets: frozenset[str]


class ChangeError(ValueError):
    """Changes that are not of the right form: words, and where in them."""

    def __init__(self, words: str, where: str) -> None:
        """`where` is as `changes[0].op`."""
        super().__init__(words)
        self.where = where


@dataclass(frozen=True, slots=True)
class Change:
    """One change: `op` is set, add (to a list or an array of tables) or remove."""

    op: str
    where: str
    value: Any = None


def version(text: bytes) -> str:
    """Return what tells this text from any other."""
    return hashlib.sha256(text).hexdigest()[:16]


def read(body: object) -> list[Change]:
    """Read the changes of a request; ChangeError."""
    if not isinstance(body, list):
        raise ChangeError("must be a list of changes", "changes")
    if len(body) > MOST_CHANGES:
        raise ChangeError(f"must be at most {MOST_CHANGES} changes", "changes")
    changes = [_change(item, f"changes[{number}]") for number, item in enumerate(body)]
    if sum(_count(change.value) for change in changes) > MOST_VALUES:
        raise ChangeError(f"are too much: more than {MOST_VALUES} values", "changes")
    return changes


def _count(value: object) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(_count, inner))


def _change(item: object, here: str) -> Change:
    if not isinstance(item, dict):
        raise ChangeError("must be an object with op, where and value", here)
    for key in item:
        if key not in ("op", "where", "value"):
            raise ChangeError("is not known", f"{here}.{key[:100]}")
    op, where = item.get("op"), item.get("where")
    if op not in _OPS:
        raise ChangeError(f"must be one of {', '.join(_OPS)}", f"{here}.op")
    if not isinstance(where, str) or not all(where.split(".")):
        raise ChangeError("must be the path of a key, as server.web.port", f"{here}.where")
    if ("value" in item) == (op == "remove"):
        said = "is not for remove" if op == "remove" else "is missing"
        raise ChangeError(said, f"{here}.value")
    if op != "remove":
        _check(item["value"], f"{here}.value", 0)
    return Change(op, where, item.get("value"))


def _check(value: object, here: str, depth: int) -> None:
    """Refuse what TOML has no words for."""
    if depth > _DEEPEST:
        raise ChangeError("is nested too deeply", here)
    if isinstance(value, dict):
        for key, inner in value.items():
            if not _plain(key) or not key:
                raise ChangeError("has a key that is not plain text", here)
            _check(inner, here, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            _check(inner, here, depth + 1)
    elif isinstance(value, str):
        if not _plain(value):
            raise ChangeError("must not have control characters", here)
    elif value is None:
        raise ChangeError("must not be null; to go back to the default, remove the key", here)
    elif isinstance(value, float) and not math.isfinite(value):
        raise ChangeError("must be a finite number", here)
    elif isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        raise ChangeError("is too large a number", here)


def _plain(text: str) -> bool:
    return all(c >= " " and c != "\x7f" and not "\ud800" <= c <= "\udfff" for c in text)


def edit(text: bytes, changes: list[Change], secrets: frozenset[str] = frozenset()) -> bytes:
    """Return the file's text with the changes made; ConfigError where there is no such place.

    `secrets` are names of keys that stay when their section is replaced without them: who
    edits a section has not been shown them.
    """
    import tomlkit  # noqa: PLC0415 - 70 ms and a megabyte that only whoever edits must pay
    from tomlkit.exceptions import TOMLKitError  # noqa: PLC0415 - the same

    if len(text) > MOST_BYTES:
        words = f"the file is larger than {MOST_BYTES} bytes: edit it by hand"
        raise ConfigError([Problem("", words)])
    try:
        # What is added to a last line without an end would stand on it.
        decoded = text.decode().removesuffix("\n") + "\n"
        data, document = tomllib.loads(decoded), tomlkit.parse(decoded)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, TOMLKitError, RecursionError) as error:
        raise ConfigError([Problem("", f"the file is not TOML: {error}")]) from None
    plainly = _Hand(lambda value, _: value, secrets)
    as_toml = _Hand(_as_toml, secrets)
    for change in changes:
        _apply(data, change, plainly)
    try:
        for change in changes:
            _apply(document, change, as_toml)
        written = tomlkit.dumps(document)
        done = _alike(tomllib.loads(written), data)
    except Exception:  # whatever the library cannot do must not end worse than not done
        done = False
    if not done:
        raise _nowhere(changes[-1].where, "cannot be changed from here: edit the file by hand")
    return written.encode()


def _alike(one: Any, other: Any) -> bool:
    """Compare with types: 1, 1.0 and true are equal in Python and are not here."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_alike(one[k], other[k]) for k in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_alike, one, other))
    return bool(one == other)


def _apply(root: Any, change: Change, hand: _Hand) -> None:
    *path, last = change.where.split(".")
    here, seen, above = root, "", root
    for part in path:
        above = here
        here, seen = _step(here, part, seen, hand, grow=change.op != "remove")
    if isinstance(here, list):
        _change_member(here, last, seen, change, hand)
        if not here:  # of an array of tables nothing is left that could be written
            del above[path[-1]]
    elif not isinstance(here, dict):
        raise _nowhere(seen, "is not a section")
    elif change.op == "set":
        _set(here, last, change.value, hand)
    elif change.op == "add":
        _add(here, last, change, hand)
    elif last not in here:
        raise _nowhere(change.where, "is not in the file: its default holds")
    else:
        del here[last]


def _step(here: Any, part: str, seen: str, hand: _Hand, *, grow: bool) -> tuple[Any, str]:
    """Go one part of a path down; sections that are not there are made if `grow`."""
    where = f"{seen}.{part}" if seen else part
    if isinstance(here, list):
        return here[index_of(here, part, seen)], where
    if not isinstance(here, dict):
        raise _nowhere(seen, "is not a section")
    if part not in here:
        if not grow:
            raise _nowhere(where, "is not in the file: its defaults hold")
        here[part] = hand.make({}, here)
    return here[part], where


def index_of(members: list[Any], part: str, seen: str = "") -> int:
    """Find a member by its id, else by its number from 1: as a problem's `where` names it."""
    names = [label("", member, number)[1:] for number, member in enumerate(members, 1)]
    if part in names:
        return names.index(part)
    if part.isascii() and part.isdigit() and 1 <= int(part[:9]) <= len(members):
        return int(part[:9]) - 1
    raise _nowhere(f"{seen}.{part}", f"there is no {seen} {part}")


def _change_member(members: Any, part: str, seen: str, change: Change, hand: _Hand) -> None:
    index = index_of(members, part, seen)
    if change.op == "add":
        raise _nowhere(change.where, f"is one {seen}; to add one, say {seen}")
    if change.op == "remove":
        del members[index]
    elif isinstance(members[index], dict):
        if not isinstance(change.value, dict):
            raise _nowhere(change.where, "must be a section, that is a table")
        _merge(members[index], change.value, hand)
    else:
        members[index] = hand.make(change.value, members)


def _set(here: Any, key: str, value: Any, hand: _Hand) -> None:
    if isinstance(here.get(key), dict) and isinstance(value, dict):
        _merge(here[key], value, hand)
    elif value == [] and _tables_in(here.get(key)):
        del here[key]
    else:
        here[key] = hand.make(value, here)


def _merge(table: Any, value: dict[str, Any], hand: _Hand) -> None:
    """Make a section have these keys and no others, and the secrets it had.

    Another driver has other keys: then the secrets go with the rest.
    """
    same = all(table.get(key) == value.get(key) for key in _SELECTORS)
    kept = hand.secrets if same else frozenset()
    for key in [k for k in table if k not in value and k not in kept]:
        del table[key]
    for key, inner in value.items():
        if key not in table or not _alike(_unwrapped(table[key]), inner):
            _set(table, key, inner, hand)


def _unwrapped(value: Any) -> Any:
    return value.unwrap() if hasattr(value, "unwrap") else value


def _add(here: Any, key: str, change: Change, hand: _Hand) -> None:
    if key not in here:
        here[key] = hand.make([change.value], here)
    elif isinstance(here[key], list):
        if here[key] and isinstance(here[key][0], dict) != isinstance(change.value, dict):
            raise _nowhere(change.where, "does not fit what is in this list")
        here[key].append(hand.make(change.value, here[key]))
    else:
        raise _nowhere(change.where, "is not a list")


def _nowhere(where: str, words: str) -> ConfigError:
    return ConfigError([Problem(where, words)])


def _as_toml(value: Any, container: Any) -> Any:
    """Make TOML of a value: tables in sections of their own, unless the container is inline."""
    import tomlkit  # noqa: PLC0415 - loaded by now
    from tomlkit.items import AoT, Array, InlineTable  # noqa: PLC0415 - the same

    if isinstance(container, (Array, InlineTable)) or not _tables_in(value):
        return _inline(value) if isinstance(value, (dict, list)) else tomlkit.item(value)
    if isinstance(value, list):
        tables = tomlkit.aot()
        for member in value:
            tables.append(_as_toml(member, tables))
        return tables
    assert not isinstance(container, AoT) or isinstance(value, dict)
    table = tomlkit.table()
    for key, inner in _tables_last(value):
        table.append(key, _as_toml(inner, table))
    return table


def _tables_in(value: Any) -> bool:
    return isinstance(value, dict) or (
        isinstance(value, list) and bool(value) and all(isinstance(v, dict) for v in value)
    )


def _tables_last(value: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield a section's own keys first: behind another section's head they would be that one's."""
    yield from sorted(value.items(), key=lambda item: _tables_in(item[1]))


def _inline(value: Any) -> Any:
    import tomlkit  # noqa: PLC0415 - loaded by now

    if isinstance(value, dict):
        table = tomlkit.inline_table()
        for key, inner in value.items():
            table.append(key, _inline(inner))
        return table
    if isinstance(value, list):
        items = tomlkit.array()
        for inner in value:
            items.append(_inline(inner))
        return items
    return tomlkit.item(value)


def at(data: Any, where: str) -> Any:
    """Return the value at a path of plain data, members as `edit` finds them; KeyError."""
    here = data
    for part in where.split("."):
        here = here[index_of(here, part)] if isinstance(here, list) else here[part]
    return here
