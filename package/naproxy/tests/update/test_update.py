"""Updates with the real RAUC: what is refused and why, writing, going back, confirming."""

import asyncio
import errno
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from naproxy.api.calls import ApiError
from naproxy.update import versions
from naproxy.update.effects import CopyError, Machine
from naproxy.update.updates import BUSY, Updates
from rauc_machine import BOARD, RaucMachine, Signer, bundle, usable

pytestmark = pytest.mark.xdist_group("rauc")


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Signer:
    return Signer(tmp_path_factory.mktemp("keys"), "Naproxy releases")


@pytest.fixture
def machine(tmp_path: Path, ours: Signer, monkeypatch: pytest.MonkeyPatch) -> Iterator[RaucMachine]:
    if lacking := usable():
        pytest.skip(lacking)
    made = RaucMachine(tmp_path, ours)
    for name, value in made.environment().items():
        monkeypatch.setenv(name, value)
    made.boot("A")
    yield made
    made.shut_down()


@pytest.fixture
def updates(machine: RaucMachine) -> Updates:
    return anew(machine)


def anew(machine: RaucMachine, does: Machine | None = None) -> Updates:
    """What a controller that was started again has."""
    folder = machine.directory / "update"
    folder.mkdir(exist_ok=True)
    return Updates(str(machine.conf), folder, does or Machine())


async def settled(updates: Updates) -> dict[str, Any]:
    while updates.job.phase in BUSY:
        await asyncio.sleep(0.01)
    return await updates.status()


def checked(updates: Updates, file: Path) -> dict[str, Any]:
    async def check() -> dict[str, Any]:
        await updates.check(file)
        return await settled(updates)

    return asyncio.run(check())


def written(updates: Updates, file: Path, *, older: bool = False) -> dict[str, Any]:
    async def write() -> dict[str, Any]:
        await updates.check(file)
        await settled(updates)
        await updates.install(older=older)
        return await settled(updates)

    return asyncio.run(write())


# --------------------------------------------------------------- what is refused


def test_a_good_bundle_is_shown_before_anything_is_written(
    machine: RaucMachine, updates: Updates, ours: Signer, tmp_path: Path
) -> None:
    job = checked(updates, bundle(tmp_path / "good.raucb", ours))["job"]
    assert (job["phase"], job["order"]) == ("ready", "newer")
    assert job["bundle"] == {
        "board": BOARD,
        "version": "9.0.0",
        "description": "A test",
        "build": "7",
        "signed_by": "CN = Naproxy releases",
        "image_bytes": 256 << 10,
    }
    assert machine.primary() == "A"


def test_what_is_not_a_bundle_as_we_signed_it_is_refused_and_not_kept(
    machine: RaucMachine, updates: Updates, ours: Signer, tmp_path: Path
) -> None:
    signed = bundle(tmp_path / "signed.raucb", ours).read_bytes()
    size, third = int.from_bytes(signed[-8:], "big"), len(signed) // 3
    foreign = bundle(tmp_path / "foreign.raucb", Signer(tmp_path, "Somebody else")).read_bytes()
    changed = signed[:third] + bytes([signed[third] ^ 1]) + signed[third + 1 :]
    for what, content, why in (
        ("signed by somebody else", foreign, ("signature",)),
        ("unsigned", signed[: -8 - size], ("signature", "format")),
        ("changed", changed, ("signature",)),
        ("cut off", signed[:100_000], ("format",)),
        ("empty", b"", ("format",)),
        ("a word", b"hello", ("format",)),
        ("zeros", b"hsqs" + bytes(200), ("format",)),
        ("noise", os.urandom(70_000), ("format",)),
    ):
        (tmp_path / "file").write_bytes(content)
        job = checked(updates, tmp_path / "file")["job"]
        assert (job["phase"], job["bundle"]) == ("refused", None), what
        assert job["why"] in why, what
        assert job["error"], what
        assert list((machine.directory / "update").iterdir()) == [], what


