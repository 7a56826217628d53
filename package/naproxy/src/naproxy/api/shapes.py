"""JSON Schema, the part of it that the API uses: to declare, and to check what arrives.

Shapes are plain JSON Schema dictionaries (2020-12), so the description of the API is made of
the same objects that the checks use. Known: type, enum, properties, required,
additionalProperties, items, minItems, maxItems, minimum, maximum, minLength, maxLength, pattern.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from naproxy.core.bounded import json_value
from naproxy.core.reason import WrongError

Shape = Mapping[str, Any]


class ShapeError(WrongError):
    """What is wrong with a value, and where."""

    def __init__(self, where: str, code: str, /, **params: Any) -> None:
        """`where` is a path such as `users.0.name`, empty for the whole."""
        super().__init__(code, **params)
        self.where = where or None


def obj(
    properties: Mapping[str, Shape] | None = None,
    /,
    *,
    optional: tuple[str, ...] = (),
    **named: Shape,
) -> dict[str, Any]:
    """Return the shape of an object with exactly these keys, all needed but `optional` ones.

    A key that is a keyword of Python is given in `properties`.
    """
    properties = {**(properties or {}), **named}
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


def open_obj(properties: Mapping[str, Shape]) -> dict[str, Any]:
    """Return the shape of an object with at least these keys: newer versions add others."""
    return {"type": "object", "properties": properties, "required": list(properties)}


def mapping(values: Shape) -> dict[str, Any]:
    """Return the shape of an object that has such a value for each of its keys."""
    return {"type": "object", "additionalProperties": values}


def array(items: Shape, **limits: Any) -> dict[str, Any]:
    """Return the shape of a list; limits are minItems, maxItems, description."""
    return {"type": "array", "items": items, **limits}


def string(**limits: Any) -> dict[str, Any]:
    """Return the shape of a text; limits are minLength, maxLength, pattern, description."""
    return {"type": "string", **limits}


def number(**limits: Any) -> dict[str, Any]:
    """Return the shape of a number; limits are minimum, maximum, description."""
    return {"type": "number", **limits}


def integer(**limits: Any) -> dict[str, Any]:
    """Return the shape of a whole number."""
    return {"type": "integer", **limits}


def boolean(**more: Any) -> dict[str, Any]:
    """Return the shape of true or false."""
    return {"type": "boolean", **more}


def choice(*values: str) -> dict[str, Any]:
    """Return the shape of one of these texts."""
    return {"type": "string", "enum": list(values)}


def nullable(shape: Shape, **more: Any) -> dict[str, Any]:
    """Return the shape, or null."""
    types = shape["type"] if isinstance(shape["type"], list) else [shape["type"]]
    made: dict[str, Any] = {**shape, "type": [*types, "null"], **more}
    if "enum" in shape:
        made["enum"] = [*shape["enum"], None]
    return made


ANY_OBJECT: Final[Shape] = {"type": "object"}
"""An object whose keys are said elsewhere, such as the controller's answers."""

MOST_WHOLE: Final = 2**53
"""Larger whole numbers are not what they say in JavaScript, and do not fit into SQLite."""

