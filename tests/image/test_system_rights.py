"""No service of the image has more of root's rights than it needs."""

import re
from pathlib import Path

import pytest

from tests.image.standin import OVERLAY, TOP

SERVICES = sorted((OVERLAY / "etc/service").glob("*/run"))
LOGS = sorted({each.resolve() for each in (OVERLAY / "etc/service").glob("*/log/run")})
PEOPLE = {"screen", "sshd"}
"""Who comes in here is root: the box is theirs."""
POWERFUL = {
    "chores": {"sys_admin"},  # sets the box's name
    "rauc": {"sys_admin"},  # mounts
    "mdev": {"sys_module"},  # loads drivers
    "hawkbit": {"sys_boot"},  # starts the box anew, if the fleet says so
    "chrony": {"sys_time"},
}
"""With these rights a program could take the others, or end the box."""
STRONG = {"sys_admin", "sys_module", "sys_boot", "sys_time", "sys_ptrace", "sys_rawio"}
RAW = {"controller", "network"}
"""These may send what they like."""


def bounds(run: Path) -> list[tuple[set[str], str]]:
    """Return the rights, and whose, of each program that a script becomes."""
    found = re.findall(r'\bbounded (?:"([a-z_ ]*)"|([a-z_]+)) ([a-z:-]+) ', run.read_text())
    return [(set((quoted or bare).split()), whose) for quoted, bare, whose in found]


def of(name: str) -> set[str]:
    return {right for each, _ in bounds(OVERLAY / f"etc/service/{name}/run") for right in each}


@pytest.mark.parametrize("run", [*SERVICES, *LOGS], ids=lambda run: f"{run.parent.name}/{run.name}")
def test_each_service_has_a_bound(run: Path) -> None:
    text = run.read_text()
    if run.parent.name in PEOPLE:
        assert not bounds(run)
        return
    assert bounds(run), "it has all of root's rights"
    # What it becomes in any other way is the end of it, or has its bound by then.
    became = re.findall(r"^\s*exec (.+)$|\|\| exec (.+)$", text, re.MULTILINE)
    others = {(one or other).split()[0] for one, other in became} - {"sv", "/sbin/udhcpc"}
    assert not others
    assert "udhcpc" not in text or run.parent.name == "network"


@pytest.mark.parametrize("run", SERVICES, ids=lambda run: run.parent.name)
def test_a_strong_right_has_a_reason(run: Path) -> None:
    name = run.parent.name
    assert of(name) & STRONG == POWERFUL.get(name, set())


def test_only_those_that_must_send_raw_packets_may() -> None:
    assert {run.parent.name for run in SERVICES if "net_raw" in of(run.parent.name)} == RAW


@pytest.mark.parametrize("name", ["webui", "mdnsd", "mqtt", "hawkbit"])
def test_what_need_not_be_root_is_not(name: str) -> None:
    assert all(whose != "root" for _, whose in bounds(OVERLAY / f"etc/service/{name}/run"))


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("varnish", "varnish-vcl/varnish.service.conf"),
        ("edge", "package/naproxy/naproxy-edge.service"),
    ],
)
def test_it_has_the_same_rights_on_debian(name: str, file: str) -> None:
    unit = (TOP / file).read_text().replace("\\\n", "")
    found = re.search(r"^CapabilityBoundingSet=(.+)$", unit, re.MULTILINE)
    assert found
    assert {each.removeprefix("CAP_").lower() for each in found[1].split()} == of(name)


def test_every_user_is_made() -> None:
    tables = "\n".join(
        path.read_text() for path in (*TOP.glob("package/*/*.mk"), TOP / "board/common/users.txt")
    )
    for run in SERVICES:
        for _, whose in bounds(run):
            assert whose == "root" or re.search(rf"^\s*{whose.split(':')[0]} -1 ", tables, re.M)


def test_the_image_has_the_program_that_bounds_and_no_weaker_one() -> None:
    assert (
        "BR2_PACKAGE_UTIL_LINUX_SETPRIV=y"
        in (TOP / "configs/fragments/system.fragment").read_text()
    )
    assert "# CONFIG_SETPRIV is not set" in (TOP / "board/common/busybox.fragment").read_text()


@pytest.mark.parametrize("run", SERVICES, ids=lambda run: run.parent.name)
def test_the_documentation_tells_each_services_rights(run: Path) -> None:
    """In the table of docs/security.md: a row names services, user, rights, why."""
    table = (TOP / "docs/security.md").read_text().partition("### Who runs as whom")[2]
    rows = [line.split("|")[1:-1] for line in table.splitlines() if line.startswith("| `")]
    row = next(row for row in rows if f"`{run.parent.name}`" in row[0])
    told = set(re.findall(r"`([a-z_]+)`", row[2]))
    assert told == of(run.parent.name)
