"""Keys, bundles and RAUC's configuration, with the real openssl and rauc."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from configparser import ConfigParser
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
COMMON = TOP / "board/common"
BOARDS = sorted(meta.parent.name for meta in TOP.glob("board/*/meta"))
MEBIBYTE = 1 << 20

pytestmark = pytest.mark.skipif(not shutil.which("rauc"), reason="no rauc")


def call(*argv: str | Path, env: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Run a program; its exit status, and all that it said."""
    done = subprocess.run(
        argv,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={"PATH": os.environ["PATH"], **(env or {})},
    )
    return done.returncode, done.stdout


def openssl(*argv: str | Path) -> None:
    code, said = call("openssl", *argv)
    assert code == 0, said


class Authority:
    """A release's: a certificate that issues others, and one that it issued."""

    def __init__(self, folder: Path, name: str, usage: str = "codeSigning") -> None:
        folder.mkdir()
        self.ca, self.key, self.cert = folder / "ca.pem", folder / "key.pem", folder / "cert.pem"
        new = ("-newkey", "rsa:2048", "-nodes")
        ca_key, request, extensions = folder / "ca.key", folder / "request", folder / "extensions"
        subject = ("-subj", f"/CN={name} CA")
        openssl("req", "-x509", *new, "-days", "9", *subject, "-keyout", ca_key, "-out", self.ca)
        openssl("req", *new, "-subj", f"/CN={name}", "-keyout", self.key, "-out", request)
        extensions.write_text(f"keyUsage=digitalSignature\nextendedKeyUsage={usage}\n")
        openssl(
            *("x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", ca_key, "-days", "9"),
            *("-set_serial", "1", "-extfile", extensions, "-out", self.cert),
        )

    def environment(self, **other: Path) -> dict[str, str]:
        chosen = {"RELEASE_KEY": self.key, "RELEASE_CERT": self.cert, "RELEASE_CA": self.ca}
        return {name: str(file) for name, file in (chosen | other).items()}


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("r") / "release", "Office box releases")


