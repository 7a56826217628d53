"""Who may use a view: declared at the view, checked by the guard before it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

READS: Final = ("GET", "HEAD", "OPTIONS")
View = TypeVar("View", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Access:
    """What a view asks of who uses it."""

    open: bool = False
    """Also without login."""
    role: str | None = None
    """`viewer` or `admin`; None: viewers may read, administrators may change."""
    scope: str | None = None
    """Tokens that may: `metrics`, `read`, `change`; `session`: none, people only."""

    def needs_admin(self, method: str) -> bool:
        """Return whether a viewer may not."""
        return (self.role or ("viewer" if method in READS else "admin")) == "admin"

    def needs_scope(self, method: str) -> str:
        """Return the scope that a token needs."""
        return self.scope or ("read" if method in READS else "change")


def access(
    *, open: bool = False, role: str | None = None, scope: str | None = None
) -> Callable[[View], View]:
    """Declare who may use a view that is a page; routes of the API say it in `route`."""

    def decorate(view: View) -> View:
        view.naproxy_access = Access(open, role, scope)  # type: ignore[attr-defined]
        return view

    return decorate


def access_of(view: Callable[..., Any] | None) -> Access:
    """Return what a view declared."""
    declared = getattr(view, "naproxy_access", None)
    return declared if isinstance(declared, Access) else Access()
