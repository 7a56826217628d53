"""An authority of our own, by the real openssl: certificates as good and as bad as wanted."""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

KINDS = {
    "ecdsa": ("ec", "ec_paramgen_curve:prime256v1"),
    "p384": ("ec", "ec_paramgen_curve:secp384r1"),
    "koblitz": ("ec", "ec_paramgen_curve:secp256k1"),
    "rsa": ("rsa", "rsa_keygen_bits:2048"),
    "weak": ("rsa", "rsa_keygen_bits:1024"),
}


def openssl(*args: object, given: bytes = b"") -> bytes:
    """Run it; what it prints."""
    argv = ["openssl", *map(str, args)]
    return subprocess.run(argv, input=given, capture_output=True, check=True).stdout


@dataclass(frozen=True)
class Issued:
    """A certificate and its key, each PEM and in a file."""

    file: Path
    key_file: Path

    @property
    def pem(self) -> bytes:
        return self.file.read_bytes()

    @property
    def key(self) -> bytes:
        return self.key_file.read_bytes()


class Authority:
    """A root, and one below it that issues."""

    def __init__(self, folder: Path) -> None:
        """Make both in a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._empty = folder / "empty.cnf"
        self._empty.write_text("[req]\ndistinguished_name=dn\n[dn]\n")
        is_ca = "basicConstraints=critical,CA:TRUE"
        self.root = self._make("Root", None, "ecdsa", 3650, (is_ca,))
        self.below = self._make("Below", self.root, "ecdsa", 1825, (is_ca,))

    def _make(
        self,
        subject: str,
        by: Issued | None,
        kind: str,
        days: int,
        extensions: tuple[str, ...],
        *,
        digest: str = "sha256",
    ) -> Issued:
        number = len(list(self.folder.iterdir()))
        made = Issued(self.folder / f"{number}.pem", self.folder / f"{number}.key")
        key = ("-newkey", KINDS[kind][0], "-pkeyopt", KINDS[kind][1])
        more = [word for each in extensions for word in ("-addext", each)]
        signed = ("-CA", by.file, "-CAkey", by.key_file) if by else ()
        openssl(
            *("req", "-x509", "-config", self._empty, *key, "-nodes", "-days", days, f"-{digest}"),
            *("-subj", f"/CN={subject}", *more, *signed, "-keyout", made.key_file),
            *("-out", made.file),
        )
        return made

    def issue(
        self,
        *names: str,
        kind: str = "ecdsa",
        days: int = 90,
        more: tuple[str, ...] = (),
        by: Issued | None = None,
        itself: bool = False,
        digest: str = "sha256",
    ) -> Issued:
        """Issue one for these names; `more` are extensions."""
        listed = ",".join(f"DNS:{name}" for name in names)
        extensions = (f"subjectAltName={listed}",) if names else ()
        issuer = None if itself else by or self.below
        subject = names[0][:60] if names else "nobody"
        return self._make(subject, issuer, kind, days, (*extensions, *more), digest=digest)

    def dated(self, name: str, start_s: float, end_s: float) -> Issued:
        """Issue one for another time than from now on."""
        made = self.issue(name)
        request, settings = self.folder / "request", self.folder / "ca.cnf"
        (self.folder / "index.txt").write_text("")
        settings.write_text(
            "[ca]\ndefault_ca=d\n[d]\ndefault_md=sha256\npolicy=p\nrand_serial=yes\n"
            f"copy_extensions=copy\ndatabase={self.folder}/index.txt\n"
            f"new_certs_dir={self.folder}\n[p]\ncommonName=supplied\n"
        )
        openssl(
            *("req", "-new", "-config", self._empty, "-key", made.key_file, "-subj", f"/CN={name}"),
            *("-addext", f"subjectAltName=DNS:{name}", "-out", request),
        )
        times = [time.strftime("%Y%m%d%H%M%SZ", time.gmtime(t)) for t in (start_s, end_s)]
        openssl(
            *("ca", "-batch", "-notext", "-config", settings, "-in", request, "-out", made.file),
            *("-cert", self.below.file, "-keyfile", self.below.key_file),
            *("-startdate", times[0], "-enddate", times[1]),
        )
        return made

    def chain(self, issued: Issued) -> bytes:
        """What an office gets: the certificate and that of its issuer."""
        return issued.pem + self.below.pem

    def pkcs12(self, issued: Issued, password: str, *more: str) -> bytes:
        """The same with the key, as one file."""
        return openssl(
            *("pkcs12", "-export", "-in", issued.file, "-inkey", issued.key_file, *more),
            *("-certfile", self.below.file, "-passout", f"pass:{password}"),
        )


def encrypted(issued: Issued, password: str) -> bytes:
    """Its key with a password, as PKCS #8."""
    return openssl("pkey", "-in", issued.key_file, "-aes256", "-passout", f"pass:{password}")


def trusting(authority: Authority, folder: Path) -> Path:
    """Make a folder of roots that openssl searches, with this one."""
    folder.mkdir()
    name = openssl("x509", "-in", authority.root.file, "-noout", "-subject_hash").decode().strip()
    (folder / f"{name}.0").write_bytes(authority.root.pem)
    return folder
