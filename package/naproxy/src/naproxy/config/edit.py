"""Changing single keys of the configuration file; comments, order and secrets in it survive.

Of old keys only those stay that are arguments now: the file has to say them where none is given.

`edit` is pure: the file's text and the changes are arguments. What it returns is read back
and compared with the same changes made to plain data, so no fault of the library that
writes TOML can change another key unnoticed.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from naproxy.config import old
from naproxy.core import bounded
from naproxy.core.reason import Reason, WrongError
from naproxy.core.schema import ConfigError, Problem, label

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


class ChangeError(WrongError):
    """Changes that are not of the right form: why, and where in them."""

    def __init__(self, where: str, code: str, /, **params: Any) -> None:
        """`where` is as `changes[0].op`."""
        super().__init__(code, **params)
        self.where = where


@dataclass(frozen=True, slots=True)
class Change:
    """One change: `op` is set, add (to a list or an array of tables) or remove.

    No request has our own ones: rename, and ways (`old.list_ways`).
    """

    op: str
    where: str
    value: Any = None


def version(text: bytes) -> str:
    """Return what tells this text from any other."""
    return hashlib.sha256(text).hexdigest()[:16]


def read(body: object) -> list[Change]:
    """Read the changes of a request; ChangeError."""
    if not isinstance(body, list):
        raise ChangeError("changes", "config.changes")
    if len(body) > MOST_CHANGES:
        raise ChangeError("changes", "config.many_changes", high=MOST_CHANGES)
    changes = [_change(item, f"changes[{number}]") for number, item in enumerate(body)]
    if sum(_count(change.value) for change in changes) > MOST_VALUES:
        raise ChangeError("changes", "config.many_values", high=MOST_VALUES)
    return changes


def _count(value: object) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(_count, inner))


def _change(item: object, here: str) -> Change:
    if not isinstance(item, dict):
        raise ChangeError(here, "config.change")
    for key in item:
        if key not in ("op", "where", "value"):
            raise ChangeError(f"{here}.{key[:100]}", "config.unknown")
    op, where = item.get("op"), item.get("where")
    if op not in _OPS:
        raise ChangeError(f"{here}.op", "config.one_of", names=tuple(_OPS))
    if not isinstance(where, str) or not all(where.split(".")):
        raise ChangeError(f"{here}.where", "config.key_path")
    if ("value" in item) == (op == "remove"):
        code = "config.not_for_remove" if op == "remove" else "config.no_value"
        raise ChangeError(f"{here}.value", code)
    if op != "remove":
        _check(item["value"], f"{here}.value", 0)
    return Change(op, where, item.get("value"))


def is_secret(value: object) -> bool:
    """Is it a password or a key, in the place of the name of a file that holds it?"""
    return isinstance(value, dict) and len(value) == 1 and isinstance(value.get("secret"), str)


def _check(value: object, here: str, depth: int) -> None:
    """Refuse what TOML has no words for."""
    if depth > _DEEPEST:
        raise ChangeError(here, "config.deep")
    if is_secret(value):
        return  # the file does not get it, and its key knows what it may be
    if isinstance(value, dict):
        for key, inner in value.items():
            if not _plain(key) or not key:
                raise ChangeError(here, "config.strange_key")
            _check(inner, here, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            _check(inner, here, depth + 1)
    elif isinstance(value, str):
        if not _plain(value):
            raise ChangeError(here, "config.control")
    elif value is None:
        raise ChangeError(here, "config.null")
    elif isinstance(value, float) and not math.isfinite(value):
        raise ChangeError(here, "config.finite")
    elif isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        raise ChangeError(here, "config.large_number")


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
        raise _wrong("", "config.too_large_to_edit", bytes=MOST_BYTES)
    try:
        # What is added to a last line without an end would stand on it.
        decoded = text.decode("utf-8-sig").removesuffix("\n") + "\n"
        data, document = bounded.toml(decoded), tomlkit.parse(decoded)
    except (UnicodeDecodeError, TOMLKitError, RecursionError) as error:
        raise _wrong("", "config.not_toml", detail=str(error)) from None
    plainly = _Hand(lambda value, _: value, secrets)
    as_toml = _Hand(_as_toml, secrets)
    made: list[Change] = []
    for change in [*_updates(data), *changes]:
        for each in (*_written_out(data, change), change):
            made.append(each)
            _apply(data, each, plainly)
    stale = [each.warning() for each in _outdated(data)]
    stale += [warning for joined in old.found_joined(data) for warning in joined.warnings()]
    stale += [warning for ways in old.found_ways(data) for warning in ways.warnings()]
    if stale:  # what a change has brought
        raise ConfigError(stale)
    try:
        for change in made:
            _apply(document, change, as_toml)
        written = tomlkit.dumps(document)
        done = _alike(bounded.toml(written), data)
    except Exception:  # whatever the library cannot do must not end worse than not done
        done = False
    if not done:
        raise _wrong(changes[-1].where if changes else "", "config.only_by_hand")
    return written.encode()


def _outdated(data: dict[str, Any]) -> list[old.Old]:
    return [each for each in old.found(data) if not each.is_argument]


def _updates(data: dict[str, Any]) -> Iterator[Change]:
    moved = set()
    for _, where in old.without_limits(data):
        yield Change("set", f"{where}.{old.NO_LIMIT}", 0.0)
    for each in _outdated(data):
        if each.now and each.is_elsewhere:
            section, _, key = each.now.rpartition(".")
            value = each.section[each.key]
            if value and each.now not in moved and key not in data.get(section, {}):
                moved.add(each.now)
                yield Change("set", each.now, value)
        elif each.now and each.now not in each.section:
            yield Change("rename", each.where, each.now)
            continue
        yield Change("remove", each.where)
    for joined in old.found_joined(data):
        yield from (Change("remove", f"{joined.where}.{key}") for key in joined.keys)
        yield Change("set", f"{joined.where}.{joined.now}", joined.value)
    for ways in old.found_ways(data):
        yield Change("ways", f"{ways.where}.wake")


def _written_out(data: dict[str, Any], change: Change) -> Iterator[Change]:
    """Yield the way to wake that a server has without a word, if a change is for its list."""
    parts = change.where.split(".")
    if parts[0] != "server" or parts[2:3] != ["wake"] or not (parts[3:] or change.op == "add"):
        return
    with suppress(ConfigError, KeyError, TypeError):
        if "wake" not in at(data, ".".join(parts[:2])):
            yield Change("add", ".".join(parts[:3]), {"driver": old.FIRST_WAY})


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
        here, seen = _step(here, part, seen, hand, grow=change.op in ("set", "add"))
    if isinstance(here, list):
        _change_member(here, last, seen, change, hand)
        if not here:  # of an array of tables nothing is left that could be written
            del above[path[-1]]
    elif not isinstance(here, dict):
        raise _wrong(seen, "config.no_section")
    elif change.op == "ways":
        old.list_ways(here, hand.make)
    elif change.op == "set":
        _set(here, last, change.value, hand)
    elif change.op == "add":
        _add(here, last, change, hand)
    elif last not in here:
        raise _wrong(change.where, "config.not_in_file")
    elif change.op == "rename":
        _rename(here, last, change.value)
    else:
        del here[last]


def _step(here: Any, part: str, seen: str, hand: _Hand, *, grow: bool) -> tuple[Any, str]:
    """Go one part of a path down; sections that are not there are made if `grow`."""
    where = f"{seen}.{part}" if seen else part
    if isinstance(here, list):
        return here[index_of(here, part, seen)], where
    if not isinstance(here, dict):
        raise _wrong(seen, "config.no_section")
    if part not in here:
        if not grow:
            raise _wrong(where, "config.section_not_in_file")
        here[part] = hand.make({}, here)
    return here[part], where


def index_of(members: list[Any], part: str, seen: str = "") -> int:
    """Find a member by its id, else by its number from 1: as a problem's `where` names it."""
    names = [label("", member, number)[1:] for number, member in enumerate(members, 1)]
    if part in names:
        return names.index(part)
    if part.isascii() and part.isdigit() and 1 <= int(part[:9]) <= len(members):
        return int(part[:9]) - 1
    raise _wrong(f"{seen}.{part}", "config.no_member", of=seen, name=part)


