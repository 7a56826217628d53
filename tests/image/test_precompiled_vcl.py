"""VCL that is compiled with the image runs on a box without a compiler.

The box is a chroot: this machine's root with the image's files laid over it, and its C
compiler's place taken by the box's script.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.simulator.office.box import vmods_of_varnish

TOP = Path(__file__).resolve().parents[2]
CC = "/usr/libexec/naproxy-vcl-cc"
VCL = "/usr/share/naproxy/vcl/naproxy.vcl"
VARNISHD = f"""/usr/sbin/varnishd -C -n /tmp/n -p 'cc_command={CC} %s %o' -p vmod_path=VMODS \\
    $(grep -v '^#' /usr/share/naproxy/varnishd.args)"""

IN_BOX = """
set -e
mount -t tmpfs tmpfs "$1"
mkdir "$1/files" "$1/box"
cp -R "$2/." "$1/files"
mount -t overlay -o "lowerdir=$1/files:/" overlay "$1/box"
mount -t tmpfs tmpfs "$1/box/tmp"
mount --rbind /dev "$1/box/dev"
exec chroot "$1/box" /bin/sh -c "$3"
"""


@pytest.fixture(scope="module")
def vmods() -> str:
    return f"/usr/lib/naproxy/vmods:{vmods_of_varnish()}"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, vmods: str) -> Path:
    """The image's files, its VCL compiled."""
    root = tmp_path_factory.mktemp("root")
    (root / "usr/libexec").mkdir(parents=True)
    shutil.copy(TOP / f"overlay{CC}", root / "usr/libexec")
    (root / "usr/lib/naproxy/vmods").mkdir(parents=True)
    shutil.copy(TOP / "build/libvmod-naproxy/libvmod_naproxy.so", root / "usr/lib/naproxy/vmods")
    system = Path(vmods.split(":")[1])
    shutil.copytree(system, root / system.relative_to("/"))
    out = root / Path(VCL).parent.relative_to("/")
    subprocess.run(["make", "-s", "-C", TOP / "varnish-vcl", f"OUT={out}"], check=True)
    shutil.copy(TOP / "varnish-vcl/varnishd.args", root / "usr/share/naproxy")
    precompile(root, vmods)
    return root


def precompile(root: Path, vmods: str, *options: str, vcl: str = VCL) -> None:
    """As the build does it, but quickly."""
    program = TOP / "board/common/vcl-precompile"
    compiler = ("gcc", "-O0", *options)
    subprocess.run([program, root, "varnishd", vmods, vcl, *compiler], check=True)


def in_box(root: Path, vmods: str, vcl: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    command = f"{VARNISHD.replace('VMODS', vmods)} -p vcl_path=/usr/share/naproxy/vcl -f {vcl}"
    return subprocess.run(
        ["unshare", "-m", "sh", "-c", IN_BOX, "sh", tmp_path, root, command],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )


def test_the_box_takes_the_vcl_of_its_image(root: Path, vmods: str, tmp_path: Path) -> None:
    done = in_box(root, vmods, VCL, tmp_path)
    assert done.returncode == 0, done.stderr[-500:]


def test_the_box_refuses_other_vcl_and_says_why(root: Path, vmods: str, tmp_path: Path) -> None:
    (root / "usr/share/naproxy/other.vcl").write_text("vcl 4.1; backend default none;\n")
    done = in_box(root, vmods, "/usr/share/naproxy/other.vcl", tmp_path)
    assert done.returncode != 0
    assert "the box has no compiler, and this VCL is not the image's" in done.stderr


def test_the_same_vcl_has_the_same_name_when_compiled_again(root: Path, vmods: str) -> None:
    compiled = root / "usr/lib/naproxy/vcl"
    before = [file.name for file in compiled.iterdir()]
    precompile(root, vmods)
    assert [file.name for file in compiled.iterdir()] == before
    assert len(before) == 1


def test_it_is_compiled_for_a_processor_that_the_build_machine_is_not(
    root: Path, vmods: str, tmp_path: Path
) -> None:
    other = shutil.copytree(root, tmp_path / "root", symlinks=True)
    precompile(other, vmods, "-m32", "-nostdlib")
    [made] = (other / "usr/lib/naproxy/vcl").glob("*.so")
    assert made.read_bytes()[:5] == b"\x7fELF\x01"


def test_vcl_that_is_wrong_stops_the_build_of_the_image(root: Path, vmods: str) -> None:
    (root / "usr/share/naproxy/vcl/wrong.vcl").write_text("vcl 4.1; sub {\n")
    with pytest.raises(subprocess.CalledProcessError):
        precompile(root, vmods, vcl="/usr/share/naproxy/vcl/wrong.vcl")
