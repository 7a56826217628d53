"""The box's own affairs: network, time, name, backup, logs, restart (docs/box.md).

It changes the machine itself only if `--platform` says that the whole machine is ours; elsewhere
the API names the owner.
"""

from typing import Final

MOST_BYTES: Final = 1 << 29
"""Of a backup, and of the history in it."""

LEAVE_FREE_BYTES: Final = 128 << 20
"""So much of the disk is left for the history and the system."""