def test_a_bundle_for_another_board_is_refused_and_both_are_named(
    updates: Updates, ours: Signer, tmp_path: Path
) -> None:
    file = bundle(tmp_path / "board.raucb", ours, board="naproxy-soekris")
    job = checked(updates, file)["job"]
    assert (job["phase"], job["why"]) == ("refused", "board")
    assert job["error"] == f"it is for naproxy-soekris, and this is {BOARD}"
    both = {"made_for": "naproxy-soekris", "board": BOARD}
    assert job["error_reason"] == {"code": "update.other_board", "params": both}


def test_only_a_plain_file_is_opened(updates: Updates, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("/etc/shadow")
    for name in ("fifo", "link", "missing", "."):
        job = checked(updates, tmp_path / name)["job"]
        assert (job["phase"], job["why"]) == ("refused", "file"), name


def test_what_was_looked_at_is_forgotten_by_order_and_by_another_controller(
    machine: RaucMachine, updates: Updates, ours: Signer, tmp_path: Path
) -> None:
    file = bundle(tmp_path / "good.raucb", ours)
    for forgets in (Updates.forget, lambda _: anew(machine)):
        checked(updates, file)
        assert list((machine.directory / "update").iterdir()) != []
        now = forgets(updates) or updates
        assert now.job.phase == "none"
        assert list((machine.directory / "update").iterdir()) == []


# ---------------------------------------------------------------------- writing


def test_it_is_written_into_the_other_slot_which_is_next_and_runs_after_a_restart(
    machine: RaucMachine, updates: Updates, ours: Signer, tmp_path: Path
) -> None:
    told = written(updates, bundle(tmp_path / "good.raucb", ours))
    assert (told["job"]["phase"], told["job"]["percent"]) == ("written", 100)
    assert machine.primary() == "B"
    assert any(machine.slots["B"].read_bytes())
    assert not any(machine.slots["A"].read_bytes())
    assert [(s["name"], s["booted"]) for s in told["slots"] if s["boots_next"]] == [("B", False)]
    machine.boot("B")
    after = asyncio.run(anew(machine).status())
    assert after["version"] == "9.0.0"
    assert [s["name"] for s in after["slots"] if s["booted"]] == ["B"]
    assert after["confirmed"] is False


def test_progress_is_told_while_it_is_written(
    machine: RaucMachine, ours: Signer, tmp_path: Path
) -> None:
    seen = set()

    class Watched(Machine):
        async def follow(self, argv: Sequence[str], line: Callable[[str], None]) -> int:
            def watched(said: str) -> None:
                line(said)
                seen.add((updates.job.percent, updates.job.step))

            return await super().follow(argv, watched)

    updates = anew(machine, Watched())
    written(updates, bundle(tmp_path / "good.raucb", ours))
    assert len(seen) >= 3
    assert any("Checking" in step for _, step in seen)


def test_an_older_version_is_written_only_if_that_is_confirmed(
    machine: RaucMachine, updates: Updates, ours: Signer, tmp_path: Path
) -> None:
    file = bundle(tmp_path / "old.raucb", ours, version="0.0.1")
    with pytest.raises(ApiError) as refused:
        written(updates, file)
    assert refused.value.body["where"] == "older"
    assert machine.primary() == "A"
    assert written(updates, file, older=True)["job"]["phase"] == "written"


def test_where_it_cannot_be_written_that_is_said_and_the_old_image_stays_next(
    machine: RaucMachine, updates: Updates, ours: Signer, tmp_path: Path
) -> None:
    machine.slots["B"].unlink()
    told = written(updates, bundle(tmp_path / "good.raucb", ours))
    assert told["job"]["phase"] == "failed"
    assert told["job"]["error"]
    assert machine.primary() == "A"


def test_nothing_is_written_that_was_not_looked_at(updates: Updates) -> None:
    with pytest.raises(ApiError, match="no update has been checked"):
        asyncio.run(updates.install(older=True))


# -------------------------------------------------------------- back and confirm


def test_the_other_image_runs_after_a_restart_and_one_may_change_ones_mind(
    machine: RaucMachine, updates: Updates
) -> None:
    asyncio.run(updates.activate("other"))
    assert machine.primary() == "B"
    asyncio.run(updates.activate("booted"))
    assert machine.primary() == "A"


def test_there_is_no_way_back_to_an_image_that_did_not_start(
    machine: RaucMachine, updates: Updates
) -> None:
    (machine.directory / "state-B").write_text("bad\n")
    with pytest.raises(ApiError, match="no way back"):
        asyncio.run(updates.activate("other"))
    assert machine.primary() == "A"


def test_what_was_confirmed_stays_confirmed_until_another_image_runs(
    machine: RaucMachine, updates: Updates
) -> None:
    assert asyncio.run(updates.status())["confirmed"] is False
    asyncio.run(updates.confirm())
    assert asyncio.run(anew(machine).status())["confirmed"] is True
    machine.boot("B")
    assert asyncio.run(anew(machine).status())["confirmed"] is False


# ---------------------------------------------------------------- without RAUC


def test_a_machine_that_is_not_updated_by_images_says_so(tmp_path: Path) -> None:
    updates = Updates(str(tmp_path / "no.conf"), tmp_path, Machine())
    told = asyncio.run(updates.status())
    assert told["supported"] is False
    assert "not updated by images" in told["problem"]
    assert told["problem_reason"]["code"] == "update.not_by_images"
    with pytest.raises(ApiError, match="not updated by images"):
        asyncio.run(updates.check(tmp_path / "file"))


def test_versions_are_compared_by_their_numbers() -> None:
    for offered, running, order in (
        ("1.2.3", "1.2.3", "same"),
        ("1.2.0", "1.2", "same"),
        ("1.10", "1.9.9", "newer"),
        ("v2.0", "1.9", "newer"),
        ("0.1.0", "0.2.0", "older"),
        ("1.0-rc1", "1.0", "older"),
        ("1.0-rc2", "1.0-rc1", "newer"),
        ("1.0-beta3", "1.0-rc1", "older"),
        ("1.0+git5", "1.0", "same"),
        ("2026.11", "1.0", "newer"),
        ("nightly", "1.0", "unknown"),
        ("", "1.0", "unknown"),
        ("1" * 5000, "1.0", "unknown"),
        ("\N{ARABIC-INDIC DIGIT THREE}.1", "1.0", "unknown"),
    ):
        assert versions.order(offered, running) == order, offered


def test_a_file_that_grows_while_it_is_copied_is_refused(tmp_path: Path) -> None:
    source, goal = tmp_path / "source", tmp_path / "to/goal"
    source.write_bytes(b"x")

    def grow(percent: int) -> None:
        with source.open("ab") as file:
            file.write(b"x")

    with pytest.raises(CopyError, match="grew"):
        Machine().copy(source, goal, grow)
    assert not goal.exists()


def test_of_two_bundles_that_are_to_be_looked_at_at_once_one_is(
    updates: Updates, ours: Signer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Else the second file takes the place of the first, which was shown and agreed to.
    file = bundle(tmp_path / "good.raucb", ours)

    async def both() -> list[object]:
        there = await updates._slots()
        asked = asyncio.Barrier(2)

        async def slots() -> object:
            await asked.wait()
            return there

        monkeypatch.setattr(updates, "_slots", slots)
        said = await asyncio.gather(
            updates.check(file), updates.check(file), return_exceptions=True
        )
        await settled(updates)
        return list(said)

    said = asyncio.run(both())
    assert sum(isinstance(each, ApiError) for each in said) == 1


def test_a_disk_that_takes_no_writes_keeps_no_controller_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    (tmp_path / "bundle.raucb").touch()

    def refuses(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "unlink", refuses)
    Updates(str(tmp_path / "no.conf"), tmp_path, Machine())
    assert "Read-only file system" in said[0]


def test_a_line_without_an_end_does_not_stop_what_is_followed() -> None:
    said: list[str] = []
    script = "head -c 300000 /dev/zero | tr '\\0' x; echo; echo done"

    async def follow() -> int:
        async with asyncio.timeout(20):
            return await Machine().follow(("sh", "-c", script), said.append)

    assert asyncio.run(follow()) == 0
    assert said[-1] == "done"
