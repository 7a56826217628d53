"""A page of the web interface."""

from __future__ import annotations

from flask import Blueprint


class Page(Blueprint):
    """A page that people see; its title in the navigation is the text `nav.NAME`.

    Routes for programs only belong to a plain Blueprint.
    """

    def __init__(self, name: str, module: str, path: str, *, place: int | None = None) -> None:
        """`place`: position in the navigation; None: not in the navigation."""
        super().__init__(name, module)
        self.path = path
        self.place = place
