"""Settings that worked are kept, and taken when those in the file cannot be used."""

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import forked
import pytest
from box import Box
from faulty_controller import FaultyController
from naproxy.api import configuration
from naproxy.cli import __main__ as cli
from naproxy.config import document as config
from naproxy.config import edit
from naproxy.config import kept as secrets
from naproxy.config.in_force import InForce
from naproxy.config.shown import mended, shown
from naproxy.config.worked import MOST_STARTS, Worked
from naproxy.core.reason import Reason
from naproxy.core.schema import ConfigError

from tests.patience import PATIENCE_S, wait_for

GOOD = b"""
[[server]]
id = "web"
address = "192.0.2.10"
mac = "02:00:00:00:00:01"
"""
BETTER = GOOD.replace(b"web", b"shop")
HOSTILE = (
    b"[[server]\n",
    b"\xff\xfe",
    b"[nonsense]\n",
    b"[box]\nproxy_w = 1e999\n",
    b"a = [" + b"[" * 100_000,
    b"#" * ((1 << 20) + 1),
    GOOD + b"port = 70000\n",
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "naproxy.toml"
    made.write_bytes(GOOD)
    made.chmod(0o640)
    return made


def kept(file: Path, text: bytes = GOOD, release: str = "1") -> Worked:
    worked = Worked(file, release)
    worked.end(text)
    return worked


def names(file: Path) -> set[str]:
    return {path.name for path in file.parent.iterdir()}


def test_settings_that_are_right_are_used(file: Path) -> None:
    chosen = kept(file, BETTER).choose()
    assert chosen.refused is None
    assert (chosen.used, chosen.found.config.server[0].id) == (GOOD, "web")


def test_those_that_are_refused_give_way_to_the_last_that_worked(file: Path) -> None:
    worked = kept(file)
    for text in HOSTILE:
        file.write_bytes(text)
        chosen = worked.choose()
        assert chosen.refused, text[:50]
        assert (chosen.used, chosen.found.config.server[0].id) == (GOOD, "web"), text[:50]
        assert file.read_bytes() == text, text[:50]


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda p: p.symlink_to("/dev/zero")])
def test_a_path_that_is_not_a_file_is_replaced_and_blocks_nothing(file: Path, make: Any) -> None:
    worked = kept(file)
    file.unlink()
    make(file)
    refused = worked.choose().refused
    assert refused
    assert "The file cannot be read" in str(refused.reason(file))


def test_without_any_that_worked_they_are_refused(file: Path) -> None:
    file.write_bytes(b"[nonsense]\n")
    with pytest.raises(ConfigError):
        Worked(file).choose()


def test_the_error_and_the_configuration_in_use_are_logged(file: Path) -> None:
    worked = kept(file)
    file.write_bytes(GOOD + b"port = 0\n")
    os.utime(file.with_name("naproxy.worked-1.toml"), (0, 0))
    refused = worked.choose().refused
    assert refused
    words = str(refused.reason(file))
    assert words.startswith(
        f"The settings in {file} are not used. Field server.web.port: must be 1 to"
    )
    assert "The box runs with those of 1970-01-01 " in words


def test_of_very_many_problems_a_few_are_named(file: Path) -> None:
    worked = kept(file)
    file.write_bytes(b"".join(b"[n%d]\n" % n for n in range(100)))
    refused = worked.choose().refused
    assert refused
    reason = refused.reason(file)
    assert Reason("config.more_problems", number=95) in reason.params["problems"]


def test_they_are_as_private_as_the_file(file: Path) -> None:
    kept(file)
    assert file.with_name("naproxy.worked-1.toml").stat().st_mode & 0o777 == 0o640


def test_those_of_an_older_release_stay_for_it(file: Path) -> None:
    kept(file, GOOD, "1")
    kept(file, BETTER, "2")
    file.write_bytes(b"[nonsense]\n")
    assert Worked(file, "1").choose().used == GOOD
    assert Worked(file, "2").choose().used == BETTER


