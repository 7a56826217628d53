"""Configuration as dataclasses: type, default, range and help beside each key.

`load` turns a table of TOML into such a dataclass and reports every error at once, each
with the key's path. `keys` lists the keys for the user interface and the documentation.
A section whose keys depend on a choice (a driver, a policy) is an `alternative`.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import json
import math
import re
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass
from typing import Any, Final

from naproxy.core.reason import Reason, WrongError

Check = Callable[[Any], Reason | None]
"""Says what is wrong with a value of the right type, or None."""

_UNITS: Final = {
    "ms": "milliseconds",
    "s": "seconds",
    "h": "hours",
    "hours": "hours",
    "days": "days",
    "w": "watts",
    "j": "joules",
}
_TYPES: Final = {
    bool: ("boolean", "true or false", Reason("config.boolean")),
    int: ("integer", "a whole number", Reason("config.integer")),
    float: ("number", "a number", Reason("config.number")),
    str: ("text", "a text in quotes", Reason("config.text")),
}
"""Name of each type, its form in the file, and the words that demand it."""


_MOST_GIVEN: Final = 60


@dataclass(frozen=True, slots=True)
class Held:
    """The one-line secret in the file that a key names; it can be typed instead of the file.

    `what` is password, token, key or community; `check` returns its fault; `sent`: it is sent to
    the host, and not only used to sign.
    """

    what: str
    check: Check
    sent: bool = True


@dataclass(frozen=True, slots=True)
class Problem:
    """The fault of one key; `where` is its path, empty for the whole.

    `given` is its value, if that is a single value and not a secret.
    """

    where: str
    reason: Reason
    given: str | int | float | bool | None = None

    def __str__(self) -> str:
        given = "" if self.given is None else f" (given: {_told(self.given)})"
        return f"{self.where}: {self.reason}{given}" if self.where else f"{self.reason}{given}"


def _told(given: str | float) -> str:
    return json.dumps(given, ensure_ascii=False)


class ConfigError(ValueError):
    """Everything that is wrong with a configuration."""

    def __init__(self, problems: list[Problem]) -> None:
        """`problems` is not empty."""
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


def option(
    help: str,
    default: object = MISSING,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
    check: Check | None = None,
    secret: bool = False,
    holds: Held | None = None,
    form: Callable[[str], str] = str,
) -> Any:
    """Declare a key. Without a default it must be given.

    `form` makes one of the several forms of a text that people write, before it is judged.
    `low` and `high` bound a number, the bytes of a text, or the length of a list.
    `choices` and `check` hold for each item of a list. `secret`: its value is shown to nobody;
    `holds`: that of the file which it names.
    """
    about = {
        "help": help,
        "low": low,
        "high": high,
        "choices": choices,
        "check": check,
        "secret": secret,
        "holds": holds,
        "form": form,
    }
    return dataclasses.field(default=default, metadata=about)


def fixed(value: object) -> Any:
    """Declare what no office would set: no key, the same everywhere.

    The lab and tests may make such a section with another value.
    """
    return dataclasses.field(default=value, metadata={"fixed": True})


def settable(cls: Any) -> list[dataclasses.Field[Any]]:
    """Return the fields that are keys, or sections of them."""
    return [field for field in dataclasses.fields(cls) if "fixed" not in field.metadata]


def redefault(cls: type, name: str, default: object) -> Any:
    """Declare a key as a dataclass has it already, with another default."""
    about = {field.name: field.metadata for field in dataclasses.fields(cls)}
    return dataclasses.field(default=default, metadata=about[name])


def section(cls: type) -> Any:
    """Declare a table whose keys all have defaults."""
    return dataclasses.field(default_factory=cls, metadata={"section": cls})


def tables(cls: type | Alternative, low: int, high: int) -> Any:
    """Declare an array of tables, `[[name]]`, of `low` to `high` members.

    Where there must be one and none is given, it is that of the default choice.
    """

    def default() -> tuple[Any, ...]:
        return (cls.settings(cls.default)(),) if isinstance(cls, Alternative) and low else ()

    about = {"tables": cls, "low": low, "high": high}
    return dataclasses.field(default_factory=default, metadata=about)


@dataclass(frozen=True)
class Alternative:
    """A section whose key `selector` chooses the dataclass of the others."""

    selector: str
    default: str
    names: Callable[[], list[str]]
    settings: Callable[[str], type]


def alternative(choice: Alternative) -> Any:
    """Declare a section whose keys depend on a choice."""
    return dataclasses.field(
        default_factory=lambda: choice.settings(choice.default)(),  # noqa: PLW0108 - loads it late
        metadata={"alternative": choice},
    )


def load(cls: type, table: object, where: str, problems: list[Problem]) -> Any:
    """Return `cls` made of `table`, None where something is wrong; `problems` grows."""
    if not isinstance(table, Mapping):
        problems.append(Problem(where, Reason("config.section")))
        return None
    before = len(problems)
    fields = {f.name: f for f in settable(cls)}
    problems.extend(
        Problem(_join(where, key), _unknown(key, list(fields)))
        for key in table
        if key not in fields
    )
    values: dict[str, Any] = {}
    types = typing.get_type_hints(cls)
    for name, field in fields.items():
        path = _join(where, name)
        if name in table:
            values[name] = _value(field, types[name], table[name], path, problems)
        elif field.default is MISSING and field.default_factory is MISSING:
            problems.append(Problem(path, Reason("config.missing", help=field.metadata["help"])))
    return cls(**values) if len(problems) == before else None


def _join(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key


def _unknown(key: str, known: list[str]) -> Reason:
    import difflib  # noqa: PLC0415 - only when something is wrong

    near = difflib.get_close_matches(key, known, 1)
    return Reason("config.unknown_near", near=near[0]) if near else Reason("config.unknown")


def _value(
    field: dataclasses.Field[Any], kind: Any, value: object, path: str, problems: list[Problem]
) -> Any:
    about = field.metadata
    if "section" in about:
        return load(about["section"], value, path, problems)
    if "alternative" in about:
        return _chosen(about["alternative"], value, path, problems)
    if "tables" in about:
        return _tables(about, value, path, problems)
    if typing.get_origin(kind) is tuple:
        return _list(about, typing.get_args(kind)[0], value, path, problems)
    return _single(about, kind, value, path, problems)


def _chosen(choice: Alternative, value: object, path: str, problems: list[Problem]) -> Any:
    if not isinstance(value, Mapping):
        problems.append(Problem(path, Reason("config.section")))
        return None
    name = value.get(choice.selector, choice.default)
    if name not in choice.names():
        wrong = Reason("config.one_of", names=tuple(choice.names()))
        problems.append(Problem(_join(path, choice.selector), wrong, _given(name)))
        return None
    return load(choice.settings(name), value, path, problems)


def _tables(about: Mapping[str, Any], value: object, path: str, problems: list[Problem]) -> Any:
    if not isinstance(value, list):
        problems.append(Problem(path, Reason("config.tables", path=path)))
        return None
    if not about["low"] <= len(value) <= about["high"]:
        wrong = Reason("config.times", low=about["low"], high=about["high"])
        problems.append(Problem(path, wrong))
        return None
    kind = about["tables"]
    read = _chosen if isinstance(kind, Alternative) else load
    return tuple(read(kind, v, label(path, v, n), problems) for n, v in enumerate(value, 1))


def label(path: str, table: object, number: int) -> str:
    """Return the path of one member of an array of tables: `server.web`, or `server.2`."""
    name = table.get("id") if isinstance(table, Mapping) else None
    return f"{path}.{name if isinstance(name, str) and name.isprintable() and name else number}"


def _list(
    about: Mapping[str, Any], kind: Any, value: object, path: str, problems: list[Problem]
) -> Any:
    if not isinstance(value, list):
        problems.append(Problem(path, Reason("config.list")))
        return None
    low, high = about["low"], about["high"]
    if (low is not None and len(value) < low) or (high is not None and len(value) > high):
        problems.append(Problem(path, Reason("config.items", low=low or 0, high=high)))
        return None
    item = {**about, "low": None, "high": None}
    return tuple(_single(item, kind, v, f"{path}[{n}]", problems) for n, v in enumerate(value))


def _single(
    about: Mapping[str, Any], kind: Any, value: object, path: str, problems: list[Problem]
) -> Any:
    if kind is float and type(value) is int:
        value = float(value)
    if kind is str and isinstance(value, str):
        value = about["form"](value)
    wrong = _TYPES[kind][2] if type(value) is not kind else _wrong(about, value)
    if wrong:
        problems.append(Problem(path, wrong, None if about["secret"] else _given(value)))
        return None
    return value


def _given(value: object) -> str | int | float | bool | None:
    """Return the value for a message: the start of a long text, nothing for a value with parts."""
    if isinstance(value, str):
        shown = "".join(c if _printable(c) else "\N{REPLACEMENT CHARACTER}" for c in value)
        return (
            shown if len(shown) <= _MOST_GIVEN else f"{shown[:_MOST_GIVEN]}\N{HORIZONTAL ELLIPSIS}"
        )
    if isinstance(value, int | float) and math.isfinite(value):
        return value
    return None


def _wrong(about: Mapping[str, Any], value: Any) -> Reason | None:
    """Say what is wrong with a value of the right type."""
    if isinstance(value, str) and not _printable(value):
        return Reason("config.control")
    if about["choices"]:
        return None if value in about["choices"] else _one_of(about["choices"])
    if isinstance(value, (int, float)) and not math.isfinite(value):
        return Reason("config.finite")
    size = len(value.encode()) if isinstance(value, str) else value
    if (about["low"] is not None and size < about["low"]) or (
        about["high"] is not None and size > about["high"]
    ):
        return _out_of(about["low"], about["high"], isinstance(value, str))
    if about["check"] is None:
        return None
    wrong: Reason | None = about["check"](value)
    return wrong


def _one_of(choices: tuple[str, ...]) -> Reason:
    return Reason("config.one_of", names=tuple(choice or '""' for choice in choices))


def _printable(text: str) -> bool:
    return all(c >= " " and c != "\x7f" and not "\ud800" <= c <= "\udfff" for c in text)


def _out_of(low: float | None, high: float | None, text: bool) -> Reason:
    what = "bytes" if text else "value"
    if low is None:
        return Reason(f"config.{what}_most", high=high)
    if high is None:
        return Reason(f"config.{what}_least", low=low)
    return Reason(f"config.{what}_between", low=low, high=high)


def _range(low: float | None, high: float | None, text: bool) -> str:
    unit = " bytes long" if text else ""
    if low is None:
        return f"at most {high:.12g}{unit}"
    if high is None:
        return "not empty" if text and low == 1 else f"at least {low:.12g}{unit}"
    return f"{low:.12g} to {high:.12g}{unit}"


@dataclass(frozen=True, slots=True)
class Key:
    """One key, for people: `kind`, `range` and `help` are words.

    `type` is boolean, integer, number or text: of the key, or of each item if `many`.
    `default` is None if the key must be given. `when` names the choice it belongs to,
    as `driver = "ssh"`, else it is empty.
    """

    path: str
    type: str
    many: bool
    kind: str
    default: Any
    required: bool
    low: float | None
    high: float | None
    range: str
    unit: str
    choices: tuple[str, ...]
    help: str
    when: str
    secret: bool
    holds: str
    """The kind of secret in the file that it names (`Held.what`); empty without one."""
    sent: bool
    """The file's secret is sent: only a user who may write the configuration file can name one."""


