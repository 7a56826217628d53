#!/usr/bin/env python3
"""Look through a root file system for instructions that a Geode LX cannot run.

    instructions.py ROOTFS.squashfs|FOLDER|FILE...

Every ELF file with i386 code is disassembled by objdump. A Geode LX is an i686 with MMX, 3DNow!
and `cmov`, and without SSE, the long `nop` (0F 1F) and CET's `endbr`. What is found is told by
file and function; exit status 1. Code for other processors is an error: then nothing was looked at.

`ALLOWED` are functions that ask the processor before they use such instructions, or that nothing
which was compiled for a Geode can call; and tables that objdump takes for code.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ELF: Final = b"\x7fELF"
MACHINE_AT: Final = 18
I386: Final = 3

_FUNCTION: Final = re.compile(r"^[0-9a-f]+ <(.+)>:$")
_LINE: Final = re.compile(r"^\s*[0-9a-f]+:\t(\S.*)$")
_FORBIDDEN: Final = {
    "SSE": re.compile(
        r"%[xyz]mm\d"
        r"|^(?:ldmxcsr|stmxcsr|vldmxcsr|vstmxcsr|mfence|lfence|clflush|movnti|fisttp\w*)\b"
    ),
    "long nop": re.compile(r"^(?:data16 |cs |[cdefgs]s )*nop[lw]\b"),
    "endbr": re.compile(r"^endbr(?:32|64)\b"),
}

_MXCSR: Final = (
    "feclearexcept@@GLIBC_2.2",
    "fedisableexcept@@GLIBC_2.2",
    "feenableexcept@@GLIBC_2.2",
    "fegetenv@@GLIBC_2.2",
    "fegetexceptflag@@GLIBC_2.2",
    "fegetmode@@GLIBC_2.25",
    "feholdexcept@@GLIBC_2.1",
    "fesetenv@@GLIBC_2.2",
    "fesetexcept@@GLIBC_2.25",
    "fesetexceptflag@GLIBC_2.1",
    "fesetmode@@GLIBC_2.25",
    "fesetround@@GLIBC_2.1",
    "fetestexcept@@GLIBC_2.1",
    "feupdateenv@@GLIBC_2.2",
)

_SMALL_FLOATS: Final = (
    "__divhc3@@GCC_12.0.0",
    "__extendhfdf2@@GCC_12.0.0",
    "__extendhftf2@@GCC_12.0.0",
    "__mulhc3@@GCC_12.0.0",
    "__truncdfbf2@@GCC_13.0.0",
    "__truncdfhf2@@GCC_12.0.0",
    "__trunchfbf2@@GCC_13.0.0",
    "__truncsfbf2@@GCC_13.0.0",
    "__truncsfhf2@@GCC_12.0.0",
    "__trunctfbf2@@GCC_13.0.0",
    "__trunctfhf2@@GCC_12.0.0",
    "__truncxfbf2@@GCC_13.0.0",
    "__truncxfhf2@@GCC_12.0.0",
)

_ASKS: Final = "glibc 2.41: if (CPU_FEATURE_USABLE (SSE))"
_ASKS_INSIDE: Final = "glibc 2.41: __setfpucw, nameless in a stripped file, is behind it and asks"
_UNKNOWN: Final = "gcc 13: for _Float16 and __bf16, known with -msse2 only: nobody calls it"

_TABLE: Final = "OpenSSL 3.5: a table of constants that its assembler keeps between functions"
_TABLES: Final = {
    ("AES_encrypt@@OPENSSL_3.0.0", "SSE"): 1,
    ("AES_encrypt@@OPENSSL_3.0.0-0x1540", "SSE"): 2,
    ("EC_GFp_nist_method@@OPENSSL_3.0.0", "SSE"): 109,
    ("EC_GFp_nist_method@@OPENSSL_3.0.0", "long nop"): 6,
    ("SHA224_Final@@OPENSSL_3.0.0", "SSE"): 1,
    ("UI_UTIL_wrap_read_pem_callback@@OPENSSL_3.0.0", "SSE"): 1,
}
"""As many as there are: in a stripped file much that has no name stands behind each name."""

ALLOWED: Final[dict[tuple[str, str, str], str]] = {
    **{("libm.so.6", name, "SSE"): _ASKS for name in _MXCSR},
    ("libc.so.6", "__signbitf@@GLIBC_2.1", "SSE"): _ASKS_INSIDE,
    **{("libgcc_s.so.1", name, "SSE"): _UNKNOWN for name in _SMALL_FLOATS},
    **{("libcrypto.so.3", name, kind): _TABLE for name, kind in _TABLES},
}
"""File's name, function, kind: why that is no harm."""