def test_a_new_release_takes_those_of_the_one_before_if_it_can(file: Path) -> None:
    kept(file, b"[of_that_release]\n", "0")
    kept(file, GOOD, "1")
    file.write_bytes(b"[nonsense]\n")
    assert Worked(file, "2").choose().used == GOOD


def test_passwords_do_not_stay_in_files_of_many_releases(file: Path) -> None:
    for number in range(5):
        kept(file, GOOD, str(number))
        os.utime(file.with_name(f"naproxy.worked-{number}.toml"), (number, number))
    assert names(file) == {"naproxy.toml", "naproxy.worked-3.toml", "naproxy.worked-4.toml"}


def test_a_name_with_marks_of_a_pattern_is_a_name(tmp_path: Path) -> None:
    file = tmp_path / "[a]*.toml"
    file.write_bytes(GOOD)
    kept(file, GOOD, "1")
    file.write_bytes(b"[nonsense]\n")
    assert Worked(file, "2").choose().used == GOOD


def test_settings_that_end_the_controller_again_and_again_give_way(file: Path) -> None:
    worked = kept(file)
    file.write_bytes(BETTER)
    for _ in range(MOST_STARTS):
        assert worked.choose().refused is None
        worked.begin(BETTER)
    chosen = worked.choose()
    assert chosen.refused
    assert chosen.used == GOOD
    assert file.read_bytes() == BETTER


def test_settings_that_run_well_are_not_counted(file: Path) -> None:
    worked = kept(file)
    for _ in range(2 * MOST_STARTS):
        worked.begin(BETTER)
        worked.end(BETTER)
    file.write_bytes(BETTER)
    assert worked.choose().refused is None
    assert "naproxy.starts" not in names(file)


def test_settings_that_worked_once_do_not_give_way_to_themselves(file: Path) -> None:
    worked = kept(file)
    for _ in range(2 * MOST_STARTS):
        worked.begin(GOOD)
    assert worked.choose().refused is None


def test_others_than_those_that_ended_it_are_tried(file: Path) -> None:
    worked = kept(file)
    for _ in range(MOST_STARTS):
        worked.begin(BETTER)
    file.write_bytes(GOOD + b"port = 81\n")
    assert worked.choose().refused is None


def test_a_damaged_count_is_ignored(file: Path) -> None:
    worked = kept(file, BETTER)
    worked.begin(GOOD)
    count = file.with_name("naproxy.starts")
    endless = json.dumps({**json.loads(count.read_text()), "starts": float("inf")}).encode()
    wrong = b'{"version": 1, "starts": "x"}'
    for text in (b"", b"[]", b"{}", b"null", wrong, b"[" * 1000, b"\xff", endless):
        count.write_bytes(text)
        assert worked.choose().refused is None, text[:50]


def test_a_box_that_is_not_set_up_keeps_nothing(tmp_path: Path) -> None:
    file = tmp_path / "naproxy.toml"
    worked = Worked(file)
    assert worked.choose().used == b""
    worked.begin(b"")
    worked.end(b"")
    assert names(file) == set()