def keys(cls: type, path: str = "", when: str = "") -> Iterator[Key]:
    """List the keys of a configuration; a member of an array of tables is `name[]`."""
    types = typing.get_type_hints(cls)
    for field in settable(cls):
        about, here = field.metadata, _join(path, field.name)
        if "section" in about:
            yield from keys(about["section"], here, when)
        elif "tables" in about:
            yield from _members(about["tables"], f"{here}[]", when)
        elif "alternative" in about:
            yield from _members(about["alternative"], here, when)
        else:
            yield _key(field, types[field.name], here, when)


@dataclass(frozen=True, slots=True)
class Listed:
    """A key as it is listed: once, for all choices of a section that declare it alike."""

    key: Key
    selector: str
    """The key that says which choice is in force; empty: there is no choice, or all have it."""
    choices: tuple[str, ...]

    @property
    def when(self) -> str:
        """With which choices it may be given, for people; empty: with all."""
        if not self.choices:
            return ""
        return f"{self.selector} = {' or '.join(json.dumps(each) for each in self.choices)}"


def listed(cls: type) -> list[Listed]:
    """List the keys, those that several choices of a section declare alike once."""
    choices = {
        place.path: place.kind for place in places(cls) if isinstance(place.kind, Alternative)
    }
    found: dict[Key, list[str]] = {}
    words: dict[str, list[str]] = {}
    own: dict[str, Any]
    for key in keys(cls):
        above, _, name = key.path.rpartition(".")
        kind, chosen = choices.get(above), key.when.partition(" = ")[2].strip('"')
        if kind and name == kind.selector:
            words.setdefault(key.path, []).append(key.help)
            own = {"default": kind.default, "choices": tuple(kind.names()), "help": ""}
        else:
            own = {}
        found.setdefault(dataclasses.replace(key, when="", **own), []).append(chosen)
    # Those of all choices first, then each where the first of its choices is.
    made = []
    for key, names in found.items():
        kind = choices.get(key.path.rpartition(".")[0])
        every = kind is None or len(names) == len(kind.names())
        selector = kind.selector if kind and not every else ""
        whole = key if key.help else dataclasses.replace(key, help="; ".join(words[key.path]))
        made.append(Listed(whole, selector, () if every else tuple(names)))
    order = {path: number for number, path in enumerate(dict.fromkeys(map(_above, made)))}
    return sorted(made, key=lambda each: (order[_above(each)], bool(each.choices)))


