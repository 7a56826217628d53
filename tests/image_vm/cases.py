"""The cases of `make test-image`, in their order; each raises if it does not hold."""

from __future__ import annotations

import contextlib
import json
import random
import re
import shlex
import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.image_vm import around, bundles, by_https, report, setup
from tests.image_vm.board import Board, Hardware
from tests.image_vm.bundles import Workshop
from tests.image_vm.console import ConsoleError
from tests.image_vm.disks import (
    GRUBENV,
    flatten,
    layer,
    read_grubenv,
    write_boot_file,
    write_grubenv,
)
from tests.image_vm.disks import run as run_program
from tests.image_vm.life import BOOT_S, CLAIM, HEALTH_S, STARTED, Life, Update
from tests.image_vm.place import Visited
from tests.image_vm.report import Case, Report
from tests.image_vm.ui import Ui
from tests.simulator.office import magic
from tests.simulator.office.box import ADDRESS, HOST
from tests.simulator.office.namespace import ROOT, OfficeError
from tests.simulator.office.server import MAC
from tests.simulator.office.wire import Capture

FINGERPRINT: Final = r"certificate \(SHA-256\)(?: is|:)\s+([0-9A-Fa-f:]{95})"
CALLED: Final = r"Naproxy (naproxy-\w+), address"
LOGIN: Final = r"login: $"
AWHILE_S: Final = 300.0
"""After so long the memory in use is looked at."""
TRIES: Final = 3
GRUBENV_HEADER: Final = b"# GRUB Environment Block\n"
GRUBENV_BYTES: Final = 1024
SSH_KEYS: Final = "ssh-authorized_keys"
HERE: Final = Path(__file__).resolve().parent


@dataclass(slots=True)
class Options:
    """What the run was asked for."""

    cuts: int = 10
    boots: int = 3
    seed: int = 1
    minimal: Path | None = None
    """Buildroot's own minimal system: bzImage and rootfs.ext2."""


@dataclass(slots=True)
class Run:
    """What the cases share."""

    life: Life
    found: Report
    options: Options
    workshop: Workshop
    directory: Path
    typical: Update | None = None
    """How long the good update took."""
    raw: dict[str, Any] = field(default_factory=dict)

    @property
    def dice(self) -> random.Random:
        """Return dice that fall the same in every run."""
        return random.Random(self.options.seed)


Step = Callable[[Run, Case], None]


# The box as it comes out of its bag


def claimable(run: Run, case: Case) -> str:
    """Switch on a new card; return the claim code that it says on the console."""
    life = run.life
    machine = life.place.machine
    code = machine.switch_on(life.disk).expect(CLAIM, BOOT_S)[1]
    took_s = time.monotonic() - machine.on_since_s
    run.found.figures["first_start_to_claim_code_s"] = round(took_s, 1)
    case.words = f"claim code after {took_s:.0f} s; slot {life.slot()}"
    return code


def first_start(run: Run, case: Case) -> None:
    """A new card starts, says its claim code on the console, is claimed and set up."""
    life = run.life
    code = claimable(run, case)
    setup.wait(life.ui.answers, "the web interface", BOOT_S)
    life.place.machine.screenshot(life.place.logs / "screen.png")
    setup.claim(life.ui, code)
    setup.set_up(life.ui, life.place.server)
    life.settled()


def starts_alone(run: Run, case: Case) -> None:
    """A new card starts and says its claim code; no network leads to it."""
    claimable(run, case)
    run.life.place.machine.console.expect(FINGERPRINT, BOOT_S)


def wakes_the_server(run: Run, case: Case) -> None:
    """The server sleeps by the box's order; who asks has it woken by a packet on its wire."""
    place = run.life.place
    case.words = wake(place, run.life.ui, place.served)


