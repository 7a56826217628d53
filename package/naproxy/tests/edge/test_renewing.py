"""When certificates are issued, and what is remembered of it; uacme is a script of ours."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from edge_box import shared_authority
from keeping import Memory
from naproxy.config import document as config
from naproxy.config.document import Config
from naproxy.config.installation import Installation
from naproxy.core.reason import Reason, reason_of
from naproxy.edge.keeper import Keeper
from naproxy.edge.x509 import CertificateError

HOUR_S, DAY_S = 3600.0, 86400.0
LIMITED = '{"type": "urn:ietf:params:acme:error:rateLimited", "detail": "too many", "status": 429}'
UACME = """#!/bin/sh
echo "$*" >>"{folder}/said"
env >"{folder}/environment"
[ "$1" != -V ] || {{ echo "uacme: version $(cat "{folder}/version")" >&2; exit 2; }}
[ ! -e "{folder}/says" ] || {{ . "{folder}/says"; }}
case "$*" in
*" issue "*)
	for request; do :; done
	set -- -CA "{ca}" -CAkey "{key}" -copy_extensions copy -days 90
	openssl x509 -req -in "$request" "$@" -out "${{request%.csr}}-cert.pem" 2>/dev/null
	;;
*" new"*) mkdir -p "$2/private" && echo key >"$2/private/key.pem" ;;
esac
"""


class Box(Memory):
    """A keeper whose uacme, time and memory are ours."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.folder = root / "uacme"
        self.folder.mkdir()
        authority = shared_authority().below
        program = self.folder / "uacme"
        program.write_text(
            UACME.format(folder=self.folder, ca=authority.file, key=authority.key_file)
        )
        program.chmod(0o755)
        (self.folder / "version").write_text("1.7.4")
        self.hook = root / "hook"
        self.hook.touch()
        (root / "run").mkdir()
        self.edge = root / "edge"
        self.here = Installation(
            run_dir=str(root / "run"), edge_dir=str(self.edge), acme_hook=str(self.hook)
        )
        # openssl knows only the true time.
        self.now_s = time.time() + 60
        self.settings: dict[str, str] = {}
        self.keeper = self.another()

    def another(self) -> Keeper:
        made = Keeper(self.here, self, lambda: self.now_s)
        made.take(self.config())
        return made

    def config(self) -> Config:
        more = {"names": '["one.example"]'} | self.settings
        own = {name: more.pop(name) for name in ("names",) if name in more}
        https = {"acme_terms": "true", "acme_directory": '"https://ca.example/dir"'} | more
        text = "[https]\n" + "".join(f"{key} = {value}\n" for key, value in https.items())
        text += '[[server]]\nid = "web"\naddress = "192.0.2.1"\nmac = "02:00:00:00:00:01"\n'
        text += '[[certificate]]\nid = "main"\nsource = "acme"\n'
        return config.parse(text + "".join(f"{key} = {value}\n" for key, value in own.items()))

    def says(self, shell: str) -> None:
        (self.folder / "says").write_text(shell)

    def change(self, **settings: str) -> None:
        self.settings |= settings
        self.keeper.take(self.config())

    def later(self, seconds: float = 0.0) -> int:
        """Do what is due then; how often anything was issued."""
        self.now_s += seconds

        async def pass_by() -> None:
            await self.keeper.once()
            self.keeper.renew_due()
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                await asyncio.wait([task])

        asyncio.run(pass_by())
        return self.asked("issue")

    def renew(self) -> None:
        asyncio.run(self.keeper.renew("main"))

    def asked(self, verb: str) -> int:
        file = self.folder / "said"
        said = file.read_text().splitlines() if file.exists() else []
        return sum(f" {verb}" in line for line in said)

    def told(self) -> dict[str, Any]:
        found: dict[str, Any] = self.keeper.told()["certificates"][0]
        return found

    def problem(self) -> Reason | None:
        problem = self.told()["problem"]
        return reason_of(problem) if problem else None

    def code(self) -> str:
        problem = self.problem()
        return problem.code if problem else ""


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Box:
    made = Box(tmp_path)
    monkeypatch.setenv("PATH", f"{made.folder}:{os.environ['PATH']}")
    return made


