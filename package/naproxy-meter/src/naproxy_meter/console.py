"""A person's way to a meter: watch it, or give it one command.

python3 -m naproxy_meter.console /dev/ttyACM0
python3 -m naproxy_meter.console /dev/ttyACM0 set shunt_uohm 100000
"""

from __future__ import annotations

import sys
import time

from serial import Serial

from .host import MeterFault, Reading, Reply, Tracker, command

ANSWER_S = 10.0
TAG = "console"


def watch(port: Serial) -> None:
    """Print what comes, for ever."""
    tracker = Tracker(time.monotonic())
    port.write(command(TAG, "hello"))
    while True:
        data = port.read(port.in_waiting or 1)
        now_s = time.monotonic()
        for item in tracker.feed(data, now_s):
            if isinstance(item, Reading) and item.power_w is not None:
                print(
                    f"{item.power_w:8.3f} W  {item.voltage_v:6.3f} V  {item.current_a:7.4f} A",
                    *item.flags,
                )
            else:
                print(item)
        try:
            tracker.check_silence(now_s)
        except MeterFault as fault:
            print(fault)


def ask(port: Serial, words: str, answer_s: float = ANSWER_S) -> Reply:
    """Give one command and wait for its answer. Raises TimeoutError, OSError."""
    tracker = Tracker(time.monotonic())
    port.write(command(TAG, words))
    end_s = time.monotonic() + answer_s
    while (left_s := end_s - time.monotonic()) > 0:
        port.timeout = left_s
        for item in tracker.feed(port.read(port.in_waiting or 1), 0.0):
            if isinstance(item, Reply) and item.tag == TAG:
                return item
    raise TimeoutError(f"no answer within {answer_s} s: is this a naproxy meter?")


def main() -> None:
    """Entry point."""
    if len(sys.argv) < 2:
        sys.exit("usage: python3 -m naproxy_meter.console PORT [COMMAND ...]")
    try:
        port = Serial(sys.argv[1], timeout=1.0, write_timeout=ANSWER_S, exclusive=True)
        if len(sys.argv) == 2:
            watch(port)
        reply = ask(port, " ".join(sys.argv[2:]))
    except OSError as error:
        sys.exit(f"{sys.argv[1]}: {error}")
    print(reply.words if reply.accepted else f"refused: {reply.words}")
    sys.exit(not reply.accepted)


if __name__ == "__main__":
    main()