def wake(place: Visited, ui: Ui, asked: Callable[[], bool]) -> str:
    """Have the server fall asleep by itself, ask for a page; return what was seen.

    `asked` asks and says whether the page came from the server.
    """
    setup.hurry_to_sleep(ui)
    setup.await_state(ui, "asleep", 120.0)
    if place.server.board.state != "off":
        raise OfficeError(f"asleep by the box's word, and the server is {place.server.board.state}")
    with Capture(place.server, "ether proto 0x0842 or udp") as wire:
        began_s = time.monotonic()
        if not asked():
            raise OfficeError("what was asked for did not come from the server")
        waited_s = time.monotonic() - began_s
        seen = [frame for frame in wire.frames() if magic.wakes(frame.data, magic.address(MAC))]
    if not seen:
        raise OfficeError("a page came, and no magic packet for the server was on its wire")
    setup.stay_awake(ui)
    return f"{len(seen)} magic packets; the page after {waited_s:.1f} s"


def interface_answers(run: Run, case: Case) -> None:
    """The web interface answers over TLS, with the certificate that the console names."""
    life = run.life
    said = life.place.machine.console.expect(FINGERPRINT, 10.0)[1].replace(":", "").lower()
    if (shown := life.ui.fingerprint()) != said:
        raise OfficeError(f"the console says {said}, and {shown} is shown")
    if not life.ui.answers():
        raise OfficeError("/api/health does not say that the controller answers")
    case.words = f"SHA-256 {shown[:16]}..."


def https(run: Run, case: Case) -> None:
    """The certificate comes by the web interface; the box serves HTTPS, awake and asleep."""
    case.words = by_https.served(run.life.place, run.life.ui, wake)


def https_passed_on(run: Run, case: Case) -> None:
    """The server has the certificate; the box passes visitors on unopened, awake and asleep."""
    life = run.life
    case.words = by_https.passed_on(life.place, life.ui, wake)


def cold_boot(run: Run, case: Case) -> None:
    """From QEMU's start to the first page, beside Buildroot's minimal system to its login."""
    life, options = run.life, run.options
    pages, logins = [], []
    shown = life.ui.fingerprint()
    for _ in range(options.boots):
        life.switch_off()
        if options.minimal:
            logins.append(minimal_login_s(run, options.minimal))
            run.raw["minimal"] = (options.minimal / "what.txt").read_text().strip()
        pages.append(life.switch_on())
    run.found.figures |= {"first_page_s": statistics.median(pages), "first_pages_s": pages}
    if logins:
        logins_s = {"minimal_login_s": statistics.median(logins), "minimal_logins_s": logins}
        run.found.figures |= logins_s
    life.settled()
    if (now := life.ui.fingerprint()) != shown:
        raise OfficeError(f"the certificate was {shown}, and after a start it is {now}")
    case.words = ", ".join(f"{page:.1f} s" for page in pages)


def minimal_login_s(run: Run, minimal: Path) -> float:
    """Start Buildroot's minimal system on the same machine; return the seconds to its login."""
    machine = run.life.place.machine
    disk = layer(minimal / "rootfs.ext2", run.directory / "minimal.qcow2", form="raw")
    command_line = f"rootwait root={machine.board.hardware.root} console=tty1 console=ttyS0"
    console = machine.switch_on(disk, "-kernel", minimal / "bzImage", "-append", command_line)
    match = console.expect(LOGIN, BOOT_S)
    took_s = console.when(match.start()) - machine.on_since_s
    machine.cut_power()
    return took_s


def memory(run: Run, case: Case) -> None:
    """Five minutes after a start, with all that runs on a box: what the box itself says."""
    life = run.life
    up_s = time.monotonic() - life.place.machine.on_since_s
    time.sleep(max(0.0, AWHILE_S - up_s))
    life.settled()
    texts = life.ui.diagnostics()
    figures = report.memory(texts["memory.txt"])
    run.found.figures["memory"] = figures
    run.raw["processes"] = texts["processes.txt"].splitlines()
    case.words = f"{figures['in_use_mb']:.0f} MB of {figures['total_mb']:.0f} MB"


