"""The controller has few of root's rights on the image, and does its work with these."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from box import Box, needs_root
from naproxy.core.state import State

TOP = Path(__file__).parents[4]
RUN = TOP / "overlay/etc/service/controller/run"
UNIT = TOP / "package/naproxy/naproxy-controller.service"
PING = """
import asyncio, sys
from naproxy.controller.ping import Pinger

async def ping():
    heard = asyncio.Event()
    pinger = Pinger("127.0.0.1", lambda pinged: pinged.answered and heard.set())
    pinger.every(0.1)
    await asyncio.wait_for(heard.wait(), 5)

asyncio.run(ping())
"""


def rights() -> set[str]:
    found = re.search(r'bounded "([a-z_ ]+)" root', RUN.read_text())
    assert found
    return set(found[1].split())


def bound(which: set[str]) -> list[str]:
    """What `bounded` of the image's scripts does."""
    kept = ",".join(["-all", *(f"+{each}" for each in sorted(which))])
    return ["setpriv", "--no-new-privs", "--bounding-set", kept, "--inh-caps", "-all", "--"]


class Bounded(Box):
    """A box whose controller has these rights."""

    rights: set[str]

    def popen(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [
                *bound(self.rights),
                *(sys.executable, "-m", "naproxy.cli", "controller", "--config", self.file),
                *("--realtime", *self.arguments),
            ],
            env=self.environment(),
            stderr=(self.directory / "log").open("ab"),
        )


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Bounded]:
    made = Bounded(tmp_path)
    made.arguments = [each for each in made.arguments if "group" not in each]
    made.arguments += ["--group=daemon", "--control-group=daemon"]
    made.rights = rights()
    yield made
    made.close()


def privileges(box: Bounded) -> dict[str, str]:
    assert box.process
    text = Path(f"/proc/{box.process.pid}/status").read_text()
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


@needs_root
def test_with_only_these_rights_a_server_sleeps_and_wakes(box: Bounded) -> None:
    box.start()
    found = privileges(box)
    assert int(found["CapBnd"], 16).bit_count() == len(rights())
    assert (found["CapEff"], found["NoNewPrivs"]) == (found["CapBnd"], "1")
    assert int(found["CapAmb"], 16) == int(found["CapInh"], 16) == 0
    assert (box.run_dir / "page").group() == (box.run_dir / "control.sock").group() == "daemon"
    box.wait(State.AWAKE)
    box.sleep()
    box.ask_for_wake()
    box.wait(State.AWAKE)
    assert box.server.packets
    assert "not permitted" not in box.log()


@needs_root
def test_with_these_rights_it_pings(box: Bounded) -> None:
    subprocess.run(
        [*bound(rights()), sys.executable, "-c", PING],
        env=box.environment(),
        timeout=30,
        check=True,
    )


def test_the_unit_for_debian_has_the_same_rights() -> None:
    found = re.search(r"^CapabilityBoundingSet=(.+)$", UNIT.read_text(), re.MULTILINE)
    assert found
    assert {each.removeprefix("CAP_").lower() for each in found[1].split()} == rights()
