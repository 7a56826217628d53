"""Which of the two systems the real GRUB chooses, in QEMU: one try after the other."""

from pathlib import Path

import pytest

from tests.image.grub_disk import COMMON, Disk, Parts, environment, missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "")

UPDATED = {"ORDER": "B A", "A_OK": "1", "B_OK": "1", "A_TRY": "0", "B_TRY": "0"}
NEW = {"ORDER": "A B", "A_OK": "1", "B_OK": "0", "A_TRY": "0", "B_TRY": "0"}


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Parts:
    return Parts(tmp_path_factory.mktemp("parts"))


def test_an_update_has_three_tries_then_the_other_then_they_take_turns(
    tmp_path: Path, parts: Parts
) -> None:
    disk = Disk(tmp_path, parts, **UPDATED)
    assert "".join(disk.boot(8)) == "BBBAAABA"


@pytest.mark.long
def test_a_system_that_was_not_written_waits_until_the_other_has_failed(
    tmp_path: Path, parts: Parts
) -> None:
    disk = Disk(tmp_path, parts, **NEW)
    assert "".join(disk.boot(5)) == "AAABA"


@pytest.mark.parametrize("whole", [0.0, pytest.param(0.5, marks=pytest.mark.long)])
def test_a_system_that_cannot_be_read_is_passed_over(
    tmp_path: Path, parts: Parts, whole: float
) -> None:
    disk = Disk(tmp_path, parts, **UPDATED)
    image = parts.slot.read_bytes()
    used = int.from_bytes(image[40:48], "little")  # as squashfs' superblock says
    disk.write_slot("B", image[: int(used * whole)])
    assert disk.boot() == ["A"]
    assert (disk.memory()["B_TRY"], disk.memory()["A_TRY"]) == ("3", "1")


@pytest.mark.long
@pytest.mark.parametrize(
    ("copy", "damage"),
    [
        ("grubenv", None),
        ("grubenv", b""),
        ("grubenv", bytes(1024)),
        ("grubenv2", b""),
    ],
)
def test_one_copy_of_the_memory_is_enough(
    tmp_path: Path, parts: Parts, copy: str, damage: bytes | None
) -> None:
    disk = Disk(tmp_path, parts, **(UPDATED | {"B_TRY": "2"}))
    disk.remove(copy)
    if damage is not None:
        disk.put(copy, damage)
    assert disk.boot(2) == ["B", "A"]


def test_a_memory_with_strange_words_does_not_count(tmp_path: Path, parts: Parts) -> None:
    disk = Disk(tmp_path, parts, **UPDATED)
    disk.put("grubenv", environment(tmp_path, ORDER="C $slot", A_OK="1", B_OK="1"))
    assert disk.boot() == ["B"]


def test_without_a_memory_no_system_is_started_for_ever(tmp_path: Path, parts: Parts) -> None:
    disk = Disk(tmp_path, parts, **UPDATED)
    disk.remove("grubenv")
    disk.put("grubenv2", bytes(1024))
    disk.boot_until(lambda slots: set(slots) == {"A", "B"})


def test_without_a_memory_a_new_box_starts(tmp_path: Path, parts: Parts) -> None:
    disk = Disk(tmp_path, parts)
    disk.write_slot("B", b"")
    assert disk.boot() == ["A"]


@pytest.mark.long
def test_with_a_card_that_takes_no_writes_no_system_is_started_for_ever(
    tmp_path: Path, parts: Parts
) -> None:
    disk = Disk(tmp_path, parts, **UPDATED)
    disk.boot_until(lambda slots: set(slots) == {"A", "B"}, writable=False)


def test_with_a_card_that_takes_no_writes_what_is_not_whole_is_not_started(
    tmp_path: Path, parts: Parts
) -> None:
    disk = Disk(tmp_path, parts, **NEW)
    assert disk.boot_until(lambda slots: len(slots) >= 3, writable=False) == ["A"] * 3


def test_what_grub_reads_first_is_commands_only() -> None:
    """Its simple parser knows no comments, and takes a quote for the beginning of a text."""
    assert not set("'\"\\#") & set((COMMON / "grub-embedded.cfg").read_text())
