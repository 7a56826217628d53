"""Problems of a setting in the terms of its field: label, unit, the names of its choices.

The controller reports them in the terms of the file: seconds, shares of 1, `path`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, Final

from naproxy.core.reason import Reason, reason_of
from naproxy.core.words import own_names, words

from naproxy_webui.i18n.texts import has, language, t

PERCENT: Final = 100
_LISTS: Final = ("server", "tariff", "rule", "cache_rule", "meter")
_BOUNDS: Final = ("low", "high")
_OF_TIME: Final = ("seconds", "milliseconds", "hours", "days")
_EXACT: Final = (("d", 86400, 2), ("h", 3600, 1), ("min", 60, 2))
"""Units of time, their seconds, and from how many of them on a bound is told in them."""


def path_of(where: str) -> str:
    """Return a key's own path: members are `[]`."""
    parts = where.split(".")
    if len(parts) > 1 and parts[0] in _LISTS:
        parts[:2] = [f"{parts[0]}[]"]
        if len(parts) > 2 and parts[1] == "wake":
            parts[1:3] = ["wake[]"]
    return ".".join(parts)


def label_of(path: str) -> str:
    """Return what a field of this key is called: by its path, or as this key of any driver."""
    key = path.rpartition(".")[2]
    own = path.replace("[]", "")
    names = (f"settings.label.{own}", f"settings.label.any.{key}")
    return next((t(name) for name in names if has(name)), key)


def choice_words(key: str, value: str) -> str:
    """Return what a choice means, or its name as the file has it."""
    if key == "language":
        return own_names().get(value, value)
    name = f"settings.choice.{key}.{value or 'unsaid'}"
    return t(name) if has(name) else value


def scale_of(path: str) -> int:
    """Return how many times larger the field's number is: a share of 1 is shown in percent."""
    return PERCENT if path.endswith(".fraction") else 1


@cache
def _units() -> dict[str, str]:
    """Return the unit of each key, by its path. Read when something is wrong only."""
    file = resources.files("naproxy").joinpath("keys.json")
    return {each["path"]: each["unit"] for each in json.loads(file.read_bytes())["keys"]}


def in_words(problem: Mapping[str, Any]) -> str:
    """Return one of the controller's problems in the user's language."""
    reason, where = reason_of(problem), str(problem["where"] or "")
    path = path_of(re.sub(r"\[\d+\]$", "", where))
    if path not in _units() and not has(f"settings.label.{path.replace('[]', '')}"):
        return words(reason, language())
    if reason.code == "config.missing":
        # In a file its help follows; a field has that beside it.
        reason = Reason("config.no_value")
    key, given = path.rpartition(".")[2], problem.get("given")
    wrong = _not_a_number(reason.code, path, given) or words(
        Reason(reason.code, **_params(reason, path, key)), language()
    )
    if given is None:
        return t("settings.wrong", label=label_of(path), wrong=wrong)
    told = _given(given, path, key)
    return t("settings.wrong_given", label=label_of(path), wrong=wrong, given=told)


def _not_a_number(code: str, path: str, given: object) -> str:
    """Return the hint of a field with a unit of its own if the typed text is not a number."""
    if code not in ("config.number", "config.integer") or not isinstance(given, str):
        return ""
    if scale_of(path) == PERCENT:
        return t("settings.wrong_percent")
    return t("settings.wrong_time") if _units().get(path) in _OF_TIME else ""


def _params(reason: Reason, path: str, key: str) -> dict[str, Any]:
    params = dict(reason.params)
    if reason.code.startswith("config.value_"):
        params |= {name: _number(params[name], path) for name in _BOUNDS if name in params}
        if "high" in params and _units().get(path) != "seconds":
            params["low"] = str(params.get("low", "")).partition(" ")[0]
    elif reason.code == "config.one_of":
        names = (str(name).removeprefix('""') for name in params["names"])
        params["names"] = [_quoted(choice_words(key, each)) for each in names]
    return params


def _given(given: object, path: str, key: str) -> str:
    if isinstance(given, bool):
        return str(given).lower()
    if isinstance(given, int | float):
        return _number(given, path)
    if not given:
        return t("settings.given_nothing")
    return _quoted(choice_words(key, str(given)))


def _quoted(text: str) -> str:
    return t("settings.quoted", text=text)


def _number(value: float, path: str) -> str:
    scale, unit = scale_of(path), _units().get(path, "")
    if unit == "seconds":
        unit, of = next(
            ((name, s) for name, s, least in _EXACT if value >= least * s and value % s == 0),
            ("s", 1),
        )
        return f"{_decimal(value / of)} {t(f'kit.unit.{unit}')}"
    text = _decimal(value * scale)
    name = "%" if scale == PERCENT else t(f"settings.unit.{unit}") if unit else ""
    return f"{text} {name}" if name else text


def _decimal(value: float) -> str:
    text = f"{value:.10g}"
    return text if language() == "en" else text.replace(".", ",")
