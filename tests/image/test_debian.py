"""The packages that debian/control names are those that the programs need."""

import re
import tomllib

from tests.image.standin import TOP
from tests.image.test_drivers import needs

CALLED = {"pyserial": "python3-serial", "python-dateutil": "python3-dateutil"}
"""Those that Debian calls otherwise."""


def fields(package: str) -> dict[str, set[str]]:
    """Return what packages each field of a package's paragraph names."""
    found = {}
    for paragraph in (TOP / "debian/control").read_text().split("\n\n"):
        if paragraph.startswith(f"Package: {package}\n"):
            for field, text in re.findall(r"^(\w+):((?:.*\n )*.*)", paragraph, re.M):
                found[field] = set(re.findall(r"[a-z0-9][a-z0-9+.-]+", text.lower()))
    return found


def depends(project: str) -> set[str]:
    """Return Debian's packages of the Python modules that a pyproject.toml names."""
    said = tomllib.loads((TOP / project / "pyproject.toml").read_text())["project"]
    names = {re.split(r"[=<>\[]", each)[0].lower() for each in said["dependencies"]}
    return {CALLED.get(name, f"python3-{name}") for name in names - {"naproxy"}}


def test_packages_depend_on_the_modules_that_the_programs_import() -> None:
    for package, project in (
        ("naproxy", "package/naproxy"),
        ("naproxy-webui", "webui"),
        ("naproxy-meter", "package/naproxy-meter"),
    ):
        missing = depends(project) - fields(package)["Depends"]
        assert not missing, f"{package}: {missing}"


def test_what_a_driver_needs_is_at_least_suggested() -> None:
    named = fields("naproxy")
    there = named["Depends"] | named["Recommends"] | named["Suggests"]
    for driver, needed in needs().items():
        missing = {*needed.programs.values(), *needed.modules.values()} - there
        assert not missing, f"{driver}: {missing}"
