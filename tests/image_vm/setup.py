"""The first run through the web interface, as the office does it: claim, server, keys, proof."""

from __future__ import annotations

import time
from collections.abc import Callable
from http.client import HTTPException
from typing import Any, Final

from tests.image_vm.ui import RefusedError, Ui
from tests.simulator.office.box import HOST
from tests.simulator.office.namespace import OfficeError
from tests.simulator.office.server import ADDRESS, MAC, Server

USER: Final = "admin"
PASSWORD: Final = "Night watch 7"
MARKER: Final = "Office of the image test"
"""The office's name: an update must not lose it."""
_ASK_S: Final = 0.5
_JOB_S: Final = 120.0
_PROOF_S: Final = 300.0
_LONG_S: Final = 30 * 86400.0


def claim(ui: Ui, code: str) -> None:
    """Make the first user."""
    ui.claim(code, USER, PASSWORD)


def set_up(ui: Ui, server: Server) -> None:
    """Go through the guide with the office's server; afterwards the box may put it to sleep."""
    office = dict.fromkeys(("currency", "price_per_kwh", "co2_g_per_kwh"))
    zone = {"language": "en", "name": MARKER, "time_zone": "Europe/Zurich"}
    ui.call("POST", "/api/setup/office", {**zone, **office})
    ui.call("POST", "/api/setup/server", {"address": ADDRESS, "mac": MAC, "name": "web"})
    ui.call("POST", "/api/setup/names", {"hosts": [HOST]})
    ui.call("POST", "/api/setup/sleep", {"driver": "ssh", "user": "root"})
    authorise(server, ui.call("POST", "/api/setup/key", {})["public_key"])
    ui.call("POST", "/api/setup/host-key", {})
    job(ui, "/api/setup/host-key?server=web")
    # Compared as a person does it: with what the server's own console says.
    ui.call("PUT", "/api/setup/host-key", {"fingerprint": fingerprint(server)})
    ui.call("POST", "/api/setup/meter", {"kind": "none"})
    prove(ui)
    ui.call("PUT", "/api/setup", {"done": True, "step": "done"})


def authorise(server: Server, public_key: str) -> None:
    """Let the box's key do on the server what the office's own key may: sleep, nothing else."""
    file = server.directory / "authorized_keys"
    allowed, _, _ = file.read_text().splitlines()[0].partition(" ssh-")
    with file.open("a") as keys:
        keys.write(f"\n{allowed} {public_key}\n")


def fingerprint(server: Server) -> str:
    """Return the host key's, as it is said on the server itself."""
    key = server.directory / "host_key.pub"
    return server.run(["ssh-keygen", "-lf", key]).stdout.split()[1]


def find_port(ui: Ui) -> str:
    """Have the box look for meters until it tells of a serial port by USB; return its name."""

    def searched() -> Any:
        ui.call("POST", "/api/setup/meters", {})
        job(ui, "/api/setup/meters")
        return ui.call("GET", "/api/setup/meters")["result"]["unknown_ports"]

    # What was just plugged in takes a moment.
    [name] = wait(searched, "a serial port by USB", _JOB_S)
    return str(name)


def prove(ui: Ui, cycles: int = 2) -> None:
    """Have the server put to sleep and woken; OfficeError with the reason if that failed."""
    ui.call("POST", "/api/setup/proof", {"cycles": cycles, "pause_s": 1})

    def ended() -> Any:
        report = ui.call("GET", "/api/setup/proof?server=web")["report"]
        return report if report["ended"] else None

    report = wait(ended, "the proof's end", _PROOF_S)
    if not report["passed"]:
        raise OfficeError(f"the proof failed: {report['reason']}")
    # The office's machines ask for the box by its address, too.
    ui.call("POST", "/api/servers/web/live", {})


def job(ui: Ui, path: str) -> None:
    """Wait for the end of a job; OfficeError if it failed."""

    def done() -> Any:
        said = ui.call("GET", path)
        if said["state"] == "failed":
            raise OfficeError(f"{path}: {said['error']}")
        return said["state"] == "done"

    wait(done, path, _JOB_S)


def state(ui: Ui) -> str:
    """Return the server's state as the interface has it."""
    return str(ui.call("GET", "/api/box")["servers"][0]["state"])


def await_state(ui: Ui, wanted: str, timeout_s: float) -> None:
    """Wait until the server is so."""
    wait(lambda: state(ui) == wanted, f"the state {wanted}", timeout_s)


def hurry_to_sleep(ui: Ui) -> None:
    """Let the box put an idle server to sleep after seconds, whatever that saves."""
    ui.call("POST", "/api/servers/web/mode", {"mode": "auto", "until_s": None})
    settings(ui, **{"server.web.policy": {"name": "timeout", "idle_s": 5.0}})


def settings(ui: Ui, **values: Any) -> None:
    """Set keys of the configuration."""
    changes = [{"op": "set", "where": where, "value": value} for where, value in values.items()]
    version = ui.call("GET", "/api/settings")["version"]
    ui.call("PATCH", "/api/settings", {"changes": changes, "version": version})


def stay_awake(ui: Ui) -> None:
    """Keep the server awake from now on, also over restarts of the box."""
    ui.call("POST", "/api/servers/web/mode", {"mode": "awake", "until_s": None})
    await_state(ui, "awake", _JOB_S)


def kept(ui: Ui, first: tuple[int, str, str]) -> None:
    """Raise OfficeError if settings or history are not what they were."""
    named = ui.call("GET", "/api/settings")["office"]["name"]
    if named != MARKER:
        raise OfficeError(f"the settings are lost: the office is called {named!r}")
    if (now := oldest(ui)) != first:
        raise OfficeError(f"the history began with {first}, and now with {now}")


def oldest(ui: Ui) -> tuple[int, str, str]:
    """Return the first transition in the history: its number, from, to."""
    # By the box's clock: without a battery it is in another year than this machine's.
    now_s = ui.call("GET", "/api/box/about")["t_s"]
    span = f"from_s={now_s - _LONG_S:.0f}&to_s={now_s + _LONG_S:.0f}"
    path = f"/api/history/transitions?server=web&{span}&limit=200"
    said = ui.call("GET", path)
    while said["next"]:
        said = ui.call("GET", f"{path}&cursor={said['next']}")
    row = said["rows"][-1]
    return row["id"], row["from"], row["to"]


def wait(
    seen: Callable[[], Any],
    what: str,
    timeout_s: float,
    over: Callable[[], bool] = lambda: False,
) -> Any:
    """Ask until there is an answer; what is refused or does not answer is asked again.

    OfficeError if there was none in time, or if `over` says that there will be none.
    """
    deadline_s = time.monotonic() + timeout_s
    why = ""
    while time.monotonic() < deadline_s:
        found = None
        try:
            found = seen()
        except (OSError, HTTPException, RefusedError) as error:
            why = f": {error}"
        if over():
            raise OfficeError(f"no more waiting for {what}: the power is cut")
        if found:
            return found
        time.sleep(_ASK_S)
    raise OfficeError(f"waited {timeout_s:g} s in vain for {what}{why}")
