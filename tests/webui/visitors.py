"""Visitors who come again and again while a story goes on: curl, in the client's machine."""

import subprocess
from pathlib import Path
from typing import Self

from tests.patience import wait_for
from tests.simulator.office import Office

PATIENCE_S = 20
"""A browser waits longer. Longer than the server takes to wake."""
_LOOP = """\
while [ ! -e "$4" ]; do
	ip=$(cat "$1")
	curl --silent --output /dev/null --max-time {patience} --resolve "$2:80:$ip" \\
		--write-out "%{{http_code}} $ip %{{time_total}}\\n" \\
		"http://$2{path}" >>"$3" || :
	sleep {pause}
done
"""


class Visitors:
    """Ask for a website by its name, at the address that `lead` says: as DNS would."""

    def __init__(
        self,
        office: Office,
        name: str,
        site: str,
        address: str,
        *,
        pause_s: float = 0.3,
        fresh: bool = True,
    ):
        """`fresh`: request a new URL each time, which the cache does not have."""
        self._office = office
        self._site = site
        self._record = office.directory / f"{name}.dns"
        self._said = office.directory / f"{name}.said"
        self._end = office.directory / f"{name}.end"
        self._script = _LOOP.format(
            patience=PATIENCE_S, pause=pause_s, path="/?$(date +%s%N)" if fresh else "/"
        )
        self._running: subprocess.Popen[str] | None = None
        self._name = name
        self._said.touch()
        self.lead(address)

    def lead(self, address: str) -> None:
        """Have the name lead to another address from now on."""
        new = Path(f"{self._record}.new")
        new.write_text(address)
        new.replace(self._record)

    def __enter__(self) -> Self:
        script = ("sh", "-c", self._script, "sh")
        argv: list[str | Path] = [*script, self._record, self._site, self._said, self._end]
        self._running = self._office.client.popen(argv, log=self._name)
        return self

    def __exit__(self, *_: object) -> None:
        """Let the one under way end: it is to be answered, too."""
        assert self._running
        self._end.touch()
        self._running.wait(2 * PATIENCE_S)
        self._end.unlink()

    def visits(self) -> list[tuple[int, str, float]]:
        """Return each visit's status (0: no answer), the address asked, how long it took (s)."""
        rows = [line.split() for line in self._said.read_text().splitlines()]
        return [(int(code), address, float(took)) for code, address, took in rows]

    def unanswered(self) -> list[tuple[int, str, float]]:
        """Return those that got no answer, or a refusal."""
        return [each for each in self.visits() if each[0] != 200]

    def await_more(self, number: int, timeout_s: float = 120.0) -> None:
        """Wait until so many more have come."""
        wanted = len(self.visits()) + number
        wait_for(lambda: len(self.visits()) >= wanted, f"{number} more visits", timeout_s)
