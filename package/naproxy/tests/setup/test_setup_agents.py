"""The agent's key and its codes; the program that the box hands out, and the text to paste."""

from __future__ import annotations

import io
import json
import os
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from box import Box
from naproxy.drivers import agent_protocol
from naproxy.setup import agent_files
from naproxy.setup.agents import LIVES_S, Codes

AGENT = Path(__file__).parents[3] / "naproxy-agent"


def test_a_code_is_good_once_and_for_its_server() -> None:
    codes = Codes()
    web, mail = codes.make("web"), codes.make("mail")
    assert codes.state("web")[0] == "waiting"
    assert codes.use(web) == "web"
    assert codes.use(web) is None
    assert codes.state("web")[0] == "used"
    assert codes.use(mail) == "mail"
    assert codes.state("other") == ("none", 0.0)


def test_a_code_that_was_replaced_or_is_too_old_is_none() -> None:
    now_s = 100.0
    codes = Codes(lambda: now_s)
    first, second = codes.make("web"), codes.make("web")
    assert codes.use(first) is None
    now_s += LIVES_S
    assert codes.state("web") == ("over", 0.0)
    assert codes.use(second) is None


def test_a_guess_takes_no_code_from_anybody() -> None:
    codes = Codes()
    code = codes.make("web")
    guesses = ("", " ", "é", "\ud800", "x" * 64, "\0")
    for each in (*guesses, code[:-1], code + "x", code.swapcase()):
        assert codes.use(each) is None, each
    assert codes.use(code) == "web"


# Before a real controller


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    if os.geteuid() != 0:
        pytest.skip("raw packets need root")
    started = Box(tmp_path_factory.mktemp("box"))
    started.start()
    change(started, "server.web.sleep", {"driver": "agent"})
    yield started
    started.close()


def post(box: Box, path: str, **body: Any) -> tuple[int, Any]:
    return box.call("POST", path, json.dumps(body).encode())


def change(box: Box, where: str, value: Any) -> None:
    version = box.call("GET", "/v1/config")[1]["version"]
    body = {"version": version, "changes": [{"op": "set", "where": where, "value": value}]}
    status, answer = box.call("PATCH", "/v1/config", json.dumps(body).encode())
    assert status == 200, answer


def key_in_use(box: Box) -> str:
    _, config = box.call("GET", "/v1/config")
    return Path(config["server"][0]["sleep"]["key_file"]).read_text()


def test_a_code_brings_a_new_key_once_which_is_then_in_use(box: Box) -> None:
    status, made = post(box, "/v1/servers/web/agent/code")
    assert (status, made["state"], made["address"]) == (200, "waiting", "127.0.0.1")
    status, got = post(box, "/v1/agent-key", code=made["code"])
    assert (status, got["server"]) == (200, "web")
    assert agent_protocol.parse_key(got["key"])
    assert key_in_use(box) == got["key"] + "\n"
    assert box.call("GET", "/v1/servers/web/agent")[1]["state"] == "used"
    status, refused = post(box, "/v1/agent-key", code=made["code"])
    assert (status, refused["code"]) == (403, "setup.agent_code")
    assert key_in_use(box) == got["key"] + "\n"
    assert got["key"] not in box.log() + json.dumps(box.call("GET", "/v1/config")[1])


def test_a_key_that_is_shown_is_another_than_the_one_before(box: Box) -> None:
    first = post(box, "/v1/servers/web/agent/key")[1]["key"]
    second = post(box, "/v1/servers/web/agent/key")[1]["key"]
    assert first != second
    assert key_in_use(box) == second + "\n"


def test_a_server_without_an_agent_gets_neither_code_nor_key(box: Box) -> None:
    code = post(box, "/v1/servers/web/agent/code")[1]["code"]
    change(box, "server.web.sleep", {"driver": "none"})
    try:
        for answer in (
            post(box, "/v1/servers/web/agent/code"),
            post(box, "/v1/servers/web/agent/key"),
            post(box, "/v1/agent-key", code=code),
        ):
            assert (answer[0], answer[1]["code"]) == (409, "setup.no_agent")
        assert post(box, "/v1/servers/shop/agent/code")[0] == 404
    finally:
        change(box, "server.web.sleep", {"driver": "agent"})


# The program, and the text to paste


def test_the_program_is_the_agents_own_files_the_same_bytes_each_time() -> None:
    packed = agent_files.packed()
    agent_files.packed.cache_clear()
    assert agent_files.packed() == packed
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        for member in tar.getmembers():
            name = member.name.removeprefix("naproxy-agent/")
            data = tar.extractfile(member)
            assert data is not None
            assert data.read() == (AGENT / name).read_bytes()
            assert (member.uid, member.mtime) == (0, 0)
        names = {member.name.removeprefix("naproxy-agent/") for member in tar.getmembers()}
    there = {path for path in AGENT.rglob("*") if path.is_file() and "/." not in str(path)}
    mine = {str(path.relative_to(AGENT)) for path in there if path.suffix != ".pyc"}
    assert names == {each for each in mine if not each.startswith("tests/")}


