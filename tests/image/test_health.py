"""What the image's health program does when Python itself does not work."""

import subprocess
from pathlib import Path

import pytest

HEALTH = Path(__file__).resolve().parents[2] / "overlay/usr/libexec/naproxy-health"


def health(tmp_path: Path, confirmed: str | None, status: int = 1) -> list[str]:
    """Run it beside programs that only say that they ran, and return what was done."""
    for name, code in (("python3", status), ("rauc", 1), ("reboot", 0), ("sleep", 0)):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\necho {name} $* >>{tmp_path}/ran\nexit {code}\n")
        program.chmod(0o755)
    (tmp_path / "cmdline").write_text("root=/dev/vda3 ro rauc.slot=B panic=10 console=tty0\n")
    if confirmed is not None:
        (tmp_path / "naproxy/update").mkdir(parents=True)
        (tmp_path / "naproxy/update/confirmed.json").write_text(confirmed)
    subprocess.run(
        ["/bin/sh", HEALTH],
        env={
            "PATH": f"{tmp_path}:/usr/bin:/bin",
            "CMDLINE": str(tmp_path / "cmdline"),
            "DATA": str(tmp_path),
        },
        check=False,
    )
    return (tmp_path / "ran").read_text().splitlines()[1:]


def test_where_it_was_decided_nothing_more_is_done(tmp_path: Path) -> None:
    assert health(tmp_path, '{"slot": "A", "installed": ""}', status=0) == []


def test_a_system_without_python_gives_way_to_one_that_was_confirmed(tmp_path: Path) -> None:
    done = health(tmp_path, '{"slot": "A", "installed": "today"}')
    assert done == ["sleep 300", "rauc status mark-bad booted", "reboot"]


@pytest.mark.parametrize("confirmed", [None, "", '{"slot": "B", "installed": "today"}'])
def test_it_stays_where_there_is_no_way_back(tmp_path: Path, confirmed: str | None) -> None:
    assert health(tmp_path, confirmed) == []
