"""The few settings of a meter, on flash: one sealed line, replaced atomically."""

import os

from .frame import seal, unseal

# name: (default, least, most)
SETTINGS = {
    "shunt_uohm": (100000, 100, 10000000),  # the shunt, as calibrated
    "shunt_offset": (0, -1000, 1000),  # raw shunt value at no current, 10 uV
    "every": (1, 1, 3000),  # readings a frame
}

STORED = "stored"
DEFAULT = "default"
DAMAGED = "damaged"


def check(name: str, text: str) -> int:
    """The value of a setting given as text, or ValueError with the reason against it."""
    if name not in SETTINGS:
        raise ValueError(f"no setting {name[:20]}, there are {' '.join(sorted(SETTINGS))}")
    _, least, most = SETTINGS[name]
    digits = text[1:] if text.startswith("-") else text
    if not digits.isdigit() or len(digits) > 9:
        raise ValueError(f"{name} is not a whole number of at most nine digits")
    value = int(text)
    if not least <= value <= most:
        raise ValueError(f"{name} must be from {least} to {most}")
    return value


def load(path: str) -> "tuple[dict[str, int], str]":
    """(settings, origin). Whatever is wrong with the file, the meter starts."""
    values = {name: limits[0] for name, limits in SETTINGS.items()}
    try:
        with open(path, "rb") as file:
            line = file.read(512)
    except OSError:
        return values, DEFAULT
    try:
        stored = dict(word.split("=") for word in unseal(line.strip()).split(" "))
        return {name: check(name, stored[name]) for name in SETTINGS}, STORED
    except (ValueError, KeyError):
        return values, DAMAGED


def save(path: str, values: "dict[str, int]") -> None:
    """Replace the file; after a power cut there is the old one or the new one. Raises OSError."""
    with open(path + ".new", "wb") as file:
        file.write(seal(" ".join(f"{name}={values[name]}" for name in sorted(values))))
        # MicroPython's littlefs commits when the file is closed; Linux must be told.
        if hasattr(os, "fsync"):
            file.flush()
            os.fsync(file.fileno())
    os.rename(path + ".new", path)
