"""What the server's `naproxy-sleep` runs: ask the mainboard, and say so if it refuses."""

import sys
from pathlib import Path

from tests.simulator.office.mainboard import Mainboard
from tests.simulator.office.namespace import OfficeError


def main() -> int:
    """`python -m tests.simulator.office.sleep_command CONTROL`; exit 1, in words, if inhibited."""
    try:
        # Held commands come back only after the next wake, which may be days.
        Mainboard(Path(sys.argv[1]))("suspend", timeout_s=7 * 86400.0)
    except OfficeError as inhibitor:
        print(inhibitor)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