def test_it_is_issued_once_until_it_is_due(box: Box) -> None:
    assert box.later() == 1
    assert box.told()["names"] == ["one.example"]
    assert box.later(59 * DAY_S) == 1
    box.keeper = box.another()
    assert box.later(HOUR_S) == 1
    assert box.later(2 * DAY_S) == 2
    assert box.asked("new") == 1


def test_what_is_asked_for_otherwise_is_issued_at_once(box: Box) -> None:
    assert box.later() == 1
    for asked, setting, value in (
        (2, "names", '["one.example", "two.example"]'),
        (3, "acme_directory", '"https://other.example/dir"'),
    ):
        box.change(**{setting: value})
        assert box.later() == asked, setting
        assert box.later() == asked, setting


def test_failures_wait_over_restarts_and_are_forgotten_by_a_success(box: Box) -> None:
    box.says('echo "uacme: no challenge completed" >&2; exit 2')
    assert box.later() == 0  # no account, even
    assert box.code() == "https.acme_no_challenge"
    asked = box.asked("new")
    for hours, tries in ((0.9, 1), (0.2, 2), (3.8, 2), (0.3, 3), (23, 3), (2, 4), (47, 4), (2, 5)):
        box.keeper = box.another()
        box.later(hours * HOUR_S)
        assert box.asked("new") == asked * tries
    (box.folder / "says").unlink()
    assert box.later(49 * HOUR_S) == 1
    assert (box.problem(), box.kept["https.renewed"]["main"]["failures"]) == (None, 0)


def test_a_try_that_ends_us_counts(box: Box) -> None:
    """Whoever crashes in it must not ask again at each start."""
    box.says("sleep 60")

    async def killed() -> None:
        await box.keeper.once()
        box.keeper.renew_due()
        while not box.asked("new"):
            await asyncio.sleep(0.01)

    asyncio.run(killed())
    asked = box.asked("new")
    box.keeper = box.another()
    (box.folder / "says").unlink()
    assert (box.later(HOUR_S / 2), box.asked("new")) == (0, asked)
    assert box.later(HOUR_S) == 1


def test_a_limit_of_the_issuers_holds_for_people_too(box: Box) -> None:
    said = f"uacme: the server reported the following error:\\n{LIMITED}"
    box.says(f"case $* in *' issue '*) printf '{said}' >&2; exit 2 ;; esac")
    assert box.later() == 1
    assert box.code() == "https.acme_limited"
    box.keeper = box.another()
    assert box.later(6 * DAY_S) == 1
    with pytest.raises(CertificateError, match="no further request"):
        box.renew()
    assert box.asked("issue") == 1
    (box.folder / "says").unlink()
    assert box.later(DAY_S) == 2


def test_nobody_uses_up_what_lets_encrypt_gives(box: Box) -> None:
    box.change(acme_directory='"letsencrypt"')
    assert box.later() == 1
    with pytest.raises(CertificateError, match="five of the same"):
        box.renew()
    asyncio.run(box.keeper.trial("main", box.config()))
    assert "acme-staging-v02" in (box.folder / "said").read_text().splitlines()[-1]
    box.now_s += DAY_S
    box.renew()
    assert box.asked("issue") == 3


def test_who_asks_while_it_is_under_way_by_itself_hears_what_comes_of_it(box: Box) -> None:
    async def both() -> dict[str, Any]:
        await box.keeper.once()
        box.keeper.renew_due()
        return await box.keeper.renew("main")

    assert asyncio.run(both())["names"] == ["one.example"]
    assert box.asked("issue") == 1
    box.change(names='["two.example"]')
    box.says("exit 1")
    with pytest.raises(CertificateError, match="uacme failed"):
        asyncio.run(both())
    assert box.asked("issue") == 2