_KINDS: Final[dict[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
_CODES: Final = {
    "object": "config.object",
    "array": "config.entries",
    "string": "config.a_text",
    "integer": "config.integer",
    "number": "config.number",
    "boolean": "config.boolean",
    "null": "config.nothing",
}


def check(value: Any, shape: Shape, where: str = "") -> None:
    """Check a value; ShapeError says the first that is wrong."""
    if "enum" in shape and value not in shape["enum"]:
        raise ShapeError(where, "config.one_of", names=tuple(map(str, shape["enum"])))
    kinds = shape.get("type")
    if kinds is not None:
        _check_kind(value, [kinds] if isinstance(kinds, str) else kinds, where)
    if isinstance(value, str):
        _check_text(value, shape, where)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        _check_number(value, shape, where)
    elif isinstance(value, list):
        _check_list(value, shape, where)
    elif isinstance(value, dict):
        _check_object(value, shape, where)


def _check_kind(value: Any, kinds: list[str], where: str) -> None:
    for kind in kinds:
        if isinstance(value, bool) and kind != "boolean":
            continue
        if isinstance(value, _KINDS[kind]):
            return
    raise ShapeError(where, _CODES[kinds[0]])


def _check_text(value: str, shape: Shape, where: str) -> None:
    low, high = shape.get("minLength", 0), shape.get("maxLength", math.inf)
    if any("\ud800" <= c <= "\udfff" for c in value):
        raise ShapeError(where, "config.control")
    if len(value) < low:
        if not value:
            raise ShapeError(where, "config.empty")
        raise ShapeError(where, "config.characters_least", low=low)
    if len(value) > high:
        raise ShapeError(where, "config.characters_most", high=high)
    if "pattern" in shape and not re.search(shape["pattern"], value):
        raise ShapeError(
            where, "config.pattern", pattern=shape.get("description", shape["pattern"])
        )


def _check_number(value: float, shape: Shape, where: str) -> None:
    if isinstance(value, int) and abs(value) > MOST_WHOLE:
        raise ShapeError(where, "config.large_number")
    if not math.isfinite(value):
        raise ShapeError(where, "config.finite")
    low, high = shape.get("minimum", -math.inf), shape.get("maximum", math.inf)
    if value < low:
        raise ShapeError(where, "config.value_least", low=low)
    if value > high:
        raise ShapeError(where, "config.value_most", high=high)


def _check_list(value: list[Any], shape: Shape, where: str) -> None:
    if len(value) > shape.get("maxItems", math.inf):
        raise ShapeError(where, "config.entries_most", high=shape["maxItems"])
    if len(value) < shape.get("minItems", 0):
        raise ShapeError(where, "config.entries_least", low=shape["minItems"])
    for index, item in enumerate(value):
        check(item, shape.get("items", {}), _below(where, str(index)))


def _check_object(value: dict[str, Any], shape: Shape, where: str) -> None:
    known, others = shape.get("properties", {}), shape.get("additionalProperties", True)
    for name, item in value.items():
        if name in known:
            check(item, known[name], _below(where, name))
        elif others is False:
            raise ShapeError(_below(where, name[:100]), "config.unknown")
        elif others is not True:
            check(item, others, _below(where, name))
    for name in shape.get("required", ()):
        if name not in value:
            raise ShapeError(_below(where, name), "config.empty")


def _below(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def from_json(raw: bytes, shape: Shape) -> Any:
    """Return the value of JSON, checked; ShapeError if it is none, or does not fit."""
    try:
        value = json_value(raw)
    except ValueError:
        raise ShapeError("", "api.not_json") from None
    check(value, shape)
    return value


def from_query(
    texts: Mapping[str, Sequence[str]], shapes: Mapping[str, Shape], needed: Sequence[str]
) -> dict[str, Any]:
    """Return what a query says, checked; those `needed` must be there. ShapeError."""
    read: dict[str, Any] = {}
    for name, given in texts.items():
        if name not in shapes:
            raise ShapeError(name[:100], "config.unknown")
        if len(given) > 1:
            raise ShapeError(name, "config.there_twice")
        read[name] = from_text(given[0], shapes[name], name)
    for name in needed:
        if name not in read:
            raise ShapeError(name, "config.empty")
    return read


def from_text(text: str, shape: Shape, where: str) -> Any:
    """Return what a query's text means in a shape, checked; ShapeError if it does not fit."""
    kinds = shape.get("type", "string")
    kind = kinds if isinstance(kinds, str) else kinds[0]
    try:
        value: Any = _READ[kind](text)
    except (ValueError, KeyError):
        raise ShapeError(where, _CODES[kind]) from None
    check(value, shape, where)
    return value


def _whole(text: str) -> int:
    if not re.fullmatch(r"-?[0-9]{1,18}", text):
        raise ValueError(text)
    return int(text)


def _number(text: str) -> float:
    if not re.fullmatch(r"-?[0-9]{1,18}(\.[0-9]{1,18})?([eE][+-]?[0-9]{1,3})?", text):
        raise ValueError(text)
    return float(text)


_READ: Final[dict[str, Any]] = {
    "string": str,
    "integer": _whole,
    "number": _number,
    "boolean": {"true": True, "false": False}.__getitem__,
}
