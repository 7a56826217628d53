"""The settings as fields of a form: the controller's keys, their values, words for people.

A field's `where` is the path of its key with a member's name, `server.web.promise.fraction`;
the key's own path has `[]` in its place. Where keys depend on a choice (a driver, a policy)
there are fields for each choice, and those of the one in force have its values.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from flask import current_app

from naproxy_webui.http.control import control
from naproxy_webui.http.problems import PERCENT, choice_words, label_of, path_of, scale_of
from naproxy_webui.i18n.texts import catalogue, has, language, t

_KEYS_FRESH_S: Final = 3600.0
_ORDER: Final = {name: n for n, name in enumerate(("teacher", "thesis", "timeout", "schedule"))}
"""Of choices that are not in the order of their names: the recommended one comes first."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field; `kind` is boolean, number, text, choice, choices, list, secret or held.

    `held`: its key names a file with a password or a key, which may be given in its place.
    """

    where: str
    key: str
    """The last part of the path, as the file has it."""
    kind: str
    label: str
    hint: str
    value: Any
    default: Any
    unit: str
    required: bool
    whole: bool
    numbers: bool
    """A list whose items are numbers."""
    choices: list[tuple[str, str]]
    given: bool
    """A secret that there is."""
    holds: str = ""
    """Of `held`: password, token, key or community."""
    sent: bool = False
    """Of `held`: no other file can be chosen here, because its content is sent to a third party."""
    file: Mapping[str, Any] | None = None
    """Of `held`: the configured file, as the controller describes it."""
    low: float | None = None
    high: float | None = None
    scale: int = 1
    """Factor of the displayed number: a share of 1 is shown in percent."""
    unit_name: str = ""
    """The unit as the controller calls it, for lengths of time that are typed as such."""

    @property
    def id(self) -> str:
        """Return an id for the page."""
        return "f-" + re.sub(r"[^a-z0-9]+", "-", self.where.lower())


@dataclass(frozen=True, slots=True)
class Section:
    """A section with a choice: fields of each."""

    where: str
    selector: str
    chosen: str
    choices: list[tuple[str, str]]
    fields: dict[str, list[Field]]
    default: str

    @property
    def id(self) -> str:
        """Return an id for the page."""
        return "s-" + re.sub(r"[^a-z0-9]+", "-", self.where.lower())


@dataclass
class Form:
    """The settings in force, as fields. `used` collects what was asked for."""

    config: Mapping[str, Any]
    keys: dict[tuple[str, str], dict[str, Any]]
    places: dict[str, dict[str, Any]]
    used: set[str] = field(default_factory=set)

    @property
    def version(self) -> str:
        """Return that of the settings."""
        return str(self.config["version"])

    def field(self, where: str) -> Field:
        """Return one field; KeyError if there is no such key."""
        path = path_of(where)
        above, _, name = where.rpartition(".")
        choice = self._chosen(above) if (path.rpartition(".")[0]) in self.places else ""
        key = self.keys.get((path, choice)) or self.keys[path, ""]
        section = self._value(above)
        value = section.get(name) if isinstance(section, Mapping) else None
        return self._field(key, where, value)

    def section(self, where: str, but: Iterable[str] = ()) -> Section:
        """Return a section whose keys depend on a choice, those named left out."""
        path = path_of(where)
        choice = self.places[path]["choice"]
        current = self._value(where) or {}
        chosen = str(current.get(choice["key"], choice["default"]))
        listed = sorted(choice["names"], key=lambda each: _ORDER.get(each["name"], len(_ORDER)))
        names = [each["name"] for each in listed]
        fields = {
            name: [
                self._field(
                    key,
                    f"{where}.{_last(key)}",
                    current.get(_last(key)) if name == chosen else None,
                )
                for (of, when), key in self.keys.items()
                if of.rpartition(".")[0] == path
                and when == name
                and _last(key) not in (choice["key"], *but)
            ]
            for name in names
        }
        self.used.update(f.where for each in fields.values() for f in each)
        self.used.add(f"{where}.{choice['key']}")
        words = [
            (each["name"], _way_words(f"{path}.{choice['key']}", choice["key"], each))
            for each in listed
        ]
        return Section(where, choice["key"], chosen, words, fields, choice["default"])

    def rest(self, where: str, but: Iterable[str] = ()) -> list[Field]:
        """Return the fields of a section without a choice, those named left out."""
        path = path_of(where)
        return [
            self.field(f"{where}.{_last(key)}")
            for (of, when), key in self.keys.items()
            if of.rpartition(".")[0] == path and not when and _last(key) not in but
        ]

    def blank(self, path: str) -> list[Field]:
        """Return the fields of a new member of a list of sections, without a choice."""
        where = f"{path}.+"
        return [
            self._field(key, f"{where}.{_last(key)}", None)
            for (of, when), key in self.keys.items()
            if of.rpartition(".")[0] == f"{path}[]" and not when
        ]

    def _held(self) -> Iterable[Mapping[str, Any]]:
        found: list[Mapping[str, Any]] = self.config.get("held", [])
        return found

    def _chosen(self, where: str) -> str:
        choice = self.places[path_of(where)].get("choice")
        if not choice:
            return ""
        section = self._value(where)
        said = section.get(choice["key"]) if isinstance(section, Mapping) else None
        return str(said or choice["default"])

    def _value(self, where: str) -> Any:
        here: Any = self.config
        for part in where.split(".") if where else ():
            if isinstance(here, list):
                here = _member(here, part)
            else:
                here = here.get(part) if isinstance(here, Mapping) else None
            if here is None:
                return None
        return here

    def _field(self, key: Mapping[str, Any], where: str, value: Any) -> Field:
        self.used.add(where)
        default = key["default"]
        return Field(
            where=where,
            key=_last(key),
            kind=_kind(key),
            label=t(f"settings.held.{key['holds']}")
            if key["holds"]
            else label_of(str(key["path"])),
            hint=_hint(key),
            value=default if value is None else value,
            default=default,
            unit=_unit(key),
            scale=scale_of(str(key["path"])),
            required=key["required"],
            whole=key["type"] == "integer",
            numbers=key["many"] and key["type"] in ("integer", "number"),
            choices=[(each, choice_words(_last(key), each)) for each in key["choices"]],
            given=where in self.config.get("secrets", ()),
            holds=key["holds"],
            sent=key["sent"],
            file=next((each for each in self._held() if each["where"] == where), None)
            if value
            else None,
            low=key["low"],
            high=key["high"],
            unit_name=key["unit"],
        )


def form() -> Form:
    """Return the settings in force as fields; ApiError if the controller does not answer."""
    config = control().get("/v1/config")
    keys, places = _described()
    return Form(config, keys, places)


def _described() -> tuple[dict[tuple[str, str], dict[str, Any]], dict[str, dict[str, Any]]]:
    """Return the controller's keys by path and choice; asked for once, for they are many."""
    kept: dict[str, Any] = current_app.extensions.setdefault("naproxy_keys_of_config", {})
    if time.monotonic() >= kept.get("until_s", 0.0):
        said = control().get("/v1/config/keys")
        kept["keys"] = {(key["path"], choice): key for key, choice in by_choice(said)}
        kept["places"] = {place["path"]: place for place in said["places"]}
        kept["until_s"] = time.monotonic() + _KEYS_FRESH_S
    return kept["keys"], kept["places"]