class Pasted:
    """The text, run with doubles of curl, systemd and root's folders."""

    def __init__(self, folder: Path, **said: str) -> None:
        self.folder = folder
        self.said = folder / "said"
        (folder / "bin").mkdir()
        # The installer itself belongs to root's folders: what it is told is what counts here.
        self.text = agent_files.script(
            box="https://192.0.2.1:8443", pin="PIN=", server="web", code="C0de_-"
        )
        program = said.get("program")
        packed = folder / "packed.tar.gz"
        packed.write_bytes(agent_files.packed() if program is None else program.encode())
        self._double(
            "curl",
            f"""
echo "$@" >>"{self.said}"
while [ $# -gt 1 ]; do
	case "$1" in -o) to=$2 ;; --data-binary) sent=$(cat) ;; esac
	shift
done
case "$1" in
*/naproxy-agent.tar.gz) cp "{packed}" "$to" ;;
*/key) echo "sent $sent" >>"{self.said}"; printf %s '{"ab" * 32}' >"$to" ;;
esac""",
        )
        self._double(
            "tar",
            f"""/usr/bin/tar "$@" && printf '#!/bin/sh\\necho "install $*" >>"{self.said}"
[ "$1" = --check ] && exit {said.get("lacks", "0")}
cat "$2" >>"{self.said}"; stat -c %%a "$2" >>"{self.said}"' >naproxy-agent/install""",
        )

    def _double(self, name: str, body: str) -> None:
        file = self.folder / "bin" / name
        file.write_text(f"#!/bin/sh\n{body}\n")
        file.chmod(0o755)

    def run(self) -> subprocess.CompletedProcess[str]:
        return run_in(self.folder, ["sh"], input=self.text)

    def lines(self) -> list[str]:
        return self.said.read_text().splitlines()


def run_in(folder: Path, argv: list[str], **more: str) -> subprocess.CompletedProcess[str]:
    """Run it with the programs of a folder first."""
    env = {"PATH": f"{folder}/bin:{os.environ['PATH']}"}
    return subprocess.run(argv, env=env, capture_output=True, text=True, check=False, **more)


def test_the_pasted_text_checks_the_program_then_installs_it_with_the_key(tmp_path: Path) -> None:
    pasted = Pasted(tmp_path)
    done = pasted.run()
    assert done.returncode == 0, done.stderr
    first, check, second, sent, install, *key = pasted.lines()
    for asked in (first, second):
        assert "--pinnedpubkey sha256//PIN= " in asked
        assert "C0de_-" not in asked
    assert (check, sent, install) == ("install --check", "sent C0de_-", "install web key")
    assert "".join(key) == "ab" * 32 + "600"


def test_a_program_that_is_another_is_not_run_and_no_code_is_spent(tmp_path: Path) -> None:
    pasted = Pasted(tmp_path, program="evil")
    done = pasted.run()
    assert done.returncode == 1
    assert "not the program that its page named" in done.stderr
    assert len(pasted.lines()) == 1


def test_a_server_that_lacks_something_spends_no_code(tmp_path: Path) -> None:
    pasted = Pasted(tmp_path, lacks="1")
    assert pasted.run().returncode == 1
    assert len(pasted.lines()) == 2


def installer(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the agent's own installer with all its places below a folder, and no systemd."""
    text = (AGENT / "install").read_text()
    for place in ("/usr/local/", "/etc/naproxy-agent", "/etc/systemd/", "/run/systemd/system"):
        text = text.replace(place, f"{folder}{place}")
    (folder / "run/systemd/system").mkdir(parents=True, exist_ok=True)
    (folder / "etc/systemd/system").mkdir(parents=True, exist_ok=True)
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "bin/systemctl").write_text("#!/bin/sh\n")
    (folder / "bin/systemctl").chmod(0o755)
    unpacked = folder / "naproxy-agent"
    if not unpacked.exists():
        with tarfile.open(fileobj=io.BytesIO(agent_files.packed())) as tar:
            tar.extractall(folder)
    (unpacked / "install").write_text(text)
    return run_in(folder, [str(unpacked / "install"), *arguments])


def test_the_installer_puts_the_boxs_key_in_the_place_of_another_and_removes_all(
    tmp_path: Path,
) -> None:
    etc, given = tmp_path / "etc/naproxy-agent", tmp_path / "key"
    assert installer(tmp_path, "web").returncode == 0
    before = (etc / "key").read_text()
    given.write_text("ab" * 32)
    done = installer(tmp_path, "web", str(given))
    assert done.returncode == 0, done.stderr
    assert before.strip() not in (etc / "key").read_text()
    assert agent_protocol.parse_key((etc / "key").read_text()) == bytes.fromhex("ab" * 32)
    assert (etc / "key").stat().st_mode & 0o777 == 0o600
    assert "ab" * 32 not in done.stdout
    installed = str(tmp_path / "usr/local/lib/naproxy-agent/install")
    shown = run_in(tmp_path, [installed, "--remove"])
    assert shown.returncode == 0, shown.stderr
    assert not etc.exists()


def test_what_is_no_key_is_said_and_nothing_is_installed(tmp_path: Path) -> None:
    for said, words in (
        ('{"error":"This code is not good"}', "This code is not good"),
        ("ab" * 32 + "\n" + "cd" * 32 + "\n", "gave no key"),
        ("\x1b[2Jab", "gave no key"),
        ("", "gave no key"),
    ):
        (tmp_path / "key").write_text(said)
        done = installer(tmp_path, "web", str(tmp_path / "key"))
        assert done.returncode == 1, said
        assert words in done.stderr
        assert "\x1b" not in done.stderr
        assert not (tmp_path / "etc/naproxy-agent").exists(), said