def _change_member(members: Any, part: str, seen: str, change: Change, hand: _Hand) -> None:
    index = index_of(members, part, seen)
    if change.op == "add":
        raise _wrong(change.where, "config.is_member", of=seen)
    if change.op == "remove":
        del members[index]
    elif isinstance(members[index], dict):
        if not isinstance(change.value, dict):
            raise _wrong(change.where, "config.section")
        _merge(members[index], change.value, hand)
    else:
        members[index] = hand.make(change.value, members)


def _rename(here: Any, key: str, name: str) -> None:
    # The library's own value has the comment behind it; of true and false it hands out Python's.
    value = here.value.item(key) if hasattr(here, "value") else here[key]
    del here[key]
    here[name] = value


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
            raise _wrong(change.where, "config.does_not_fit")
        here[key].append(hand.make(change.value, here[key]))
    else:
        raise _wrong(change.where, "config.not_a_list")


def _wrong(where: str, code: str, **params: Any) -> ConfigError:
    return ConfigError([Problem(where, Reason(code, **params))])


def _as_toml(value: Any, container: Any) -> Any:
    """Make TOML of a value: tables in sections of their own, unless the container is inline."""
    import tomlkit  # noqa: PLC0415 - only an edit needs it
    from tomlkit.items import AoT, Array, InlineTable, Table  # noqa: PLC0415 - only an edit needs it

    if isinstance(value, Table) and not isinstance(container, InlineTable):
        return value  # with its comments
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
    import tomlkit  # noqa: PLC0415 - only an edit needs it

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
