"""Why something is so, or was refused: a code and its parameters, never a sentence.

Programs pass reasons on as they are, through the API to the web interface. `naproxy.core.words`
makes them into words, once, where people read them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Final

_LASTING: Final = ("idle_s", "awake_s")
"""Parameters that grow while nothing happens."""

_MOST_DEEP: Final = 16
"""Reasons within reasons, and lists, one in another: ours go to nine."""


class Reason:
    """`code` names the text in the catalogues; `params` are what the text has places for.

    A parameter is a number, a text, another reason, or a list of these. The ending of its name
    is its unit: `idle_s`, `draws_w`; a moment in epoch seconds is `until_at_s`. Two reasons are
    equal if code and parameters are.
    """

    __slots__ = ("code", "params")
    words: ClassVar[Callable[[Reason], str]] = repr
    """The function that makes English words of it; `naproxy.core` sets it."""

    def __init__(self, code: str, /, **params: Any) -> None:
        self.code = code
        self.params = params

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reason) and (self.code, self.params) == (other.code, other.params)

    def __hash__(self) -> int:
        return hash(self.code)

    def __repr__(self) -> str:
        params = "".join(f", {name}={value!r}" for name, value in self.params.items())
        return f"Reason({self.code!r}{params})"

    def __str__(self) -> str:
        """Return the English words: for the log and the terminal, with plain spaces only."""
        return Reason.words(self).replace("\N{NO-BREAK SPACE}", " ")

    def plain(self) -> dict[str, Any]:
        """Return JSON types; `reason_of` takes them back."""
        return {"code": self.code, "params": {n: _plain(v) for n, v in self.params.items()}}

    def text(self) -> str:
        """Return it for a column of a table; `stored_reason` takes it back."""
        return json.dumps(self.plain(), separators=(",", ":"), ensure_ascii=False)

    def parts(self) -> tuple[Reason, ...]:
        """Return what `together` joined; a reason that is one alone has itself as its part."""
        return tuple(self.params["reasons"]) if self.code == "core.all" else (self,)

    def codes(self) -> tuple[str, ...]:
        """Return its code and those within: reasons that differ in figures only have the same."""
        return self.code, *(code for value in self.params.values() for code in _codes(value))

    def aged(self, by_s: float) -> Reason:
        """Return it as of later: durations that still last have grown."""
        return Reason(self.code, **{n: _aged(n, v, by_s) for n, v in self.params.items()})


class WrongError(ValueError):
    """An input is wrong, for a reason."""

    def __init__(self, code: str, /, **params: Any) -> None:
        """Take what `Reason` takes."""
        super().__init__(code)
        self.reason = Reason(code, **params)

    def __str__(self) -> str:
        return str(self.reason)


def together(*reasons: Reason) -> Reason:
    """Return one reason of several that hold together, the most important first."""
    parts = [part for each in reasons for part in each.parts()]
    return parts[0] if len(parts) == 1 else Reason("core.all", reasons=parts)


def own_words(text: str) -> Reason:
    """Return what a server or a program said itself: it stays as it came."""
    return Reason("core.own_words", text=text)


def reason_of(plain: Any, most_deep: int = _MOST_DEEP) -> Reason:
    """Return the reason that `Reason.plain` gave; ValueError if it did not give this."""
    deep = most_deep - 1
    match plain:
        case _ if deep < 0:
            raise ValueError("this is no reason: too much lies within it")
        case {"code": "core.all", "params": {"reasons": [_, *_] as reasons}}:
            return Reason("core.all", reasons=[reason_of(each, deep) for each in reasons])
        case {"code": str(code), "params": Mapping() as params} if code != "core.all":
            return Reason(
                code, **{str(name): _param(value, deep) for name, value in params.items()}
            )
    raise ValueError(f"this is no reason: {str(plain)[:80]!r}")


def stored_reason(kept: Any) -> Reason:
    """Return a reason that was kept as plain types or as their JSON.

    Naproxy kept sentences before there were codes: these stay as they are.
    """
    try:
        return reason_of(json.loads(kept) if isinstance(kept, str) else kept)
    except (ValueError, RecursionError):
        return own_words(kept if isinstance(kept, str) else json.dumps(kept))


def plain(reasons: Iterable[Reason]) -> list[dict[str, Any]]:
    """Return several as JSON types."""
    return [each.plain() for each in reasons]


def _plain(value: Any) -> Any:
    if isinstance(value, Reason):
        return value.plain()
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value


def _aged(name: str, value: Any, by_s: float) -> Any:
    if isinstance(value, Reason):
        return value.aged(by_s)
    if isinstance(value, list | tuple):
        return [_aged(name, each, by_s) for each in value]
    return round(value + by_s) if name in _LASTING else value


def _codes(value: Any) -> Iterable[str]:
    if isinstance(value, list | tuple):
        return (code for each in value for code in _codes(each))
    return value.codes() if isinstance(value, Reason) else ()


def _param(value: Any, deep: int) -> Any:
    if isinstance(value, list):
        if deep < 0:
            raise ValueError("this is no reason: too much lies within it")
        return [_param(each, deep - 1) for each in value]
    return reason_of(value, deep) if isinstance(value, Mapping) else value