@pytest.fixture(scope="module")
def development(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a build for development, its key made."""
    env = {"NAPROXY_KEYS": str(tmp_path_factory.mktemp("d") / "keys")}
    assert call(COMMON / "keys", "key", env=env)[0] == 0
    return env


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """What Buildroot leaves for the bundle."""
    folder = tmp_path / "images"
    folder.mkdir()
    (folder / "rootfs.squashfs").write_bytes(os.urandom(MEBIBYTE))
    return folder


def made(images: Path, env: Mapping[str, str], board: str = "qemu-x86_64") -> Path:
    code, said = call(COMMON / "bundle", images, board, env={"VERSION": "1.2.3", **env})
    assert code == 0, said
    return Path(said.splitlines()[-1])


def box(tmp_path: Path, env: Mapping[str, str], board: str = "qemu-x86_64") -> Path:
    """Return RAUC's configuration as a box of this build has it."""
    root = tmp_path / "root"
    code, said = call(COMMON / "rauc", root, board, env=env)
    assert code == 0, said
    conf = root / "etc/rauc/system.conf"
    text = conf.read_text()
    assert "path=/etc/rauc/keyring.pem" in text
    here = conf.with_name("here.conf")
    here.write_text(text.replace("/etc/rauc", str(root / "etc/rauc")))
    return here


def judged(conf: Path, bundle: Path) -> tuple[int, str]:
    return call("rauc", f"--conf={conf}", "info", bundle)


def subject(certificate: Path) -> str:
    return call("openssl", "x509", "-in", certificate, "-noout", "-subject")[1]


# ------------------------------------------------------------------------------- keys


def test_the_development_key_is_made_once_is_private_and_says_what_it_is(
    development: dict[str, str],
) -> None:
    keys = Path(development["NAPROXY_KEYS"])
    key = keys / "key.pem"
    first = key.read_bytes()
    assert call(COMMON / "keys", "key", env=development)[1] == f"{key}\n"
    assert key.read_bytes() == first
    assert key.stat().st_mode & 0o077 == 0
    assert "Naproxy development" in subject(keys / "ca.pem")
    assert "Naproxy development" in subject(keys / "cert.pem")
    assert sorted(f.name for f in keys.iterdir()) == ["ca.pem", "cert.pem", "key.pem"]


def test_keys_are_made_where_git_does_not_look() -> None:
    # The tree is the user's, and the tests run as root.
    git = ("git", "-c", f"safe.directory={TOP}", "-C", TOP)
    code, _ = call(*git, "check-ignore", "-q", "build/image/keys/key.pem")
    assert code == 0
    assert "$top/build/image/keys" in (COMMON / "keys").read_text()


def test_a_release_trusts_its_authority_alone(tmp_path: Path, release: Authority) -> None:
    code, said = call(COMMON / "keys", "keyring", tmp_path / "ring", env=release.environment())
    assert (code, said) == (0, "")
    assert (tmp_path / "ring").read_bytes() == release.ca.read_bytes()


def test_a_release_that_would_trust_the_development_key_is_refused(
    tmp_path: Path, release: Authority, development: dict[str, str]
) -> None:
    ours = Path(development["NAPROXY_KEYS"])
    both = tmp_path / "both.pem"
    both.write_bytes(release.ca.read_bytes() + (ours / "ca.pem").read_bytes())
    for env in (
        release.environment(RELEASE_CA=both),
        release.environment(RELEASE_CA=ours / "ca.pem"),
        release.environment(RELEASE_CERT=ours / "cert.pem", RELEASE_KEY=ours / "key.pem"),
    ):
        code, said = call(COMMON / "keys", "keyring", tmp_path / "ring", env=env)
        assert code == 1
        assert "a release does not trust that" in said
        assert not (tmp_path / "ring").exists()


def test_keys_that_do_not_make_a_release_are_refused_in_words(
    tmp_path: Path, release: Authority
) -> None:
    env, other = release.environment(), Authority(tmp_path / "other", "Somebody else")
    both = "wants both RELEASE_KEY and RELEASE_CERT"
    for changed, words in (
        ({n: v for n, v in env.items() if n != "RELEASE_KEY"}, both),
        ({n: v for n, v in env.items() if n != "RELEASE_CERT"}, both),
        (release.environment(RELEASE_CA=other.ca), "was not issued by"),
        (release.environment(RELEASE_CA=Path("/nowhere/ca.pem")), "is no file /nowhere/ca.pem"),
    ):
        for argv in (("key",), ("keyring", tmp_path / "ring")):
            code, said = call(COMMON / "keys", *argv, env=changed)
            assert (code, words in said) == (1, True), (words, said)


# ---------------------------------------------------------------------------- bundles


def test_a_bundle_is_for_its_board_and_is_verified_while_it_is_read(
    tmp_path: Path, images: Path, development: dict[str, str]
) -> None:
    bundle = made(images, development)
    assert bundle.name == "naproxy-qemu-x86_64-1.2.3.raucb"
    code, said = judged(box(tmp_path, development), bundle)
    assert code == 0, said
    assert re.search(r"Compatible:\s+'naproxy-qemu-x86_64'", said)
    assert re.search(r"Version:\s+'1\.2\.3'", said)
    assert re.search(r"Bundle Format:\s+verity", said)
    assert re.search(r"Filename:\s+rootfs\.squashfs", said)
    assert sorted(f.name for f in images.iterdir()) == [bundle.name, "rootfs.squashfs"]


def test_a_new_bundle_takes_the_place_of_the_one_before(
    images: Path, development: dict[str, str]
) -> None:
    made(images, development)
    bundle = made(images, development | {"VERSION": "1.2.4"})
    assert [f.name for f in images.glob("*.raucb")] == [bundle.name]


def test_a_release_takes_its_own_bundles_and_none_of_the_development_key(
    tmp_path: Path, images: Path, release: Authority, development: dict[str, str]
) -> None:
    conf = box(tmp_path, release.environment())
    code, said = judged(conf, made(images, release.environment()))
    assert code == 0, said
    code, said = judged(conf, made(images, development))
    assert code == 1
    assert "signature verification failed" in said


def test_a_key_that_is_for_something_else_signs_nothing(tmp_path: Path, images: Path) -> None:
    web = Authority(tmp_path / "web", "A web server", usage="serverAuth")
    code, said = call(COMMON / "bundle", images, "qemu-x86_64", env=web.environment())
    assert code == 1
    assert "unsuitable certificate purpose" in said
    assert [f.name for f in images.iterdir()] == ["rootfs.squashfs"]


def test_a_bundle_that_is_verified_before_it_is_read_is_refused(
    tmp_path: Path, development: dict[str, str]
) -> None:
    """Format plain: somebody might change it in between."""
    keys = Path(development["NAPROXY_KEYS"])
    content = tmp_path / "content"
    content.mkdir()
    (content / "rootfs.squashfs").write_bytes(os.urandom(MEBIBYTE))
    (content / "manifest.raucm").write_text(
        "[update]\ncompatible=naproxy-qemu-x86_64\nversion=2\n"
        "[bundle]\nformat=plain\n[image.rootfs]\nfilename=rootfs.squashfs\n"
    )
    plain = tmp_path / "plain.raucb"
    signer = (f"--cert={keys / 'cert.pem'}", f"--key={keys / 'key.pem'}")
    assert call("rauc", "bundle", *signer, content, plain)[0] == 0
    code, said = judged(box(tmp_path, development), plain)
    assert code == 1
    assert "format" in said


# ---------------------------------------------------------------------------- versions


@pytest.mark.parametrize(
    ("tag", "changes", "form"),
    [
        (None, 0, r"0\.\d+\.\d+\+g[0-9a-f]{10}"),
        ("v1.4.0", 0, r"1\.4\.0"),
        ("v1.4.0-rc2", 0, r"1\.4\.0-rc2"),
        ("v1.4.0", 2, r"1\.4\.0\+2\.g[0-9a-f]{10}"),
    ],
)
def test_the_version_is_gits_in_a_form_that_is_compared(
    tmp_path: Path, tag: str | None, changes: int, form: str
) -> None:
    repository = tmp_path / "repository"
    package = "package/naproxy/src/naproxy/__init__.py"
    for name in ("board/common/version", package):
        (repository / name).parent.mkdir(parents=True)
        shutil.copy(TOP / name, repository / name)
    git = ("git", "-C", repository, "-c", "user.name=a", "-c", "user.email=a@b")
    commit = (*git, "commit", "-q", "--allow-empty", "-m", "x")
    assert call("git", "init", "-q", repository)[0] == 0
    for argv in (commit, *([(*git, "tag", tag)] if tag else []), *([commit] * changes)):
        assert call(*argv)[0] == 0
    code, said = call(repository / "board/common/version")
    assert code == 0
    assert re.fullmatch(form, said.strip()), said


# ---------------------------------------------------------------- the box's own files


def test_rauc_takes_every_boards_configuration(
    tmp_path: Path, images: Path, development: dict[str, str]
) -> None:
    bundle = made(images, development)
    for board in BOARDS:
        folder = tmp_path / board
        conf = box(folder, development, board)
        code, said = judged(conf, bundle)
        assert code == 0, said
        parsed = ConfigParser()
        parsed.read(conf)
        system = parsed["system"]
        assert system["compatible"] == f"naproxy-{board}"
        assert system["bundle-formats"] == "verity", board
        assert system["statusfile"].startswith("/data/"), board
        assert ("grubenv" in system) == (system["bootloader"] == "grub"), board
        slots = [parsed[f"slot.rootfs.{number}"] for number in (0, 1)]
        assert [slot["bootname"] for slot in slots] == ["A", "B"], board
        assert [slot["device"][-1] for slot in slots] == ["2", "3"], board
        uboot = (folder / "root/etc/fw_env.config").exists()
        assert uboot == (system["bootloader"] == "uboot"), board


@pytest.fixture(params=[board for board in BOARDS if "raspberry" in board or "aarch64" in board])
def uboot(
    request: pytest.FixtureRequest, tmp_path: Path, development: dict[str, str]
) -> tuple[str, str]:
    """A board's U-Boot fragment, and where its Linux looks for U-Boot's environment."""
    own = TOP / "board" / request.param / "uboot.fragment"
    fragment = own if own.exists() else COMMON / "uboot-raspberrypi.fragment"
    box(tmp_path, development, request.param)
    return fragment.read_text(), (tmp_path / "root/etc/fw_env.config").read_text()


def test_of_two_fw_setenvs_the_one_stays_that_refuses_when_both_copies_are_damaged(
    tmp_path: Path, development: dict[str, str]
) -> None:
    theirs = [tmp_path / "root/usr/sbin" / name for name in ("fw_printenv", "fw_setenv")]
    ours = tmp_path / "root/usr/bin/fw_setenv"
    for program in (*theirs, ours):
        program.parent.mkdir(parents=True, exist_ok=True)
        program.touch()
    box(tmp_path, development, "qemu-aarch64")
    assert [program for program in (*theirs, ours) if program.exists()] == [ours]


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"usr/bin/fw_setenv": b"", "sbin/fw_setenv": b""}, "fw_setenv"),
        ({"usr/bin/fw_setenv": b"", "sbin/else": b""}, ""),
        ({"usr/sbin/haproxy": b"\x7fELF\0poll\0"}, "without epoll"),
        ({"usr/sbin/haproxy": b"\x7fELF\0epoll_wait\0"}, "without Lua"),
        ({"usr/sbin/haproxy": b"\x7fELF\0epoll_wait\0lua-load\0"}, ""),
    ],
    ids=["two of one name", "two names", "haproxy without epoll", "without Lua", "with both"],
)
def test_programs_that_will_not_do_stop_the_build(
    tmp_path: Path, files: dict[str, bytes], words: str
) -> None:
    for folder in ("bin", "sbin", "usr/bin", "usr/sbin"):
        (tmp_path / folder).mkdir(parents=True)
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    code, said = call(COMMON / "check-programs", tmp_path)
    assert (code, words in said) == (bool(words), True), said