def by_choice(said: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield each key with each choice that it may be given with, empty where there is none."""
    choices = {place["path"]: place["choice"] for place in said["places"] if "choice" in place}
    for key in said["keys"]:
        above, _, name = key["path"].rpartition(".")
        if above not in choices:
            yield key, ""
            continue
        words = {each["name"]: each["help"] for each in choices[above]["names"]}
        for choice in key["when"]["is"] if key["when"] else words:
            help = words[choice] if name == choices[above]["key"] else key["help"]
            yield {**key, "help": help, "choice": choice}, choice


def _member(members: list[Any], name: str) -> Any:
    for number, member in enumerate(members, 1):
        if member.get("id") == name or ("id" not in member and str(number) == name):
            return member
    return None


def _last(key: Mapping[str, Any]) -> str:
    return str(key["path"]).rpartition(".")[2]


def _kind(key: Mapping[str, Any]) -> str:
    if key["secret"]:
        return "secret"
    if key["holds"]:
        return "held"
    if key["choices"]:
        return "choices" if key["many"] else "choice"
    if key["many"]:
        return "list"
    return {"boolean": "boolean", "text": "text"}.get(key["type"], "number")


def _unit(key: Mapping[str, Any]) -> str:
    if scale_of(str(key["path"])) == PERCENT:
        return "%"
    return t(f"settings.unit.{key['unit']}") if key["unit"] else ""


def _hint(key: Mapping[str, Any]) -> str:
    name = f"settings.hint.{str(key['path']).replace('[]', '')}"
    return t(name) if has(name) else help_words(key["path"], key["help"], _choice(key))


def _choice(key: Mapping[str, Any]) -> str:
    return str(key.get("choice", ""))


def _way_words(path: str, key: str, way: Mapping[str, Any]) -> str:
    """Return what a choice of a section with its own keys means."""
    name = way["name"]
    own = f"settings.choice.{key}.{name}"
    return t(own) if has(own) else f"{name}: {help_words(path, way['help'], name)}"


def help_words(path: str, help: str, choice: str = "") -> str:
    """Return the help of a key in the user's language: the controller says it in English."""
    known = catalogue(language())
    return next((known[name] for name in help_names(path, choice) if name in known), help)


def help_names(path: str, choice: str) -> tuple[str, str]:
    """Return the names a help's translation may have: of the key with a choice, of the key."""
    name = f"settings.help.{path.replace('[]', '')}"
    return f"{name}@{choice}", name
