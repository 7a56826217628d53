"""Count what the drivers make of public collections: read, refused in words, silently wrong.

`NUT` is a clone of https://github.com/networkupstools/nut-ddl, each `REDFISH` a folder of answers
as JSON, such as https://github.com/DMTF/Redfish-Mockup-Server. The truth about each is found apart
from the drivers: see `ups_range` and `chassis_watts`. Exits with 1 if any reading is wrong.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from naproxy.drivers.meter import Fault, nut, redfish

Outcome = tuple[str, str]
"""`read`, `refused`, `wrong` or `nothing`, and why."""


def ups_outcome(dump: Path) -> Outcome:
    """Ask the driver as upsd would be asked; what is `nothing` has no power to tell."""
    lines = [line.split("#")[0].strip() for line in dump.read_text(errors="replace").splitlines()]
    told = dict(line.split(":", 1) for line in lines if re.match(r"[a-zA-Z][^ :]*:", line))
    said = {name: value.strip() for name, value in told.items()}
    text = "".join(f'VAR ups {name} "{_quoted(value)}"\n' for name, value in said.items())
    try:
        power_w = nut.parse(nut.variables(text)).power_w
    except Fault as fault:
        return ("refused" if _tells_power(said) else "nothing"), str(fault)
    low, high = ups_range(said, dump.name)
    if not low <= power_w <= high:
        return "wrong", f"{power_w:g} W, but it is {low:.0f} to {high:.0f} W"
    return "read", f"{power_w:g} W"


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')


def _tells_power(said: Mapping[str, str]) -> bool:
    names = ("ups.realpower", "output.realpower", "output.L1.realpower", "ups.L1.realpower")
    load = "ups.load" in said and {"ups.realpower.nominal", "output.realpower.nominal"} & set(said)
    return any(name in said for name in names) or bool(load)


def ups_range(said: Mapping[str, str], name: str) -> tuple[float, float]:
    """Return the least and the most watts that all but the power itself allow.

    The volt-amperes of a UPS stand in its model's name, which a dump's file has, or among its
    variables. Times the load they are an apparent power: the real one is 0.2 to 1 of it, and a
    nominal one more than 0.3.
    """
    low, apparent_va = [0.0], []
    load = _number(said, "ups.load")
    size_va = _number(said, "ups.power.nominal") or _size_va(name)
    if load is not None and load >= 1:
        low.append(0.1)
        if load <= 150 and size_va and 200 <= size_va <= 20_000:
            apparent_va.append(load / 100 * size_va)
            measured = {"ups.realpower", "output.realpower"} & set(said)
            low.append((0.2 if measured else 0.3) * apparent_va[-1])
    if power_va := _number(said, "ups.power"):
        apparent_va.append(power_va)
        low.append(0.2 * power_va - 15)
    voltage, current = _number(said, "output.voltage"), _number(said, "output.current")
    if voltage and current and 90 <= voltage <= 260:
        apparent_va.append(voltage * current)
        low.append(0.2 * voltage * current - 15)
    if not apparent_va or any(".L2" in each for each in said):
        return min(max(low), 0.1), float("inf")
    # A step of the load is 1 %, of the current up to 1 A.
    return max(low), 1.3 * max(apparent_va) + 15


def _size_va(name: str) -> float | None:
    """CyberPower's and APC's are called by their volt-amperes."""
    maker, _, model = name.partition("__")
    found = re.search(r"[1-9][0-9]{2,3}", model.partition("__")[0])
    return float(found[0]) if found and maker in ("Cyber_Power_Systems", "APC") else None


def _number(said: Mapping[str, str], name: str) -> float | None:
    try:
        return float(said[name])
    except (KeyError, ValueError):
        return None


def chassis_outcome(said: Mapping[str, Any]) -> Outcome:
    """Ask the driver for the reading of an answer with a power."""
    try:
        power_w = redfish.parse(said).power_w
    except Fault as fault:
        return "refused", str(fault)
    expected = chassis_watts(said)
    return ("read" if power_w in expected else "wrong"), f"{power_w:g} W, of {expected}"


def chassis_watts(said: Mapping[str, Any]) -> list[float]:
    """Return what may be the whole's power: the largest, and never 0 of a machine that answers."""
    controls = [each.get("PowerConsumedWatts") for each in said.get("PowerControl", [])]
    sensor = said.get("PowerWatts")
    controls.append(sensor.get("Reading") if isinstance(sensor, dict) else sensor)
    return [max(found)] if (found := [each for each in controls if each]) else []


def answers(folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield the resources with a power of a chassis, not schemas and parts of resources."""
    for file in sorted(folder.rglob("*.json")):
        try:
            said = json.loads(file.read_bytes())
        except (ValueError, RecursionError):
            continue
        kind = said.get("@odata.type", "") if isinstance(said, dict) else ""
        if re.match(r"#(?:Power|EnvironmentMetrics)\.", str(kind)) and (
            said.get("PowerControl") or said.get("PowerWatts")
        ):
            yield file, said


def main() -> int:
    """Print the table, and each that is refused or wrong."""
    parser = argparse.ArgumentParser(prog="tests.dumps", description=__doc__)
    parser.add_argument("--nut", type=Path, required=True)
    parser.add_argument("--redfish", type=Path, nargs="*", default=[])
    args = parser.parse_args()
    found: dict[str, Counter[str]] = {}
    for dump in sorted(args.nut.rglob("*.dev")):
        _count(found, args.nut.name, dump, ups_outcome(dump))
    for folder in args.redfish:
        for file, said in answers(folder):
            _count(found, folder.name, file, chassis_outcome(said))
    print("\n| collection | files | read | refused in words | silently wrong |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name, counted in found.items():
        read, refused, wrong = (counted[each] for each in ("read", "refused", "wrong"))
        print(f"| {name} | {read + refused + wrong} | {read} | {refused} | {wrong} |")
    return int(any(counted["wrong"] for counted in found.values()))


def _count(found: dict[str, Counter[str]], collection: str, file: Path, outcome: Outcome) -> None:
    kind, why = outcome
    found.setdefault(collection, Counter())[kind] += 1
    if kind in ("refused", "wrong"):
        print(f"{kind}: {file.name}: {why}")


if __name__ == "__main__":
    sys.exit(main())