def test_another_by_the_name_of_a_removed_one_begins_anew(box: Box) -> None:
    box.says("exit 1")
    box.later()
    assert box.code() == "https.acme_failed"
    asyncio.run(box.keeper.remove("main"))
    (box.folder / "says").unlink()
    assert (box.later(), box.problem()) == (1, None)


def test_a_fault_of_ours_is_said_and_tried_again_later(
    box: Box, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(Keeper, "judge", lambda *_: 1 / 0)
        assert box.later() == 1
        assert "a fault in Naproxy" in "".join(said)
        assert box.later(HOUR_S / 2) == 1
    assert box.later(HOUR_S) == 2


def test_one_that_was_removed_is_issued_again(box: Box) -> None:
    box.change(acme_directory='"letsencrypt"')
    assert box.later() == 1
    asyncio.run(box.keeper.remove("main"))
    assert box.later() == 2
    assert box.later() == 2


def test_an_account_that_the_issuer_does_not_know_any_more_is_made_anew(box: Box) -> None:
    assert box.later() == 1
    gone = box.folder / "gone"
    gone.touch()
    box.says(
        f"case $* in *' new'*) rm -f {gone} ;; esac\n"
        f"[ ! -e {gone} ] || {{ echo 'uacme: no account associated with x found' >&2; exit 2; }}"
    )
    assert box.later(61 * DAY_S) == 3
    assert (box.asked("new"), box.problem()) == (2, None)


def test_the_issuer_is_told_of_another_address(box: Box) -> None:
    box.later()
    box.change(acme_email='"it@office.example"')
    box.later(61 * DAY_S)
    box.later(61 * DAY_S)
    assert (box.asked("issue"), box.asked("update it@office.example")) == (3, 1)


def test_an_authority_of_ones_own_needs_a_uacme_that_knows_of_it(box: Box) -> None:
    authority = box.folder / "office.pem"
    authority.touch()
    box.change(acme_ca_file=f'"{authority}"')
    assert box.later() == 0
    assert box.problem() == Reason("https.acme_ca_old", found="1.7.4", least="1.7.6")
    (box.folder / "version").write_text("1.7.10")
    assert box.later(2 * HOUR_S) == 1
    assert f"UACME_CAINFO={authority}" in (box.folder / "environment").read_text()


def _no_program(box: Box) -> None:
    (box.folder / "uacme").unlink()
    os.environ["PATH"] = f"{box.folder}:/nowhere"
    (box.folder / "openssl").symlink_to("/usr/bin/openssl")
    (box.folder / "sh").symlink_to("/bin/sh")


LACKING: dict[str, Callable[[Box], None]] = {
    "https.no_uacme": _no_program,
    "https.acme_no_hook": lambda box: box.hook.unlink(),
    "https.terms": lambda box: box.change(acme_terms="false"),
    "https.acme_no_names": lambda box: box.change(names="[]"),
    "https.acme_clock": lambda box: setattr(box, "now_s", 1000.0),
    "https.acme_nonce": lambda box: box.says(
        "printf 'uacme: the server reported the following error:\\n"
        '{"type": "urn:ietf:params:acme:error:badNonce"}\' >&2; exit 2'
    ),
}


@pytest.mark.parametrize("code", LACKING)
def test_what_is_lacking_is_said(box: Box, code: str) -> None:
    LACKING[code](box)
    assert box.later() == 0
    assert box.code() == code
    assert box.asked("new") == (3 if code == "https.acme_nonce" else 0)


def test_a_failing_renewal_is_said_before_the_end_and_one_that_works_is_not(
    box: Box, said: list[str]
) -> None:
    box.later()
    box.now_s += 59 * DAY_S
    box.later(1.9 * DAY_S)
    assert box.keeper.status()["ending"] == []
    (box.folder / "says").write_text("exit 2")
    box.later(14 * DAY_S)
    box.later()
    [ending] = box.keeper.status()["ending"]
    assert ending["params"]["why"]["code"] == "https.renewal_fails"
    assert "could not be renewed yet" in "".join(said)