def test_where_nothing_can_be_written_it_goes_on(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file.with_name("naproxy.worked-1.toml").mkdir()
    worked = kept(file)
    file.with_name("naproxy.starts").mkdir()
    worked.begin(BETTER)
    worked.end(GOOD)
    assert worked.choose().refused is None
    assert "not written" in caplog.text


def in_force(file: Path) -> InForce:
    return InForce(file, Worked(file).choose(), lambda _: None)


def refused(file: Path, text: bytes = b"[nonsense]\n") -> InForce:
    Worked(file).end(GOOD)
    file.write_bytes(text)
    return in_force(file)


def test_settings_that_are_saved_end_it_and_the_refused_file_is_kept(file: Path) -> None:
    ours = refused(file)
    assert ours.refused
    assert ours.to_edit() == GOOD  # single keys are changed in those that are used
    ours.put(ours.checked(BETTER))
    assert ours.refused is None
    assert in_force(file).current().server[0].id == "shop"
    aside = file.with_name("naproxy.toml.refused")
    assert aside.read_bytes() == b"[nonsense]\n"
    assert aside.stat().st_mode & 0o777 == 0o600


def test_a_secret_is_not_swept_away_before_the_settings_name_it(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = in_force(file)
    write = secrets.write

    def slow(folder: Path, found: dict[str, str]) -> None:
        write(folder, found)
        ours.proved()  # as the controller does, which may be at any time

    monkeypatch.setattr(secrets, "write", slow)
    bmc = {"driver": "ipmi", "host": "192.0.2.7", "user": "naproxy"}
    value = bmc | {"password_file": {"secret": "hush"}}
    change = edit.Change("set", "server.web.sleep", value)
    asyncio.run(configuration.change(ours, [change], ours.version))
    named = ours.current().server[0].sleep.password_file
    assert Path(named).read_text() == "hush\n"
    ours.put(ours.checked(GOOD))
    for old in file.parent.glob("naproxy.worked-*"):
        old.unlink()
    ours.sweep()
    assert not Path(named).exists()


def test_an_obstacle_in_the_files_place_is_replaced_at_the_next_save(file: Path) -> None:
    Worked(file).end(GOOD)
    file.unlink()
    os.mkfifo(file)
    ours = in_force(file)
    assert (ours.text(), ours.version) == (b"", edit.version(b""))
    ours.put(ours.checked(BETTER))
    assert file.read_bytes() == BETTER


def test_wrong_settings_that_are_saved_do_not_end_it(file: Path) -> None:
    ours = refused(file)
    with pytest.raises(ConfigError):
        ours.put(ours.checked(b"[more_nonsense]\n"))
    assert ours.refused
    assert file.read_bytes() == b"[nonsense]\n"


def test_a_file_fixed_by_hand_is_used_when_it_is_read_again(file: Path) -> None:
    ours = refused(file)
    file.write_bytes(BETTER)
    ours.reload()
    assert ours.refused is None


def test_refused_settings_are_never_kept_as_having_worked(file: Path) -> None:
    ours = refused(file)
    ours.begin()
    ours.proved()
    assert Worked(file).choose().used == GOOD


def test_a_section_in_use_is_told_alone_and_with_its_secret(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = b'[mqtt]\npassword = "h\\"ush"\n[fleet]\ntoken = "other"\n'
    Worked(file).end(GOOD + secret)
    file.write_bytes(b"[nonsense]\n")
    assert cli.main(["config", "section", "mqtt", str(file)]) == 0
    said = capsys.readouterr().out
    found = config.look(said)
    assert (found.config.mqtt.password, found.warnings) == ('h"ush', [])
    assert "other" not in said
    assert "192.0.2.10" not in said


SECRET = (
    GOOD
    + b"""[mqtt]
host = "192.0.2.5"
password = "hush" # or "hush2"
port = "wrong"
[fleet]
TOKEN = [
  "hush3"
]
name = "h\\u0075sh4"
  "pass\\u0077ord" = "hush5"
"""
)


def test_a_refused_text_is_shown_without_its_secrets() -> None:
    text = shown(SECRET)
    assert text
    assert "hush" not in text
    assert "h\\u" not in text
    assert 'port = "wrong"' in text


def test_omitted_lines_come_back_at_their_mark() -> None:
    text = shown(SECRET)
    assert text
    assert mended(text, SECRET) == SECRET
    assert b"30" in mended(text.replace('"wrong"', "30"), SECRET)


def test_a_mark_of_a_line_that_was_shown_is_refused() -> None:
    for number in (0, 1, 3, 99, 999999):
        with pytest.raises(ConfigError):
            mended(f"#~ line {number} may hold a secret and is not shown\n", SECRET)


def test_a_text_whose_secrets_cannot_be_told_is_not_shown() -> None:
    for text in (b"\xff", b'password = """\nhush\n"""', b"token = '''\nhush'''", b"#" * 70000):
        assert shown(text) is None, text[:50]


class Supervised(Box):
    """A box whose controller has a fault, and is started again when it ends."""

    def popen(self) -> FaultyController:
        arguments = ["controller", "--config", str(self.file), *self.arguments]
        return FaultyController(arguments, dict(self.environment()), self.directory / "log")

    def until_it_answers(self) -> int:
        """Start it until it stays; return how often it ended before."""
        for ended in range(10):
            self.process = self.popen()
            wait_for(lambda: self.call("GET", "/v1/health")[0] == 200 or self.ended(), "it")
            if not self.ended():
                return ended
        raise AssertionError(self.log())

    def ended(self) -> bool:
        return self.process is not None and self.process.poll() is not None

    def noticed(self, words: str) -> None:
        text = self.file.read_text()
        self.file.write_text(text.replace("[box]\n", f'[box]\nnotice = "{words}"\n', 1))

    def why(self) -> str:
        return str(self.call("GET", "/v1/status")[1]["box"]["settings_refused"])


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Supervised]:
    if os.geteuid() != 0:
        pytest.skip("raw packets need root")
    made = Supervised(tmp_path)
    made.until_it_answers()
    worked = Worked(made.file)
    wait_for(lambda: worked._is_kept(made.file.read_bytes()), "settings to have worked")
    yield made
    made.close()


def test_a_controller_that_its_settings_end_starts_with_the_last_that_worked(
    box: Supervised,
) -> None:
    box.end(signal.SIGKILL)
    box.noticed("crash")
    before = box.file.read_bytes()
    assert box.until_it_answers() == MOST_STARTS
    assert "config.ends_controller" in box.why()
    assert box.file.read_bytes() == before
    assert "With them the controller ended or hung 3 times" in box.log()


def test_settings_that_hang_a_running_controller_are_not_used_again(box: Supervised) -> None:
    text = box.file.read_bytes().replace(b"[box]\n", b'[box]\nnotice = "hang"\n', 1)
    box.call("PUT", "/v1/config", text)
    assert box.process
    assert box.process.wait(PATIENCE_S) == -signal.SIGALRM
    assert box.until_it_answers() == MOST_STARTS - 1
    assert "config.ends_controller" in box.why()
    assert "in _faulty" in box.log()  # it said where


def test_a_refused_file_is_told_in_the_status_and_ends_with_a_good_one(box: Supervised) -> None:
    good = box.file.read_bytes()
    box.end()
    box.file.write_bytes(good + b"[nonsense]\n")
    assert box.until_it_answers() == 0
    assert "nonsense" in box.why()
    assert "are not used" in box.naproxy("status").stdout
    said = forked.run(["doctor", "web", "--config", str(box.file)], PATIENCE_S)
    assert "are not used" in said.stdout
    change = {"op": "set", "where": "box.notice", "value": "Hi"}
    version = box.call("GET", "/v1/config")[1]["version"]
    body = json.dumps({"version": version, "changes": [change]}).encode()
    assert box.call("PATCH", "/v1/config", body)[0] == 200
    assert box.why() == "None"
    assert "are not used" not in box.naproxy("status").stdout


def test_a_rejected_file_is_shown_and_fixed_over_the_network(box: Supervised) -> None:
    good = box.file.read_bytes()
    box.end()
    box.file.write_bytes(good + b'[mqtt]\npassword = "hush"\n[nonsense]\n')
    box.until_it_answers()
    _, said = box.call("GET", "/v1/config/refused")
    assert "[nonsense]" in said["text"]
    assert "hush" not in json.dumps(said)

    def mend(text: str) -> int:
        body = json.dumps({"version": said["version"], "text": text}).encode()
        return box.call("PUT", "/v1/config/refused", body)[0]

    assert mend(said["text"]) == 422
    assert mend(said["text"].replace("[nonsense]", "")) == 200
    assert 'password = "hush"' in box.file.read_text()
    assert box.call("GET", "/v1/config/refused")[1]["text"] is None
    assert mend(said["text"]) == 409
