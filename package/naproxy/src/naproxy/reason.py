"""Why something is so, or was refused: a code and its parameters, never a sentence.

Programs pass reasons on as they are, through the API to the web interface. `naproxy.words` makes
them into words, once, where people read them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Reason:
    """`code` names the text in the catalogues; `params` are what the text has places for.

    A parameter is a number, a text, or a list of these. Two reasons are equal if code and
    parameters are.
    """

    __slots__ = ("code", "params")

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
        """Return the English words: for the log and the terminal."""
        from naproxy.words import words  # noqa: PLC0415 - catalogues are read by who needs them

        return words(self)

    def plain(self) -> dict[str, Any]:
        """Return JSON types; `reason_of` takes them back."""
        return {"code": self.code, "params": self.params}


class WrongError(ValueError):
    """What was given is wrong, for a reason."""

    def __init__(self, code: str, /, **params: Any) -> None:
        """Take what `Reason` takes."""
        super().__init__(code)
        self.reason = Reason(code, **params)

    def __str__(self) -> str:
        return str(self.reason)


def reason_of(plain: Mapping[str, Any]) -> Reason:
    """Return the reason that `Reason.plain` gave."""
    return Reason(plain["code"], **plain["params"])
