"""What the box does for itself: network, time, name, backup, logs, restart (docs/box.md).

What belongs to the machine and not to Naproxy is done only where `--platform` says that the
whole machine is ours; elsewhere the API says whose it is.
"""

from typing import Final

MOST_BYTES: Final = 1 << 29
"""Of a backup, and of the history in it."""

LEAVE_FREE_BYTES: Final = 128 << 20
"""So much of the disk is left for the history and the system."""