def _above(listed: Listed) -> str:
    return listed.key.path.rpartition(".")[0]


@dataclass(frozen=True, slots=True)
class Place:
    """A section whose keys depend on a choice, or one that is given `low` to `high` times."""

    path: str
    kind: type | Alternative
    low: int
    high: int


def places(cls: type, path: str = "") -> Iterator[Place]:
    """List those sections; a member of an array of tables is `name[]`."""
    for field in settable(cls):
        about, here = field.metadata, _join(path, field.name)
        if "alternative" in about:
            yield Place(here, about["alternative"], 1, 1)
        elif "tables" in about:
            yield Place(f"{here}[]", about["tables"], about["low"], about["high"])
            if isinstance(about["tables"], type):
                yield from places(about["tables"], f"{here}[]")


def _members(kind: type | Alternative, path: str, when: str) -> Iterator[Key]:
    if not isinstance(kind, Alternative):
        yield from keys(kind, path, when)
        return
    for name in kind.names():
        yield from keys(kind.settings(name), path, f'{kind.selector} = "{name}"')


def _key(field: dataclasses.Field[Any], kind: Any, path: str, when: str) -> Key:
    about = field.metadata
    many = typing.get_origin(kind) is tuple
    single = typing.get_args(kind)[0] if many else kind
    name, words, _ = _TYPES[single]
    bounded = about["low"] is not None or about["high"] is not None
    required = field.default is MISSING
    return Key(
        path=path,
        type=name,
        many=many,
        kind=f"a list, each {words}" if many else words,
        default=None if required else field.default,
        required=required,
        low=about["low"],
        high=about["high"],
        range=_range(about["low"], about["high"], kind is str) if bounded else "",
        unit=_UNITS.get(field.name.rpartition("_")[2], "") if "_" in field.name else "",
        choices=about["choices"],
        help=about["help"],
        when=when,
        secret=about["secret"],
        holds=about["holds"].what if about["holds"] else "",
        sent=bool(about["holds"] and about["holds"].sent),
    )


