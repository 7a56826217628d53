"""The guest's image, made once and kept in build/guest."""

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
        """Return disk, vmlinuz, initrd, or a key: host, admin, sleep (private; .pub beside it)."""
        return self.directory / name


def image() -> Image:
    """Return the image; make it if what makes it has changed."""
    recipe = b"".join((HERE / name).read_bytes() for name in ("build-image", "customise"))
    made_by = hashlib.sha256(recipe).hexdigest()
    stamp = BUILD / "made-by"
    if not stamp.exists() or stamp.read_text() != made_by:
        stamp.unlink(missing_ok=True)
        # Others work on this machine too.
        subprocess.run(["nice", HERE / "build-image", BUILD], check=True, timeout=_TIMEOUT_S)
        stamp.write_text(made_by)
    return Image(BUILD)
