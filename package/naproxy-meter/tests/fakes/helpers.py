"""What tests under CPython and MicroPython share."""

import os


class Clock:
    """Microseconds that pass only when told to."""

    def __init__(self):
        self.now_us = 0

    def __call__(self):
        return self.now_us


def raises(exception, function, *arguments):
    """The exception `function` ends in; an AssertionError when it does not."""
    try:
        function(*arguments)
    except exception as raised:
        return raised
    raise AssertionError(f"{exception.__name__} was not raised")


def forget(*paths):
    """Remove the files that are there."""
    for path in paths:
        try:
            os.remove(path)
        except OSError:
            pass