# What the image ships, and what it serves


def drivers(run: Run, case: Case) -> None:
    """Each driver's programs start, its modules are there, its kernel's options, its devices."""
    life = run.life
    board = life.place.machine.board
    with (
        let_in(run, "drivers") as ask,
        contextlib.closing(life.place.machine.plug_in_serial()),
    ):
        port = setup.find_port(life.ui)
        lacks = ask("drivers", *board.devices)
    run.found.figures["drivers"] = len(lacks)
    if missing := {driver: what for driver, what in lacks.items() if what}:
        raise OfficeError(f"{len(missing)} of {len(lacks)} drivers lack something: {missing}")
    case.words = f"{len(lacks)} drivers lack nothing; port {port}"


def services(run: Run, case: Case) -> None:
    """Each program of the image starts; each service gives the answer that it is there for."""
    life = run.life
    place, ui = life.place, life.ui
    by_https.offered(place, ui)
    with let_in(run, "services") as ask:
        programs = ask("programs")
        with around.broker(place, ui, run.directory), around.fleet(place, ui):
            told = ask("services", HOST)
        around.named(place, re.findall(CALLED, place.machine.console.text)[-1])
    around.nothing_around(ui)
    by_https.ended(ui)
    asked = {path.name for path in (ROOT / "overlay/etc/service").iterdir()}
    run.found.figures |= {"programs": len(programs), "services": sorted(told)}
    bad = {name: why for name, why in (programs | told).items() if why}
    if bad or not {"varnish", "edge", "mqtt", "hawkbit", "sshd"} <= set(told) <= asked:
        raise OfficeError(f"of {len(programs)} programs and {sorted(told)}: {bad}")
    case.words = f"{len(programs)} programs start, {len(told)} services answer"


