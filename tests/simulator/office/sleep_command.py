"""What the server's `naproxy-sleep` runs: ask the mainboard, and say so if it refuses.

It imports nothing of the project: Python would take longer to start than the server to sleep.
"""

import json
import socket
import sys


def main() -> int:
    """`python -IS sleep_command.py CONTROL`; exit 1, in words, if inhibited."""
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(sys.argv[1])
        line.sendall(b'{"do": "suspend"}\n')
        # Held commands come back only after the next wake, which may be days.
        words = json.loads(line.makefile("rb").readline()).get("error")
    if words:
        print(words)
    return 1 if words else 0


if __name__ == "__main__":
    sys.exit(main())
