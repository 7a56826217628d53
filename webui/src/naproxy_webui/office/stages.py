"""The shape of a wake's stages, as naproxy/server/stages.py has them."""

from __future__ import annotations

from typing import Final

from naproxy.api.shapes import choice, number, obj
from naproxy.server import stages

STAGE: Final = obj(stage=choice(*stages.NAMES), took_s=number())
"""One stage; they come in their order."""
