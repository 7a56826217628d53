"""The access rights of a view: declared at the view, checked by the guard before it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from naproxy.api.routes import Access

View = TypeVar("View", bound=Callable[..., Any])


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
