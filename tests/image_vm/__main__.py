"""`python -m tests.image_vm IMAGE`: start an image in QEMU and show what it does."""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.image_vm.board import BOARDS, FIRMWARE, Board, BoardError, board
from tests.image_vm.bundles import Signer, Workshop
from tests.image_vm.cases import Options, Run, chosen, recover, steps
from tests.image_vm.disks import DiskError
from tests.image_vm.disks import run as run_program
from tests.image_vm.life import Life
from tests.image_vm.place import Place
from tests.image_vm.report import Report
from tests.simulator.office.namespace import ROOT

TOOLS = {
    "qemu-img": "qemu-utils",
    "dnsmasq": "dnsmasq-base",
    "mcopy": "mtools",
    "rauc": "rauc",
    "ssh": "openssh-client",
    "curl": "curl",
    "mosquitto": "mosquitto",
    "mosquitto_sub": "mosquitto-clients",
    "unsquashfs": "squashfs-tools",
    "mksquashfs": "squashfs-tools",
}
KEYS = Path(os.environ.get("NAPROXY_KEYS", ROOT / "build/image/keys"))


def main() -> int:
    """Return 0 if all cases passed and all goals that were measured are met."""
    args = parser().parse_intermixed_args()
    try:
        machine = board(args.board, args.firmware)
        bundle = update_of(args.image, args.bundle)
        needs(machine)
    except (BoardError, DiskError) as error:
        print(f"test-image: {error}", file=sys.stderr)
        return 2
    options = Options(args.cuts, args.boots, args.seed, args.minimal)
    keys = Signer(args.keys / "key.pem", args.keys / "cert.pem")
    logs = args.report.with_suffix("")
    began_s = time.time()
    found = Report()
    raw = {"board": machine.name, "firmware": machine.firmware, "image": args.image.name}
    raw |= {"began_s": began_s}
    raw |= {"seed": args.seed, "card_mb": args.card_mb}
    with tempfile.TemporaryDirectory(prefix="naproxy-image-", dir=args.work) as work:
        directory = Path(work)
        directory.chmod(0o755)
        found.figures |= sizes(args.image, bundle)
        with Place(machine, keep=logs) as place:
            life = Life(place, args.image, directory, args.card_mb * 10**6)
            run = Run(life, found, options, Workshop(bundle, directory, keys), directory)
            go(run, args.only, args.report, raw)
    good = found.write(args.report, **raw, **run.raw, finished=True)
    return 0 if good else 1


def go(run: Run, only: list[str], file: Path, raw: dict[str, object]) -> None:
    """Run the cases; the report is written after each, so that a run that ends early has one."""
    all_steps = steps(run.options, run.life.place.machine.board)
    first, *_ = all_steps
    for name in chosen(list(all_steps), only):
        with run.found.case(name) as case:
            all_steps[name](run, case)
        file.parent.mkdir(parents=True, exist_ok=True)
        run.found.keep(file, **raw, **run.raw)
        if case.result == "failed":
            if name == first:
                return
            with run.found.case(f"recovers-from-{name}") as after:
                recover(run)
            if after.result == "failed":
                return


def update_of(image: Path, bundle: Path | None) -> Path:
    """Return the bundle to use, else the one in the image's folder; DiskError if that fails."""
    for name, file in (("IMAGE", image), ("BUNDLE", bundle)):
        if file and not file.is_file():
            raise DiskError(f"{name}={file}: there is no such file")
    if bundle:
        return bundle
    found = sorted(image.parent.glob("*.raucb"))
    if len(found) != 1:
        raise DiskError(f"{len(found)} bundles beside {image}: name one with BUNDLE=")
    return found[0]


def needs(machine: Board) -> None:
    """Raise DiskError with what must be installed."""
    if os.geteuid() != 0:
        raise DiskError("an office needs root: it makes network namespaces")
    arm = machine.program == "qemu-system-aarch64"
    wanted = {machine.program: "qemu-system-arm" if arm else "qemu-system-x86", **TOOLS}
    if machine.argument:
        wanted["mkimage"] = "u-boot-tools"
    missing = {package for tool, package in wanted.items() if not shutil.which(tool)}
    if "uefi" in {machine.firmware, *(name for name, _ in machine.others.values())}:
        missing |= set() if Path(FIRMWARE["uefi"][-1]).is_file() else {"ovmf"}
    if missing:
        raise DiskError(f"missing: apt install {' '.join(sorted(missing))}")
    has = run_program(machine.program, "-machine", "help").decode()
    if f"\n{machine.hardware.machine} " not in has:
        raise DiskError(f"this QEMU has no {machine.hardware.machine}: raspi4b came with QEMU 9")


def sizes(image: Path, bundle: Path) -> dict[str, object]:
    """Return how large both are, and which they were."""
    return {
        "image_bytes": image.stat().st_size,
        "image_used_bytes": image.stat().st_blocks * 512,
        "bundle_bytes": bundle.stat().st_size,
        "bundle": bundle.name,
        "bundle_sha256": hashlib.sha256(bundle.read_bytes()).hexdigest(),
    }


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    made = argparse.ArgumentParser(prog="test-image", description=__doc__)
    made.add_argument("image", type=Path, help="the disk as it is written to a card; not changed")
    made.add_argument("--bundle", type=Path, help="the update; default: the one beside the image")
    made.add_argument("--board", choices=BOARDS, default=BOARDS[0])
    made.add_argument("--firmware", choices=FIRMWARE, help="what starts the disk; pc-x86_64: uefi")
    made.add_argument("--keys", type=Path, default=KEYS, help="the development key's folder")
    made.add_argument("--minimal", type=Path, help="Buildroot's minimal system, to compare")
    made.add_argument("--report", type=Path, default=ROOT / "build/image/report.json")
    made.add_argument("--work", type=Path, help="where disks go: some GB; default: $TMPDIR")
    made.add_argument("--card-mb", type=int, default=1000, help="the card's size")
    made.add_argument("--cuts", type=int, default=10)
    made.add_argument("--boots", type=int, default=3)
    made.add_argument("--seed", type=int, default=1)
    made.add_argument("only", nargs="*", help="regular expressions: only such cases")
    return made


if __name__ == "__main__":
    sys.exit(main())
