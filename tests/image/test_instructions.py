"""The scan finds what a Geode cannot run, and nothing else."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "board/common/instructions.py"

# As an assembler for x86 writes them: name, code, what is wrong.
PLANTED = {
    "sse": (b"\x0f\x28\xc1", "SSE"),  # movaps %xmm1,%xmm0
    "sse2": (b"\xf2\x0f\x58\xc1", "SSE"),  # addsd %xmm1,%xmm0
    "mxcsr": (b"\x0f\xae\x55\xf8", "SSE"),  # ldmxcsr -0x8(%ebp)
    "fence": (b"\x0f\xae\xf0", "SSE"),  # mfence
    "nopl": (b"\x0f\x1f\x40\x00", "long nop"),  # nopl 0x0(%eax)
    "nopw": (b"\x66\x0f\x1f\x44\x00\x00", "long nop"),  # nopw 0x0(%eax,%eax,1)
    "nopw_long": (b"\x66\x2e\x0f\x1f\x84\x00\x00\x00\x00\x00", "long nop"),
    "endbr": (b"\xf3\x0f\x1e\xfb", "endbr"),  # endbr32
}
HARMLESS = {
    "nop": b"\x90",
    "xchg": b"\x66\x90",  # xchg %ax,%ax: the short nop of two bytes
    "lea": b"\x8d\xb4\x26\x00\x00\x00\x00",  # lea 0x0(%esi,%eiz,1),%esi
    "cmov": b"\x0f\x44\xc1",  # cmove %ecx,%eax
    "mmx": b"\x0f\x6f\xc1",  # movq %mm1,%mm0
    "pause": b"\xf3\x90",
}


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("instructions", SCRIPT)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["instructions"] = module
    spec.loader.exec_module(module)
    return module


def elf(code: dict[str, bytes], file: Path) -> Path:
    """Assemble an i386 object with these functions."""
    lines = [".text"]
    for name, data in code.items():
        lines += [f".type {name},@function", f"{name}:", f".byte {','.join(map(str, data))}", "ret"]
    file.parent.mkdir(parents=True, exist_ok=True)
    source = "\n".join(lines) + "\n"
    subprocess.run(["as", "--32", "-o", file, "-"], input=source, text=True, check=True)
    return file


def scan(*paths: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([SCRIPT, *paths], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", PLANTED)
def test_each_planted_instruction_is_found_where_it_is(name: str, tmp_path: Path) -> None:
    code, kind = PLANTED[name]
    done = scan(elf({"before": b"\x90", name: code, "after": b"\x90"}, tmp_path / "planted.o"))
    assert done.returncode == 1
    assert f"planted.o: {name}: {kind}, 1\n" in done.stdout


def test_what_a_geode_can_run_is_not(tmp_path: Path) -> None:
    done = scan(elf(HARMLESS, tmp_path / "good.o"))
    assert done.returncode == 0, done.stdout
    assert "1 files, 0 instructions" in done.stdout


def test_a_squashfs_is_looked_through_for_elf_files(tmp_path: Path) -> None:
    root = tmp_path / "root"
    elf(HARMLESS, root / "usr/lib/good.so")
    elf({"main": PLANTED["endbr"][0]}, root / "usr/bin/bad")
    (root / "usr/bin/script").write_text("#!/bin/sh\n# movaps %xmm0,%xmm1\n")
    (root / "usr/bin/link").symlink_to("bad")
    packed = tmp_path / "rootfs.squashfs"
    subprocess.run(["mksquashfs", root, packed, "-quiet", "-no-progress"], check=True)
    done = scan(packed)
    assert done.returncode == 1
    assert "usr/bin/bad: main: endbr, 1\n" in done.stdout
    assert "2 files, 1 instructions" in done.stdout


def test_code_for_another_processor_is_an_error_and_not_clean(tmp_path: Path) -> None:
    file = elf({"main": b"\x90"}, tmp_path / "other.o")
    data = bytearray(file.read_bytes())
    data[18:20] = (62).to_bytes(2, "little")
    file.write_bytes(data)
    done = scan(file)
    assert done.returncode == 2
    assert "not i386 but machine 62" in done.stderr


@pytest.mark.parametrize("content", [b"", b"no squashfs"])
def test_what_cannot_be_read_is_an_error_and_not_clean(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "rootfs.squashfs"
    file.write_bytes(content)
    assert scan(file).returncode == 2
    assert scan(tmp_path / "missing").returncode == 2


def test_a_folder_without_programs_is_an_error_and_not_clean(tmp_path: Path) -> None:
    done = scan(tmp_path)
    assert done.returncode == 2
    assert "no ELF file" in done.stderr


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("nopl   0x0(%eax)", "long nop"),
        ("cs nopw 0x0(%eax,%eax,1)", "long nop"),
        ("data16 cs nopw 0x0(%eax,%eax,1)", "long nop"),
        ("vmovups %ymm0,(%edi)", "SSE"),
        ("call   8049000 <nopl_helper>", None),
        ("call   8049000 <endbr32>", None),
        ("cvtpi2ps %mm0,%xmm0", "SSE"),
        ("nop", None),
    ],
)
def test_an_instruction_as_objdump_writes_it(tool: ModuleType, line: str, kind: str | None) -> None:
    assert tool.kind_of(line) == kind


def test_more_than_the_tables_that_were_looked_at_is_told(tool: ModuleType) -> None:
    place = tool.Finding("usr/lib/libcrypto.so.3", "SHA224_Final@@OPENSSL_3.0.0", "SSE")
    assert not tool.harmful(tool.Counter({place: 1}))
    assert tool.harmful(tool.Counter({place: 2}))
