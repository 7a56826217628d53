"""The suite itself: got at a pinned commit, its server as the origin, its client."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.cache_tests.report import Case
from tests.patience import wait_for
from tests.simulator.office import Office
from tests.simulator.office.namespace import ROOT, OfficeError

SOURCE = "https://github.com/http-tests/cache-tests.git"
COMMIT = "b55b8bda3dbb8c927c04e85bd8d496a8caa3e4ba"
ORIGIN_PORT = 8000
_PLACE = ROOT / "build/cache-tests/suite"
_NODE = Path(sys.executable).with_name("node")
_ORIGIN = Path(__file__).with_name("origin.mjs")
_RUN_S = 600


def get(source: str) -> Path:
    """Return the folder of the suite; it is got from `source` unless it is there already."""
    if _git("rev-parse", "HEAD") != COMMIT:
        _PLACE.mkdir(parents=True, exist_ok=True)
        for words in (
            ["init", "-q"],
            ["fetch", "-q", "--depth=1", source, COMMIT],
            ["checkout", "-q", "--force", "--detach", "FETCH_HEAD"],
        ):
            if _git(*words) is None:
                raise OfficeError(
                    f"cannot get the suite, commit {COMMIT}, from {source}.\n"
                    "It is not part of this repository. SUITE=PLACE names a copy, as git takes it."
                )
    # It imports undici, at the version that tests/package.json pins.
    modules = _PLACE / "node_modules"
    if not modules.is_symlink():
        modules.symlink_to("../../npm/node_modules")
    return _PLACE


def start_origin(office: Office, suite: Path) -> None:
    """Start the suite's server on the server's machine."""
    office.server.popen(
        [_NODE, "--import", _ORIGIN, suite / "test-engine/server/server.mjs"],
        log="origin",
        env={
            "npm_config_protocol": "http",
            "npm_config_port": str(ORIGIN_PORT),
            "npm_config_pidfile": str(office.directory / "origin.pid"),
        },
    )
    wait_for(lambda: office.server.listens(ORIGIN_PORT), "the suite's server")


def run(office: Office, suite: Path, base: str) -> list[Case]:
    """Run every case from the client's machine against the proxy at `base`."""
    script = Path(__file__).with_name("run.mjs")
    done = office.client.run([_NODE, script, suite, base], timeout_s=_RUN_S)
    return [Case(**case) for case in json.loads(done.stdout)]


def _git(*words: str) -> str | None:
    """Return what git says in the suite's folder, or None if it fails."""
    if words[0] != "init" and not (_PLACE / ".git").exists():
        return None
    done = subprocess.run(
        ["git", "-C", _PLACE, *words], stdout=subprocess.PIPE, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else None
