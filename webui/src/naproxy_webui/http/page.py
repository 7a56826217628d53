"""What a page of the web interface is."""

from __future__ import annotations

from flask import Blueprint


class Page(Blueprint):
    """A page that people see; its title in the navigation is the text `nav.NAME`.

    What only answers programs is a plain Blueprint.
    """

    def __init__(self, name: str, module: str, path: str, *, place: int | None = None) -> None:
        """`place`: order in the navigation; None: it is not there."""
        super().__init__(name, module)
        self.path = path
        self.place = place
