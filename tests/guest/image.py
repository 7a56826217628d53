"""The guests' images, made once and kept in build/guest."""

import hashlib
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.simulator.office.namespace import ROOT

HERE = Path(__file__).resolve().parent
BUILD = ROOT / "build/guest"
_TIMEOUT_S = 1800


@dataclass(frozen=True)
class Image:
    """Where its parts are."""

    directory: Path

    def __getitem__(self, name: str) -> Path:
        """Return disk, vmlinuz, initrd, host.pub (the host key), or anna (a person's own key)."""
        return self.directory / name


def image(release: str) -> Image:
    """Return a Debian release's image; make it if what makes it has changed."""
    recipe = b"".join((HERE / name).read_bytes() for name in ("build-image", "customise"))
    made_by = hashlib.sha256(recipe).hexdigest()
    directory = BUILD / release
    stamp = directory / "made-by"
    if not stamp.exists() or stamp.read_text() != made_by:
        stamp.unlink(missing_ok=True)
        # Others work on this machine too.
        build: list[str | Path] = ["nice", HERE / "build-image", release, directory]
        subprocess.run(build, check=True, timeout=_TIMEOUT_S)
        stamp.write_text(made_by)
    return Image(directory)