@contextlib.contextmanager
def let_in(run: Run, why: str) -> Iterator[Callable[..., dict[str, Any]]]:
    """Start the box with a key on its boot partition; `on_the_box.py` can be asked there."""
    life = run.life
    key = run.directory / "key"
    key.unlink(missing_ok=True)
    run_program("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
    life.switch_off()
    image = flatten(life.disk, run.directory / f"key-{why}.img")
    write_boot_file(image, SSH_KEYS, key.with_suffix(".pub").read_bytes())
    life.add_layer(image, "raw")
    life.switch_on()
    life.settled()
    program = (HERE / "on_the_box.py").read_text()

    def ask(*words: str) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(
            on_the_box(run, key, "python3", "-", *words, stdin=program)
        )
        return told

    yield ask
    on_the_box(run, key, "rm", f"/bootpart/{SSH_KEYS}")


def on_the_box(run: Run, key: Path, *argv: str, stdin: str = "") -> str:
    """Run a command there as the person with the key."""
    ssh: list[str | Path] = [
        *("ssh", "-i", key, "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no"),
        *("-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", f"root@{ADDRESS}"),
    ]
    command = shlex.join(argv)
    return run.life.place.client.run([*ssh, command], stdin=stdin, timeout_s=BOOT_S).stdout


def on_another(other: tuple[str, Hardware]) -> Step:
    """Make a case: another machine starts this disk, and serves."""

    def step(run: Run, case: Case) -> None:
        life = run.life
        life.switch_off()
        page_s = life.switch_on(other)
        life.settled()
        run.found.figures.setdefault("others_s", {})[case.name] = round(page_s, 1)
        life.switch_off()
        life.switch_on()
        life.settled()
        _, hardware = other
        case.words = f"{hardware.root}, {hardware.card}: a page after {page_s:.1f} s"

    return step


# Updates


def good_update(run: Run, case: Case) -> None:
    """The bundle as it was built: written, started from the other slot, confirmed."""
    life = run.life
    was = life.slot()
    run.typical = life.go_through(run.workshop.good)
    if life.slot() == was:
        raise OfficeError(f"slot {was} runs again")
    run.found.figures["update_s"] = {
        name: round(getattr(run.typical, name), 1) for name in Update.__dataclass_fields__
    }
    case.words = f"slot {was} to {life.slot()}, confirmed after {run.typical.confirmed_s:.0f} s"


def refused(make: Callable[[Run], Path], why: set[str]) -> Step:
    """Make a case: a bundle that is refused when it is looked at, and changes nothing."""

    def step(run: Run, case: Case) -> None:
        life = run.life
        before = life.update()["slots"]
        job = life.offer(make(run))
        if job["phase"] != "refused" or job["why"] not in why:
            raise OfficeError(f"{job['phase']}, {job['why']!r}: {job['error']}")
        if life.update()["slots"] != before:
            raise OfficeError("it was refused, and the slots are not what they were")
        life.settled()
        case.words = job["error"]

    return step


def changed(run: Run, case: Case) -> None:
    """A byte of the system is another one: it is refused when it is read, and never started."""
    life = run.life
    was = life.slot()
    job = life.offer(run.workshop.changed())
    if job["phase"] == "ready":
        try:
            life.write()
        except OfficeError as error:
            job["error"] = str(error)
        else:
            raise OfficeError("it was written")
    booted = [slot for slot in life.update()["slots"] if slot["boots_next"]]
    if [slot["booted"] for slot in booted] != [True]:
        raise OfficeError(f"what would start next: {booted}")
    if life.slot() != was:
        raise OfficeError("the other slot runs")
    life.settled()
    case.words = job["error"]


def falls_back(name: str, change: bundles.Change, number: int) -> Step:
    """Make a case: a bundle that is well signed and does not work gives way by itself."""

    def step(run: Run, case: Case) -> None:
        life = run.life
        was = life.slot()
        other = "B" if was == "A" else "A"
        bundle = run.workshop.broken(name, change, f"99.0.{number}")
        mark = life.install(bundle)
        bundle.unlink()
        began_s = time.monotonic()
        if change is not bundles.no_kernel:
            # Without a kernel nothing says that it was tried; that it was is GRUB's to say.
            mark = life.starts(other, mark, BOOT_S)
        # A boot loader may give it three tries.
        came_back = life.starts(was, mark, TRIES * (HEALTH_S + BOOT_S))
        life.settled()
        took_s = time.monotonic() - began_s
        if life.slot() != was:
            raise OfficeError(f"slot {life.slot()} runs, and not {was}")
        run.found.figures.setdefault("fallback_s", {})[name] = round(took_s, 1)
        tries = len(re.findall(STARTED, life.place.machine.console.text[mark:came_back]))
        case.words = f"slot {was} again after {took_s:.0f} s, {tries} starts of {other}"

    return step


# Power cuts and what they may leave


def power_cut(number: int, of: int) -> Step:
    """Make a case: the power fails in this one of so many parts of an update."""

    def step(run: Run, case: Case) -> None:
        life = run.life
        if run.typical is None:
            raise OfficeError("no update went through, so nobody knows how long one takes")
        part = [run.dice.random() for _ in range(of)][number]
        after_s = (number + part) / of * run.typical.confirmed_s
        how_far = life.cut_in(run.workshop.good, after_s)
        page_s = life.switch_on()
        life.settled()
        case.words = f"after {after_s:.1f} s ({how_far}); a page {page_s:.1f} s later"
        run.raw.setdefault("cuts", []).append({"after_s": after_s, "in": how_far, "page_s": page_s})

    return step


def bad_grubenv(name: str, content: Callable[[random.Random], bytes | None]) -> Step:
    """Make a case: what GRUB remembers is damaged; the box starts, and mends it."""

    def step(run: Run, case: Case) -> None:
        life = run.life
        life.switch_off()
        image = flatten(life.disk, run.directory / f"grubenv-{name}.img")
        for copy in GRUBENV:
            write_grubenv(image, copy, content(run.dice))
        life.add_layer(image, "raw")
        page_s = life.switch_on()
        life.settled()
        life.switch_off()
        after = flatten(life.disk, run.directory / "after.img")
        mended = [read_grubenv(after, copy) for copy in GRUBENV]
        after.unlink()
        life.switch_on()
        life.settled()
        if not all(whole(copy) for copy in mended):
            raise OfficeError(f"it starts, and what GRUB remembers is still broken: {mended}")
        case.words = f"a page after {page_s:.1f} s, slot {life.slot()}"

    return step


def whole(grubenv: bytes) -> bool:
    """Whether GRUB can read and write it."""
    return len(grubenv) == GRUBENV_BYTES and grubenv.startswith(GRUBENV_HEADER)


def update_after(run: Run, case: Case) -> None:
    """After all that an update still goes through."""
    took = run.life.go_through(run.workshop.good)
    case.words = f"confirmed after {took.confirmed_s:.0f} s"


def data_kept(run: Run, case: Case) -> None:
    """Settings and history are those of the first day."""
    run.life.settled()
    case.words = f"looked at {run.life.checks} times"


def steps(options: Options, board: Board) -> dict[str, Step]:
    """Return the cases by name, in order."""
    if not board.reachable:
        return {"starts-alone": starts_alone}
    made: dict[str, Step] = {
        "first-start": first_start,
        "wake": wakes_the_server,
        "interface": interface_answers,
        "cold-boot": cold_boot,
        "wake-again": wakes_the_server,
        "memory": memory,
        "drivers": drivers,
        "https": https,
        "services": services,
        "https-passed-on": https_passed_on,
        **{f"starts-{name}": on_another(other) for name, other in board.others.items()},
        "refused-signature": refused(_strangers, {"signature"}),
        "refused-unsigned": refused(lambda run: run.workshop.unsigned(), {"signature", "format"}),
        "refused-truncated": refused(
            lambda run: run.workshop.truncated(), {"signature", "format", "file"}
        ),
        "refused-board": refused(
            lambda run: run.workshop.for_board("naproxy-another-board"), {"board"}
        ),
        "refused-changed": changed,
        "update": good_update,
    }
    broken = (
        ("panic", bundles.panics),
        ("no-kernel", bundles.no_kernel),
        ("start-hangs", bundles.start_hangs),
        ("init-hangs", bundles.init_hangs),
        ("unhealthy", bundles.varnish_ends),
    )
    for number, (name, change) in enumerate(broken, 1):
        made[f"falls-back-{name}"] = falls_back(name, change, number)
    for number in range(options.cuts):
        made[f"power-cut-{number + 1}"] = power_cut(number, options.cuts)
    damages: dict[str, Callable[[random.Random], bytes | None]] = {
        "zeros": lambda _dice: bytes(GRUBENV_BYTES),
        "rubbish": lambda dice: dice.randbytes(GRUBENV_BYTES),
        "removed": lambda _dice: None,
    }
    for damage, content in damages.items() if board.bootloader == "grub" else ():
        made[f"grubenv-{damage}"] = bad_grubenv(damage, content)
    return made | {"update-after-all": update_after, "data": data_kept}


def chosen(names: list[str], patterns: list[str]) -> list[str]:
    """Return the names that a pattern (a regular expression) is found in; the first always."""
    if not patterns:
        return names
    return [
        name
        for number, name in enumerate(names)
        if number == 0 or any(re.search(pattern, name) for pattern in patterns)
    ]


def recover(run: Run) -> None:
    """Bring the box back after a case that failed; from its last layer, else as it was claimed."""
    machine = run.life.place.machine
    try:
        run.life.settled(10.0)
    except (OSError, OfficeError, ConsoleError):
        log = machine.console_log()
        if log.exists():
            shutil.copy(log, run.directory / f"failed-{log.name}")
        machine.cut_power()
        run.life.switch_on()
        run.life.settled()


def _strangers(run: Run) -> Path:
    return run.workshop.signed_by(bundles.stranger(run.directory))
