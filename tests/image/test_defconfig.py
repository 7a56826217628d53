"""What is asked of Buildroot, without Buildroot."""

import functools
import re
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
CONFIGS = TOP / "configs"
TOOL = TOP / "board/common/defconfig.py"
BOARDS = [
    "pc-x86_64",
    "qemu-aarch64",
    "qemu-i386",
    "qemu-x86_64",
    "raspberrypi3-64",
    "raspberrypi4-64",
    "raspberrypizero2w-64",
    "soekris-net5501",
]


def tool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, TOOL, *arguments], check=False, capture_output=True, text=True
    )


@functools.cache
def merged(board: str) -> str:
    done = tool("merge", CONFIGS, board)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def configs(tmp_path: Path) -> Path:
    """A board made of two fragments."""
    (tmp_path / "fragments").mkdir()
    (tmp_path / "fragments/one.fragment").write_text('BR2_ONE="@BOARD@"\n')
    (tmp_path / "fragments/two.fragment").write_text("# BR2_TWO is not set\n")
    (tmp_path / "box_defconfig").write_text("# from: one two\nBR2_OWN=y\n")
    return tmp_path


def test_every_board_is_there() -> None:
    assert tool("boards", CONFIGS).stdout.split() == BOARDS


def test_a_board_is_its_fragments_and_its_own_lines(configs: Path) -> None:
    text = tool("merge", configs, "box").stdout
    settings = [line for line in text.splitlines() if "BR2" in line]
    assert settings == ['BR2_ONE="box"', "# BR2_TWO is not set", "BR2_OWN=y"]


def test_an_unknown_board_is_refused_with_those_there_are(configs: Path) -> None:
    done = tool("merge", configs, "toaster")
    assert done.returncode == 1
    assert "no board 'toaster': there are box" in done.stderr


OWN = "box_defconfig"


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        (OWN, "# from: one two\nBR2_TWO=y\n", f"{OWN}: BR2_TWO is set in two.fragment already"),
        (
            "fragments/one.fragment",
            "BR2_ONE=y\nBR2_ONE=y\n",
            "fragment:2: BR2_ONE is set twice",
        ),
        *(
            (OWN, f"# from: one two\n{line}\n", f"{OWN}:2: not a setting: {line}")
            for line in ("BR2_OWN = y", "BR2_OWN", "OWN=y", "BR2_OWN is not set", "include this")
        ),
        *(
            (OWN, f"{head}BR2_OWN=y\n", "wants one line '# from: NAME...'")
            for head in ("", "# from: one\n# from: two\n")
        ),
        (OWN, "# from: one three\n", "no fragment three.fragment"),
    ],
)
def test_what_is_wrong_with_a_board_is_refused_with_its_place(
    configs: Path, file: str, text: str, words: str
) -> None:
    (configs / file).write_text(text)
    done = tool("merge", configs, "box")
    assert done.returncode == 1
    assert words in done.stderr


@pytest.mark.parametrize(
    ("asked", "got", "complaint"),
    [
        ("BR2_A=y\n", "BR2_A=y\n", None),
        ("# BR2_A is not set\n", "BR2_B=y\n", None),
        ("BR2_A=y\n", "# BR2_A is not set\n", "BR2_A: asked for y, got n"),
        ("BR2_A=y\n", "BR2_AB=y\n", "BR2_A: asked for y, got n"),
        ("# BR2_A is not set\n", "BR2_A=y\n", "BR2_A: asked for n, got y"),
        ('BR2_A="x"\n', 'BR2_A="y"\n', 'BR2_A: asked for "x", got "y"'),
        ("CONFIG_A=y\n", "CONFIG_A=m\n", "CONFIG_A: asked for y, got m"),
    ],
)
def test_a_lost_symbol_is_found(
    tmp_path: Path, asked: str, got: str, complaint: str | None
) -> None:
    (tmp_path / "asked").write_text(asked)
    (tmp_path / "got").write_text(got)
    done = tool("lost", tmp_path / "asked", "--", tmp_path / "got")
    assert done.returncode == (0 if complaint is None else 1)
    assert (complaint or "") in done.stderr


def test_nothing_asked_for_is_no_success(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("# nothing\n")
    done = tool("lost", tmp_path / "empty", "--", tmp_path / "empty")
    assert done.returncode == 1


def test_files_a_board_names_are_there() -> None:
    for board in BOARDS:
        names = re.findall(r"\$\(BR2_EXTERNAL_NAPROXY_PATH\)/\.\./([^ \"]+)", merged(board))
        assert names, board
        assert [name for name in names if not (TOP / name).exists()] == [], board


def test_hashes_of_downloads_are_always_checked() -> None:
    for board in BOARDS:
        assert "BR2_DOWNLOAD_FORCE_CHECK_HASHES=y" in merged(board).splitlines(), board


def test_boards_do_not_repeat_each_other() -> None:
    kept = [
        line
        for board in BOARDS
        for line in (CONFIGS / f"{board}_defconfig").read_text().splitlines()
        if line.startswith("BR2_")
    ]
    repeated = {line for line in kept if kept.count(line) > 2 and not line.endswith("=y")}
    assert repeated == set()
    assert len(kept) < 6 * len(BOARDS)


def test_the_test_machine_has_the_soekris_userland() -> None:
    soekris, qemu = (
        {
            line
            for line in merged(board).splitlines()
            if re.match(r"(# )?BR2_", line) and "KERNEL_CONFIG" not in line and board not in line
        }
        for board in ("soekris-net5501", "qemu-i386")
    )
    assert soekris ^ qemu == {"BR2_TARGET_GENERIC_GETTY_BAUDRATE_19200=y"}


def test_a_fragment_sets_each_symbol_once() -> None:
    for fragment in TOP.glob("board/*/*.fragment"):
        done = tool("lost", fragment, "--", fragment)
        assert done.returncode == 0, done.stderr


def test_where_the_disk_is_a_card_the_kernel_is_told_which_is_the_first() -> None:
    for board in BOARDS:
        if "=/dev/mmcblk" in (TOP / f"board/{board}/meta").read_text():
            patch = r'^BR2_LINUX_KERNEL_PATCH="\$\(\w+\)/../(.*)"$'
            (name,) = re.findall(patch, merged(board), re.M)
            assert re.search(r"^\+\t\tmmc0 = &", (TOP / name).read_text(), re.M), board


def test_no_key_stops_uboot() -> None:
    for fragment in TOP.glob("board/*/uboot*.fragment"):
        assert "CONFIG_BOOTDELAY=-2" in fragment.read_text().splitlines(), fragment