def plain(value: Any) -> Any:
    """Return a loaded configuration as JSON types, secrets left out."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            f.name: plain(getattr(value, f.name))
            for f in settable(value)
            if not f.metadata.get("secret")
        }
    return [plain(v) for v in value] if isinstance(value, tuple) else value


def given(value: Any, where: str = "") -> Iterator[tuple[str, dataclasses.Field[Any], Any, Any]]:
    """Yield each key of a loaded configuration: path, declaration, value, and its section."""
    if isinstance(value, tuple):
        for number, member in enumerate(value, 1):
            yield from given(member, f"{where}.{getattr(member, 'id', number)}")
    elif dataclasses.is_dataclass(value):
        for field in settable(value):
            inner, here = getattr(value, field.name), _join(where, field.name)
            yield here, field, inner, value
            yield from given(inner, here)


def secrets(value: Any) -> Iterator[str]:
    """Yield the paths of the secrets in a loaded configuration, which `plain` leaves out."""
    return (
        where for where, field, inner, _ in given(value) if field.metadata.get("secret") and inner
    )


def held(value: Any) -> Iterator[tuple[str, Held, str]]:
    """Yield the secret files of a loaded configuration: key, kind of secret, path."""
    for where, field, inner, _ in given(value):
        if about := field.metadata.get("holds"):
            yield where, about, inner


def checked(read: Callable[[str], object]) -> Check:
    """Make a check of a function that raises WrongError."""

    def check(text: str) -> Reason | None:
        try:
            read(text)
        except WrongError as error:
            return error.reason
        return None

    return check


def fits(pattern: str, wrong: Reason) -> Check:
    """Make a check that the whole of a text fits a pattern."""
    return lambda text: None if re.fullmatch(pattern, text) else wrong


def within(low: float, high: float) -> Check:
    """Make a check of the numbers in a list, whose own bounds are those of its length."""
    wrong = Reason("config.value_between", low=low, high=high)
    return lambda number: None if low <= number <= high else wrong


def or_empty(check: Check) -> Check:
    """Make a check that an empty text passes, too."""
    return lambda text: check(text) if text else None


_HOST: Final = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(\.(?!-)[a-z0-9_-]{1,63}(?<!-))*\.?")
_MAC: Final = re.compile(r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}")


def is_host(text: str) -> Reason | None:
    """Check a host name, in lower case, without a port."""
    return None if _HOST.fullmatch(text) else Reason("config.host")


def is_address(text: str) -> Reason | None:
    """Check an IPv4 or IPv6 address."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return Reason("config.address")
    return Reason("config.one_machine") if address.is_multicast else None