def post_image(tmp_path: Path, board: str) -> dict[str, Path]:
    """Let genimage be asked for a board's disk, without a kernel; the boot partition's files."""
    genimage = tmp_path / "support/scripts/genimage.sh"
    genimage.parent.mkdir(parents=True)
    genimage.write_text("#!/bin/sh\nexit 33\n")  # only what is asked for
    genimage.chmod(0o755)
    images = tmp_path / "images"
    images.mkdir()
    command = [str(COMMON / "post-image"), str(images), board]
    env = {**os.environ, "SOURCE_DATE_EPOCH": "1000000000"}
    assert subprocess.run(command, cwd=tmp_path, env=env, check=False).returncode == 33
    asked = re.findall(r'file "(.+)" { image = "(.+)" }', (images / "genimage.cfg").read_text())
    return {name: images / image for name, image in asked}


def test_both_copies_of_uboots_environment_are_there_before_the_first_start(tmp_path: Path) -> None:
    asked = post_image(tmp_path, "qemu-aarch64")
    copies = [asked[name] for name in ("uboot.env", "uboot-redund.env")]
    assert [copy.stat().st_size for copy in copies] == [0x4000] * 2


def test_files_of_the_boot_partition_have_the_time_of_the_sources(tmp_path: Path) -> None:
    asked = post_image(tmp_path, "pc-x86_64")
    assert {file.stat().st_mtime for file in asked.values()} == {1e9}


def test_linux_finds_uboots_environment_where_uboot_keeps_it(uboot: tuple[str, str]) -> None:
    fragment, places = uboot
    asked = dict(re.findall(r'^CONFIG_(ENV_\w+)="?([^"\n]+)"?$', fragment, re.M))
    rows = [line.split() for line in places.splitlines() if not line.startswith("#")]
    assert [row[2] for row in rows] == [asked["ENV_SIZE"]] * 2
    if "ENV_OFFSET" in asked:
        assert [row[1] for row in rows] == [asked["ENV_OFFSET"], asked["ENV_OFFSET_REDUND"]]
        assert all(int(row[1], 16) + int(row[2], 16) <= 4 * MEBIBYTE for row in rows)
    else:
        names = [asked["ENV_FAT_FILE"], asked["ENV_FAT_FILE_REDUND"]]
        assert [row[0] for row in rows] == [f"/bootpart/{name}" for name in names]
