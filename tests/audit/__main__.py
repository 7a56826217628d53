"""`make audit-tls [TESTSSL=FILE]`, as root: what others' tools say of the box's HTTPS.

Each tool's words are kept in docs/audit/, without what differs from run to run. What they mean:
docs/security.md.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.bench import terminators
from tests.bench.terminators import Authority, Behind, Wanted
from tests.patience import wait_for
from tests.simulator.office import Namespace, Office
from tests.simulator.office.box import ADDRESS, HOST
from tests.simulator.office.namespace import ROOT, OfficeError

KEPT: Final = ROOT / "docs/audit"
PROGRAMS: Final = ROOT / "build/audit"
PORT: Final = terminators.PORTS[terminators.HAPROXY]
PATH: Final = "/css/base.css"
H2SPEC_PARTS: Final = ("generic", "http2")
TESTSSL_S: Final = 1800.0
TRUSTED: Final = ("ADDTL_CA_FILES", "ADDITIONAL_CA_FILES")
"""How testssl.sh 3.3 and 3.2 call the variable that names an authority of one's own."""


_OF_THIS_RUN: Final = re.compile(
    r"Fingerprint|^ +SHA256 |Serial|Not (Before|After)|^ (Start|Done) |Validity|clock skew|HTTP Age"
    r"|X-Varnish|search\.censys|SCANS COMPLETED|Intermediate cert validity"
)


@dataclass(frozen=True, slots=True)
class At:
    """Whom the tools speak to, and from where."""

    client: Namespace
    issued: Authority


def h2spec(at: At) -> str:
    """Whether it keeps to RFC 7540 and 7541, as far as h2spec knows."""
    program = PROGRAMS / "h2spec"
    said = []
    for part in H2SPEC_PARTS:
        words = ("-h", ADDRESS, "-p", str(PORT), "-t", "-k", "-P", PATH, "-o", "3")
        done = at.client.run([program, part, *words], check=False, timeout_s=600)
        said.append(h2spec_cases(done.stdout))
    return "\n".join(said)


def h2spec_cases(said: str) -> str:
    """Return one line for each case, without the one that announces it and without the time."""
    lines = [line for line in said.splitlines() if not re.match(r" *\d+: ", line)]
    lines = [line for line in lines if not line.startswith("Finished in")]
    return re.sub(r"\n\n+", "\n\n", "\n".join(lines)).strip() + "\n"


def sslyze(at: At) -> str:
    """Whether it is what Mozilla calls an intermediate configuration; known holes."""
    words = ("--sni", HOST, "--certinfo_ca_file", at.issued.root, "--mozilla_config=intermediate")
    program = PROGRAMS / "venv/bin/sslyze"
    done = at.client.run([program, *words, f"{ADDRESS}:{PORT}"], check=False, timeout_s=600)
    if "COMPLIANCE" not in done.stdout:
        raise OfficeError(f"sslyze: {done.stderr}")
    return _without_traces(done.stdout)


def testssl(program: Path) -> Callable[[At], str]:
    """Return what asks testssl.sh."""

    def ask(at: At) -> str:
        # It says which commit it is: that of the folder it is started in.
        script = f'cd "$0" && exec ./{program.name} "$@"'
        words = ("--color=0", "--warnings=off", "--nodns=none", "--ip", ADDRESS)
        done = at.client.run(
            ["sh", "-c", script, program.parent, *words, f"https://{HOST}:{PORT}"],
            check=False,
            timeout_s=TESTSSL_S,
            env={name: str(at.issued.root) for name in TRUSTED} | {"TERM": "dumb"},
        )
        if "Overall Grade" not in done.stdout:
            raise OfficeError(f"testssl.sh: {done.stdout[-500:]} {done.stderr[-500:]}")
        return _without_traces(done.stdout)

    return ask


def _without_traces(said: str) -> str:
    """Return it without what is of this run and this machine only."""
    said = re.sub(r"\x1b\[[0-9;]*m|\r", "", said)
    said = re.sub(r"\bon \S+:(?=/\S*openssl)", "on ", said)
    lines = [line.rstrip() for line in said.splitlines() if not _OF_THIS_RUN.search(line)]
    return "\n".join(lines).strip() + "\n"


def whole_chain(office: Office, wanted: Wanted) -> None:
    """Start the terminator before Varnish, the VMOD and the office's server."""
    office.box.start()
    office.box.await_state("awake")
    terminators.haproxy(wanted)


def alone(office: Office, wanted: Wanted) -> None:
    """Start the terminator before something trivial."""
    socket = wanted.behind.run_dir / "edge/jail/varnish.sock"
    socket.parent.mkdir(parents=True)
    office.box.popen([sys.executable, "-m", "tests.audit.behind", socket], log="behind")
    wait_for(socket.exists, "what is behind the terminator")
    terminators.haproxy(wanted)


def audit(start: Callable[[Office, Wanted], None], ask: Callable[[At], str]) -> str:
    """Return what a tool says of it."""
    with Office() as office:
        work = office.directory / "audit"
        work.mkdir(mode=0o755)
        issued = terminators.authority(work / "authority")
        start(office, Wanted(office.box, work, Behind(office.box.run_dir), issued))
        return ask(At(office.client, issued))


def main() -> int:
    """Ask each tool that is there, and keep what it says."""
    parser = argparse.ArgumentParser(prog="make audit-tls", description=__doc__)
    parser.add_argument("--testssl", type=Path, metavar="FILE", help="testssl.sh 3.2 or later")
    options = parser.parse_args()
    asked: dict[str, tuple[Callable[[Office, Wanted], None], Callable[[At], str]]] = {
        "sslyze": (whole_chain, sslyze)
    }
    if (PROGRAMS / "h2spec").exists():
        asked |= {"h2spec-chain": (whole_chain, h2spec), "h2spec-terminator": (alone, h2spec)}
    if options.testssl:
        asked["testssl"] = (whole_chain, testssl(options.testssl.resolve()))
    KEPT.mkdir(exist_ok=True)
    for name, (start, ask) in asked.items():
        said = audit(start, ask)
        (KEPT / f"{name}.txt").write_text(said)
        sys.stdout.write(f"{name}: {verdict(said)}\n")
    for name in {"h2spec-chain", "h2spec-terminator", "testssl"} - asked.keys():
        sys.stdout.write(f"{name}: not asked, it is not here; docs/security.md says where from\n")
    return 0


def verdict(said: str) -> str:
    """Return the lines that sum it up."""
    sums = r"Overall Grade .*|Grade cap .*|\d+ tests, .*|.*: (?:OK - Compliant|FAILED - Not comp).*"
    return "; ".join(" ".join(line.split()) for line in re.findall(sums, said))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OfficeError, TimeoutError) as error:
        sys.exit(f"make audit-tls: {error}")