def address_form(text: str) -> str:
    """Return an address as it is usually written; an IPv4-mapped IPv6 address becomes IPv4.

    Any other text stays as it is.
    """
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return text
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def is_machine(text: str) -> Reason | None:
    """Check the address of one machine that can be reached from here without a zone.

    Loopback is left to `config.places`: it is a machine, only the wrong one.
    """
    if wrong := is_address(address_form(text)):
        return wrong
    address = ipaddress.ip_address(address_form(text))
    if address.version == 6 and address.is_link_local:
        return Reason("config.needs_zone")
    # All of 0.0.0.0/8 (RFC 1122, 3.2.1.3), of 240.0.0.0/4, and RFC 4291's reserved addresses.
    nobody = address.is_unspecified or (address.version == 4 and address.packed[0] == 0)
    reserved = address.is_reserved and not address.is_loopback
    return Reason("config.one_machine") if nobody or reserved else None


def mac_form(text: str) -> str:
    """Return an Ethernet address as 00:11:22:33:44:55; dashes, dots and spaces may be in it.

    Any other text stays as it is.
    """
    digits = re.sub(r"[-:.\s]", "", text)
    if not re.fullmatch(r"[0-9A-Fa-f]{12}", digits):
        return text
    return ":".join(digits[n : n + 2] for n in range(0, 12, 2))


def is_mac(text: str) -> Reason | None:
    """Check an Ethernet address of one card."""
    if not _MAC.fullmatch(text):
        return Reason("config.mac")
    if int(text[:2], 16) & 1 or set(text) <= set("0:"):
        return Reason("config.one_card")
    return None


def is_interface(text: str) -> Reason | None:
    """Check a network interface's name as Linux allows it; empty means the default."""
    ok = len(text) < 16 and not re.search(r"[\s/:]", text) and text not in (".", "..")
    return None if ok and not text.startswith("-") else Reason("config.interface")


def is_absolute(text: str) -> Reason | None:
    """Check an absolute path."""
    return None if text.startswith("/") else Reason("config.absolute")


def is_url_path(text: str) -> Reason | None:
    """Check the path of a URL as it goes into a request line."""
    ok = text.startswith("/") and text.isascii() and " " not in text
    return None if ok else Reason("config.url_path")


def toml_value(value: Any) -> str:
    """Write a key's value as TOML."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    # A JSON text, number or boolean without control characters is a TOML one.
    return json.dumps(value, ensure_ascii=False)


def markdown(cls: type) -> list[str]:
    """Return the reference of all keys, a table for each section."""
    lines: list[str] = []
    section_now = None
    for each in listed(cls):
        here, _, name = each.key.path.rpartition(".")
        section = here.replace("[]", "")
        brackets = f"[[{section}]]" if here.endswith("[]") else f"[{section}]"
        if brackets != section_now:
            section_now = brackets
            lines += ["", f"## `{brackets}`", ""]
            lines += ["| key | default | meaning |", "| --- | --- | --- |"]
        when = f"With {', '.join(each.choices)}: " if each.choices else ""
        lines.append(f"| `{name}` | {_default_words(each.key)} | {when}{_meaning(each.key)} |")
    return lines[1:]


def _default_words(key: Key) -> str:
    return "must be given" if key.required else f"`{toml_value(key.default)}`"


def _meaning(key: Key) -> str:
    words = ", ".join(choice or '""' for choice in key.choices)
    choices = f"one of {words}" if words else key.kind
    details = ", ".join(filter(None, (choices, key.range, f"in {key.unit}" if key.unit else "")))
    return f"{key.help} ({details})".replace("|", "\\|")
