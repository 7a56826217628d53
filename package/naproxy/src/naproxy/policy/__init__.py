"""Policies decide when a server may sleep.

A policy's module has `Settings`, the dataclass of its keys in [server.policy], and
`make(settings, setup)`, which returns the policy.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import Any, Final

from naproxy.policy.base import Policy

POLICIES: Final[dict[str, str]] = {
    "schedule": "naproxy.policy.schedule",
    "teacher": "naproxy.policy.teacher",
    "thesis": "naproxy.policy.thesis",
    "timeout": "naproxy.policy.timeout",
}
"""Module of each policy, by the name it has in the configuration."""


@dataclass(frozen=True, slots=True)
class Setup:
    """The parts of a server's configuration that every policy gets."""

    break_even_s: float
    """The gap whose saving pays for one sleep and wake, `Power.break_even_s`."""

    fraction: float
    delta_s: float
    sleep_s: float
    wake_s: float

    where: tzinfo = UTC
    """The office's zone: its days and hours are those that its clocks show."""


def settings(name: str) -> type:
    """Return the dataclass of a policy's keys."""
    cls: type = importlib.import_module(POLICIES[name]).Settings
    return cls


def make(options: Any, setup: Setup) -> Policy:
    """Make the policy whose settings are `options`."""
    made: Policy = importlib.import_module(POLICIES[options.name]).make(options, setup)
    return made
