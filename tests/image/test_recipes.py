"""Our recipes, and the release of Buildroot, without Buildroot."""

import hashlib
import re
import subprocess
import tomllib
from pathlib import Path

import naproxy
import pytest

TOP = Path(__file__).resolve().parents[2]
COMMON = TOP / "board/common"
RECIPES = sorted(TOP.glob("package/*/*.mk"))
OURS = {
    "naproxy": "package/naproxy",
    "naproxy-meter": "package/naproxy-meter",
    "naproxy-webui": "webui",
}
BROUGHT = {"LICENSE": TOP, "crawlers/crawler-user-agents.LICENSE": TOP / "package"}
"""Licence files that a hook brings, and the folder it takes them from."""
SYMBOLS = {"naproxy": "NAPROXY", "pyserial": "PYTHON_SERIAL", "python-dateutil": "PYTHON_DATEUTIL"}
"""Buildroot's names for packages, where they are not PYTHON_ and Python's."""


def prefix(recipe: Path) -> str:
    return recipe.stem.upper().replace("-", "_")


def value(recipe: Path, name: str) -> str:
    found = re.search(rf"^{prefix(recipe)}_{name} = (.*)$", recipe.read_text(), re.M)
    assert found, f"{recipe.name} has no {name}"
    return found[1]


def hashes(recipe: Path) -> dict[str, str]:
    lines = (line.split() for line in recipe.with_suffix(".hash").read_text().splitlines())
    return {words[2]: words[1] for words in lines if len(words) == 3 and words[0] == "sha256"}


def root(recipe: Path) -> Path:
    site = value(recipe, "SITE").removeprefix("$(BR2_EXTERNAL_NAPROXY_TOP)/")
    return TOP / site


def test_the_menu_has_every_recipe_once() -> None:
    menu = (TOP / "buildroot-external/Config.in").read_text()
    listed = re.findall(r"/\.\./package/([\w-]+)/Config\.in", menu)
    assert listed == [recipe.stem for recipe in RECIPES]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda r: r.stem)
def test_a_recipe_has_a_licence_whose_hash_is_known(recipe: Path) -> None:
    assert value(recipe, "LICENSE")
    assert set(value(recipe, "LICENSE_FILES").split()) <= set(hashes(recipe))


@pytest.mark.parametrize(
    "recipe", [r for r in RECIPES if "_SITE_METHOD = local" in r.read_text()], ids=lambda r: r.stem
)
def test_hashes_of_our_licence_files_are_true(recipe: Path) -> None:
    for name, known in hashes(recipe).items():
        file = BROUGHT.get(name, root(recipe)) / name
        assert hashlib.sha256(file.read_bytes()).hexdigest() == known, name


@pytest.mark.parametrize(
    "recipe", [r for r in RECIPES if "_SITE = http" in r.read_text()], ids=lambda r: r.stem
)
def test_what_is_downloaded_has_a_hash(recipe: Path) -> None:
    version = value(recipe, "VERSION")
    if "_SITE_METHOD = git" in recipe.read_text():
        source = f"{recipe.stem}-{version}-git4.tar.gz"  # what Buildroot makes of a checkout
    else:
        source = value(recipe, "SOURCE").replace(f"$({prefix(recipe)}_VERSION)", version)
    assert re.fullmatch(r"[0-9a-f]{64}", hashes(recipe)[source])


@pytest.mark.parametrize("name", OURS)
def test_a_recipe_has_the_version_of_its_source(name: str) -> None:
    project = tomllib.loads((TOP / OURS[name] / "pyproject.toml").read_text())["project"]
    recipe = TOP / "package" / name / f"{name}.mk"
    version = value(recipe, "VERSION")
    if version == "$(BR2_EXTERNAL_NAPROXY_VERSION)":
        version = naproxy.__version__
    assert version == project.get("version", naproxy.__version__)
    assert root(recipe) == TOP / OURS[name]


def test_buildroot_takes_the_version_from_the_package(tmp_path: Path) -> None:
    # As Buildroot, make reads no path with a space in it.
    (tmp_path / "tree").symlink_to(TOP)
    (tmp_path / "Makefile").write_text(
        f"BR2_EXTERNAL_NAPROXY_PATH := {tmp_path}/tree/buildroot-external\n"
        "include $(BR2_EXTERNAL_NAPROXY_PATH)/external.mk\n"
        "said:\n\t@echo $(NAPROXY_VERSION) $(LIBVMOD_NAPROXY_VERSION)\n"
    )
    done = subprocess.run(
        ["make", "-s", "-C", tmp_path, "said"], check=True, capture_output=True, text=True
    )
    assert done.stdout.split() == [naproxy.__version__] * 2


@pytest.mark.parametrize("name", OURS)
def test_a_recipe_selects_what_its_source_depends_on(name: str) -> None:
    project = tomllib.loads((TOP / OURS[name] / "pyproject.toml").read_text())["project"]
    menu = (TOP / "package" / name / "Config.in").read_text()
    for dependency in project["dependencies"]:
        package = re.split(r"[=<>]", dependency)[0]
        symbol = SYMBOLS.get(package, f"PYTHON_{package.upper().replace('-', '_')}")
        assert re.search(rf"select BR2_PACKAGE_{symbol} # runtime$", menu, re.M), dependency


def test_pycurl_has_the_version_that_ours_depends_on() -> None:
    project = tomllib.loads((TOP / OURS["naproxy"] / "pyproject.toml").read_text())["project"]
    release = value(TOP / "package/python-pycurl/python-pycurl.mk", "VERSION")
    assert f"pycurl=={release.removeprefix('REL_').replace('_', '.')}" in project["dependencies"]


def buildroot(where: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMON / "buildroot", where],
        env={"PATH": "/usr/bin:/bin"} | env,
        capture_output=True,
        text=True,
        check=False,
    )


def release(name: str) -> str:
    text = (TOP / "buildroot-external/release").read_text()
    found = re.search(rf"^BUILDROOT_{name} := (\S+)$", text, re.M)
    assert found
    return found[1]


def checkout(where: Path, version: str) -> Path:
    where.mkdir()
    (where / "Makefile").write_text(f"export BR2_VERSION := {version}\n")
    return where


def test_a_checkout_of_the_pinned_release_is_taken(tmp_path: Path) -> None:
    tree = checkout(tmp_path / "tree", release("VERSION"))
    done = buildroot(tmp_path, BUILDROOT_DIR=str(tree))
    assert (done.returncode, done.stdout.strip()) == (0, str(tree))


def test_a_checkout_of_another_release_is_refused(tmp_path: Path) -> None:
    tree = checkout(tmp_path / "tree", "2010.05")
    done = buildroot(tmp_path, BUILDROOT_DIR=str(tree))
    assert done.returncode == 1
    assert f"is release 2010.05, images are built with {release('VERSION')}" in done.stderr


def test_a_folder_that_is_no_buildroot_is_refused(tmp_path: Path) -> None:
    done = buildroot(tmp_path, BUILDROOT_DIR=str(tmp_path))
    assert done.returncode == 1
    assert "is no Buildroot" in done.stderr


def test_a_download_with_another_hash_is_refused_and_not_unpacked(tmp_path: Path) -> None:
    tarball = tmp_path / f"buildroot-{release('VERSION')}.tar.xz"
    tarball.write_bytes(b"not what was released")
    done = buildroot(tmp_path)
    assert done.returncode == 1
    assert f"not {release('SHA256')}; nothing is unpacked" in done.stderr
    assert list(tmp_path.iterdir()) == [tarball]