class ScanError(Exception):
    """Something could not be looked at, in words."""


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """So many instructions of a kind in a function of a file."""

    file: str
    function: str
    kind: str


def kind_of(instruction: str) -> str | None:
    """Say what is wrong with an instruction as objdump writes it (AT&T), None if nothing."""
    words = instruction.split("#", maxsplit=1)[0].strip()
    return next((kind for kind, form in _FORBIDDEN.items() if form.search(words)), None)


def read(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield function and kind of each bad instruction in what `objdump -d` says."""
    function = "?"
    for line in lines:
        if begins := _FUNCTION.match(line):
            function = begins[1]
        elif (found := _LINE.match(line)) and (kind := kind_of(found[1])):
            yield function, kind


def scan(file: Path, name: str) -> Counter[Finding]:
    """Disassemble one ELF file; ScanError if it is not for i386 or objdump cannot."""
    with file.open("rb") as data:
        head = data.read(MACHINE_AT + 2)
    if (machine := int.from_bytes(head[MACHINE_AT:], "little")) != I386:
        raise ScanError(f"{name}: not i386 but machine {machine} of the ELF list")
    with subprocess.Popen(
        ["objdump", "--disassemble", "--no-show-raw-insn", "--wide", file],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as objdump:
        assert objdump.stdout
        assert objdump.stderr
        found = Counter(Finding(name, function, kind) for function, kind in read(objdump.stdout))
        said = objdump.stderr.read().strip()
    if objdump.returncode != 0:
        raise ScanError(f"{name}: {said}")
    return found


def elf_files(folder: Path) -> Iterator[Path]:
    """Yield every ELF file below a folder once, in order; links are not followed."""
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        with path.open("rb") as data:
            if data.read(len(ELF)) == ELF:
                yield path


def scan_all(folder: Path) -> tuple[int, Counter[Finding]]:
    """Scan a folder; return how many files were looked at, and what was found."""
    count, found = 0, Counter[Finding]()
    for path in elf_files(folder):
        count += 1
        found += scan(path, str(path.relative_to(folder)))
    if not count:
        raise ScanError(f"{folder}: no ELF file in it")
    return count, found


def harmful(found: Counter[Finding]) -> Counter[Finding]:
    """Leave out what is allowed."""
    return Counter(
        {
            each: number
            for each, number in found.items()
            if (Path(each.file).name, each.function, each.kind) not in ALLOWED
            or number > _TABLES.get((each.function, each.kind), number)
        }
    )


def main(arguments: list[str]) -> int:
    """Scan what is named; 0 if nothing is wrong, 1 if something is, 2 if it could not be read."""
    if not arguments:
        print(f"usage: {Path(__file__).name} ROOTFS.squashfs|FOLDER|FILE...", file=sys.stderr)
        return 2
    looked_at, found = 0, Counter[Finding]()
    try:
        for argument in map(Path, arguments):
            count, more = _scan_argument(argument)
            looked_at += count
            found += more
    except (ScanError, OSError) as error:
        print(f"instructions: {error}", file=sys.stderr)
        return 2
    bad = harmful(found)
    for each, number in sorted(bad.items()):
        print(f"{each.file}: {each.function}: {each.kind}, {number}")
    print(f"{looked_at} files, {sum(bad.values())} instructions that a Geode cannot run")
    if allowed := sum(found.values()) - sum(bad.values()):
        print(f"{allowed} more in functions that do no harm")
    return 1 if bad else 0


def _scan_argument(path: Path) -> tuple[int, Counter[Finding]]:
    if path.is_dir():
        return scan_all(path)
    with path.open("rb") as data:
        if data.read(len(ELF)) == ELF:
            return 1, scan(path, path.name)
    with tempfile.TemporaryDirectory() as work:
        root = Path(work) / "root"
        # Devices and owners do not matter here, so no root is needed.
        done = subprocess.run(
            ["unsquashfs", "-quiet", "-no-progress", "-no-xattrs", "-dest", root, path],
            capture_output=True,
            text=True,
            check=False,
        )
        if not root.is_dir():
            raise ScanError(f"{path}: {(done.stderr or done.stdout).strip()}")
        return scan_all(root)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
