"""Other values for what no office can set: a section's `fixed` fields (`naproxy.core.schema`).

`python fixed.py JSON ARGUMENT ..` is the command `naproxy`, with these values.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

Fixed = Mapping[str, Mapping[str, Any]]
"""Values by the name of the section's class, and of the field."""

CONNECT_AT_ONCE: Final[Fixed] = {"naproxy.config.document.Server": {"connect_timeout_s": 1.0}}
EACH_SECOND: Final[Fixed] = {"naproxy.config.document.Mqtt": {"every_s": 1.0}}
"""What `naproxy mqtt` tells a broker."""
WATCHED: Final[Fixed] = {
    "naproxy.drivers.sleep.SleepSettings": {"expect_s": 1.0},
    "naproxy.drivers.ready.ReadySettings": {"interval_s": 1.0},
}
"""A server that is watched closely."""


def command(fixed: Fixed) -> list[str]:
    """Return the begin of a command line: `naproxy`, with these values."""
    return [sys.executable, __file__, json.dumps(fixed)]


def fix(fixed: Fixed) -> None:
    """Have the classes begin with these values, and those made of them that had the same."""
    for name, values in fixed.items():
        module, _, cls = name.rpartition(".")
        for field, value in values.items():
            _fix(getattr(import_module(module), cls), field, value)


def _fix(cls: Any, name: str, value: object) -> None:
    field = cls.__dataclass_fields__[name]
    assert "fixed" in field.metadata, f"{cls.__name__}.{name} can be set"
    before = field.default
    for each in (cls, *cls.__subclasses__()):
        # A driver that is loaded later is made of the field, one that is there has the default.
        each.__dataclass_fields__[name].default = value
        if each.__init__.__kwdefaults__[name] == before:
            each.__init__.__kwdefaults__[name] = value


if __name__ == "__main__":
    from naproxy.cli.__main__ import main

    fix(json.loads(sys.argv.pop(1)))
    sys.exit(main())
