"""All keys of the configuration as JSON, for the web interface's forms.

It loads every driver, which the controller must not: that sends the file made of it, keys.json.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from naproxy.config import document as config
from naproxy.core.schema import Alternative, Listed, Place, keys, listed, places


def described() -> dict[str, Any]:
    """Return `keys`, and the places where a choice or a number of sections is.

    A key's `when` is `{"key": "driver", "is": ["agent", "ssh"]}` if it belongs to these choices
    only, else null.
    """
    return {
        "keys": [_key(each) for each in listed(config.Config)],
        "places": [_place(place) for place in places(config.Config)],
    }


def _key(each: Listed) -> dict[str, Any]:
    when = {"key": each.selector, "is": list(each.choices)} if each.choices else None
    return {**asdict(each.key), "when": when}


def _place(place: Place) -> dict[str, Any]:
    said: dict[str, Any] = {"path": place.path, "least": place.low, "most": place.high}
    if isinstance(place.kind, Alternative):
        said["choice"] = {
            "key": place.kind.selector,
            "default": place.kind.default,
            "names": list(_names(place)),
        }
    return said


def _names(place: Place) -> Iterator[dict[str, Any]]:
    """Yield each choice with its words, which its own key begins with."""
    assert isinstance(place.kind, Alternative)
    for name in place.kind.names():
        [own] = [
            key.help for key in keys(place.kind.settings(name)) if key.path == place.kind.selector
        ]
        yield {"name": name, "help": own.removeprefix(f"{name}: ")}


def as_json() -> str:
    """Return the text of keys.json: a key or a place a line."""
    parts = []
    for name, every in described().items():
        lines = ",\n".join(json.dumps(each, ensure_ascii=False) for each in every)
        parts.append(f'"{name}": [\n{lines}\n]')
    return "{" + ",\n".join(parts) + "}"
