"""Freezing a group of processes, with whichever control groups the machine has."""

import contextlib
from pathlib import Path

from tests.patience import wait_for
from tests.simulator.office.namespace import OfficeError, kill


class Freezer:
    """A control group whose processes can be stopped and let go all at once.

    Version 2 has `cgroup.freeze` in every group; version 1 has a hierarchy of
    its own for it. What its processes start belongs to the group too.
    """

    def __init__(self, path: Path):
        self.path = path
        self._v2 = (path.parent / "cgroup.subtree_control").exists()

    @staticmethod
    def hierarchies() -> list[Path]:
        """Return the mount points of this machine's hierarchies that can freeze, best first."""
        found: dict[str, Path] = {}
        for line in Path("/proc/self/mounts").read_text().splitlines():
            _, point, kind, options, *_ = line.split()
            if kind == "cgroup2":
                found.setdefault("v2", Path(point))
            elif kind == "cgroup" and "freezer" in options.split(","):
                found.setdefault("v1", Path(point))
        return [found[version] for version in ("v2", "v1") if version in found]

    @classmethod
    def create(cls, name: str, hierarchy: Path | None = None) -> "Freezer":
        """Make the group; `hierarchy` is one of `hierarchies()`."""
        if hierarchy is None:
            hierarchy = next(iter(cls.hierarchies()), None)
        if hierarchy is None:
            raise OfficeError("no control group hierarchy that can freeze is mounted")
        path = hierarchy / name
        path.mkdir()
        return cls(path)

    def argv(self, argv: list[str]) -> list[str]:
        """Return the command that runs `argv` in the group."""
        join = f'echo $$ >"{self.path}/cgroup.procs" && exec "$@"'
        return ["sh", "-c", join, "sh", *argv]

    def freeze(self) -> None:
        """Stop every process; returns when they have stopped."""
        self._set(frozen=True)

    def thaw(self) -> None:
        """Let every process go on."""
        self._set(frozen=False)

    def frozen(self) -> bool:
        """Whether everything in the group has stopped."""
        if self._v2:
            return "frozen 1" in (self.path / "cgroup.events").read_text()
        return (self.path / "freezer.state").read_text().strip() == "FROZEN"

    def pids(self) -> list[int]:
        """Return the processes of the group."""
        return [int(pid) for pid in (self.path / "cgroup.procs").read_text().split()]

    def remove(self) -> None:
        """Kill what is in the group, frozen or not, and remove it."""
        if not self.path.exists():
            return
        with contextlib.suppress(OSError):
            self.thaw()
        kill(self.pids)

        def removed() -> bool:
            # Busy for a moment after the last process has gone.
            with contextlib.suppress(OSError):
                self.path.rmdir()
            return not self.path.exists()

        wait_for(removed, f"{self.path} to be removable")

    def _set(self, *, frozen: bool) -> None:
        if self._v2:
            (self.path / "cgroup.freeze").write_text("1" if frozen else "0")
        else:
            (self.path / "freezer.state").write_text("FROZEN" if frozen else "THAWED")
        wait_for(
            lambda: self.frozen() == frozen, f"{self.path} to {'freeze' if frozen else 'thaw'}"
        )
