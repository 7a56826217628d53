"""The build's last look at a root file system: do its programs run, is anything in it unused?"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

COMMON = Path(__file__).resolve().parents[2] / "board/common"
FOLDERS = ("bin", "sbin", "lib", "usr/bin", "usr/sbin", "usr/lib", "usr/libexec")

pytestmark = pytest.mark.skipif(not shutil.which("gcc"), reason="no gcc")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for folder in FOLDERS:
        (tmp_path / "root" / folder).mkdir(parents=True)
    return tmp_path / "root"


def compiled(file: Path, code: str, *options: str) -> None:
    subprocess.run(
        ["gcc", "-O2", "-x", "c", "-", "-o", file, *options], input=code, text=True, check=True
    )


def with_libraries(root: Path, program: str) -> None:
    """Put one of Debian's programs into a root file system, with all that it is linked with."""
    found = shutil.which(program)
    assert found
    shutil.copy(found, root / "usr/sbin" / program)
    listed = subprocess.run(["ldd", found], capture_output=True, text=True, check=True).stdout
    for word in listed.split():
        if word.startswith("/"):
            place = root / word.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(word, place)


def look(script: str, root: Path, path: str = "/usr/sbin:/usr/bin:/sbin:/bin") -> tuple[int, str]:
    done = subprocess.run(
        [COMMON / script, root],
        env={"PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.mark.skipif(not shutil.which("qemu-x86_64"), reason="no qemu-user")
class TestStart:
    """`start-programs`, with qemu-user."""

    def test_programs_of_a_distribution_start(self, root: Path) -> None:
        # unsquashfs has "FATAL errors" among the words of its help.
        for program in ("haproxy", "lighttpd", "nft", "unsquashfs"):
            with_libraries(root, program)
        (root / "sbin/reboot").symlink_to("../usr/sbin/nft")
        (root / "usr/bin/script").write_text("#!/bin/sh\nexit 1\n")
        (root / "usr/bin/script").chmod(0o755)
        assert look("start-programs", root) == (0, "start-programs: 4 programs start\n")

    def test_a_program_without_its_library_stops_the_build(self, root: Path) -> None:
        with_libraries(root, "haproxy")
        next(root.rglob("libpcre2-*")).unlink()
        status, said = look("start-programs", root)
        assert status == 1
        assert "/usr/sbin/haproxy does not run" in said
        assert "libpcre2" in said

    def test_a_library_of_the_machine_that_builds_is_not_taken_for_the_images(
        self, root: Path
    ) -> None:
        with_libraries(root, "true")
        library = root / "usr/lib/libz.so.1"  # every Debian has another of that name
        shared = ("-shared", "-fPIC", "-Wl,-soname,libz.so.1")
        compiled(library, "int only_here(void) { return 0; }", *shared)
        calls = "int only_here(void); int main(void) { return only_here(); }"
        compiled(root / "usr/bin/program", calls, f"-Wl,{library}")
        assert look("start-programs", root) == (0, "start-programs: 2 programs start\n")
        compiled(library, "int another(void) { return 0; }", *shared)
        status, said = look("start-programs", root)
        assert status == 1
        assert "/usr/bin/program does not run" in said

    def test_a_program_that_the_processor_cannot_run_stops_the_build(self, root: Path) -> None:
        compiled(root / "bin/wrong", "int main(void) { __builtin_trap(); }", "-static")
        status, said = look("start-programs", root)
        assert status == 1
        assert "/bin/wrong does not run" in said

    def test_a_program_that_its_compiler_broke_stops_the_build(self, root: Path) -> None:
        # HAProxy's own look for a compiler that takes overflow for impossible.
        code = """
            #include <stdio.h>
            volatile int one = 1;
            static int grows(int n) { return n + 0x7fffffff >= n; }
            int main(void) {
                if (!grows(one)) return 0;
                fprintf(stderr, "FATAL ERROR: invalid code detected\\n");
                return 1;
            }
        """
        compiled(root / "bin/haproxy", code, "-static")
        status, said = look("start-programs", root)
        assert status == 1
        assert "FATAL ERROR: invalid code detected" in said
        compiled(root / "bin/haproxy", code, "-static", "-fwrapv")
        assert look("start-programs", root)[0] == 0


def test_without_qemu_the_build_says_that_nothing_was_started(root: Path, tmp_path: Path) -> None:
    compiled(root / "bin/good", "int main(void) { return 0; }", "-static")
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("mktemp", "rm", "head", "od", "tr", "find", "sed", "sort", "paste"):
        (tools / tool).symlink_to(shutil.which(tool) or "")
    status, said = look("start-programs", root, path=str(tools))
    assert status == 0
    assert "no program was started: qemu-x86_64 is not installed" in said


def test_cxx_libraries_that_nothing_links_are_removed(root: Path) -> None:
    for name in ("libstdc++.so.6.0.30", "libgpiodcxx.so.2.1", "libgpiod.so.3"):
        (root / "usr/lib" / name).write_bytes(b"\x7fELF")
    (root / "usr/lib/libgpiodcxx.so.2.1").write_bytes(b"\x7fELF libstdc++.so.6")
    (root / "usr/lib/libstdc++.so.6").symlink_to("libstdc++.so.6.0.30")
    (root / "lib/libstdc++.so.6").write_bytes(b"\x7fELF")  # a toolchain from elsewhere
    assert look("drop-unlinked", root)[0] == 0
    assert [file.name for file in root.rglob("*.so*")] == ["libgpiod.so.3"]


def test_a_cxx_library_that_a_program_links_stays(root: Path) -> None:
    library = root / "usr/lib/libstdc++.so.6"
    library.write_bytes(b"\x7fELF")
    compiled(
        root / "usr/bin/cpp-program",
        "int main(void) { return 0; }",
        *("-Wl,--no-as-needed", "-l:libstdc++.so.6"),
    )
    assert look("drop-unlinked", root)[0] == 0
    assert library.exists()


def test_the_compiler_is_the_wrapper_wherever_the_toolchain_comes_from(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for other in ("toolchain-wrapper", "arm-none-eabi-gcc", "gcc"):
        (tools / other).touch()
    assert look("compiler", tmp_path)[0] == 1
    for name in ("x86_64-linux-gnu-gcc", "i586-buildroot-linux-gnu-gcc"):
        (tools / name).symlink_to("toolchain-wrapper")
        assert look("compiler", tmp_path) == (0, f"{tools / name}\n")
        (tools / name).unlink()


def test_haproxy_of_the_image_is_compiled_with_wrapping_integers() -> None:
    text = (COMMON.parents[1] / "buildroot-external/external.mk").read_text()
    makefile = f"HAPROXY_CFLAGS = -O2\n{text}\nshow:\n\t@echo $(HAPROXY_CFLAGS)\n"
    said = subprocess.run(
        ["make", "-s", "-f", "-", "show"],
        input=makefile,
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.split() == ["-O2", "-fwrapv"]
