"""The states of a server, and the classes of its clients."""

from __future__ import annotations

from typing import Final

from naproxy.core.page_h import Klass, State

__all__ = ["STATES", "Klass", "State"]

STATES: Final = {state: state.name.lower() for state in State}
