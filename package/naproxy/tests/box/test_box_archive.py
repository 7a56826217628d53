"""The backup: what is in it, and what is refused when it is read."""

import asyncio
import gzip
import io
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tarfile
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from naproxy.box import LEAVE_FREE_BYTES, archive, diagnostics, restore, secrets
from naproxy.config import document as config
from naproxy.core.processes import Printed
from naproxy.core.reason import Reason, together
from naproxy.core.request import WakeRequest
from naproxy.edge.store import accounts, own_file, put_account, store_of
from naproxy.edge.store import secrets as edge_secrets
from naproxy.history.write.journal import Journal

HIDDEN = {"fl33t", "hu sh\"'\\", "02:aa:bb:cc:dd:ee", "b6" * 32, "correct horse", "PRIVATE KEY"}

TOML = r"""
# the broker's password was hunter2 before
[mqtt]
host = "192.0.2.5"
password = "hu sh\"'\\"
[fleet]
url = "https://fleet.example.org"
token = "fl33t"
[[server]]
id = "web"
address = "192.0.2.10"
mac = "02:00:00:00:00:01"
[[server.wake]]
driver = "udp"
password = "02:aa:bb:cc:dd:ee"
[server.sleep]
driver = "agent"
key_file = "ETC/agent.key"
[[server]]
id = "bmc"
address = "192.0.2.11"
mac = "02:00:00:00:00:02"
[server.sleep]
driver = "ipmi"
host = "192.0.2.12"
user = "naproxy"
password_file = "ETC/bmc/password"
[[server]]
id = "ssh"
address = "192.0.2.13"
mac = "02:00:00:00:00:03"
[server.sleep]
driver = "ssh"
key_file = "ETC/ssh/id_ed25519"
"""
USERS = [{"name": "anna", "role": "admin", "password": "scrypt$digest"}]


class Home:
    """A box's folders, full of secrets."""

    def __init__(self, root: Path) -> None:
        self.etc, self.data = root / "etc", root / "data"
        self.edge = root / "edge"
        self.file = self.etc / "naproxy.toml"
        for name, text in {
            "agent.key": "b6" * 32,
            "bmc/password": "correct horse\n",
            "ssh/id_ed25519": "-----BEGIN OPENSSH PRIVATE KEY-----\nb64b64b64\n",
            "ssh/known_hosts": "192.0.2.13 ssh-ed25519 AAAA\n",
            "commands/press": "#!/bin/sh\n",
        }.items():
            (self.etc / name).parent.mkdir(parents=True, exist_ok=True)
            (self.etc / name).write_text(text)
        self.write(TOML)
        self.data.mkdir()
        journal = Journal(self.data)
        journal.save("server.web", {"wake_s": 4.2})
        journal.close()

    def write(self, text: str, box: str = "") -> None:
        """Write the configuration: `text`, and `box` in the section of that name."""
        self.file.write_text(f"[box]\n{box}\n" + text.replace("ETC", str(self.etc)))

    def backup(self, path: Path, **wanted: Any) -> Path:
        asked = {"users": json.dumps(USERS), "name": "box", "made_s": 1.0, **wanted}
        with path.open("wb") as file:
            archive.make(file, self.file, self.data, archive.Wanted(**asked))
        return path


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def text_of(path: Path) -> str:
    with tarfile.open(path) as tar:
        parts = [tar.extractfile(member) for member in tar.getmembers()]
        return "".join(part.read().decode(errors="replace") for part in parts if part)


def test_a_backup_without_secrets_has_none(home: Home, tmp_path: Path) -> None:
    text = text_of(home.backup(tmp_path / "b"))
    hidden = {*HIDDEN, "hunter2", "scrypt", "hu sh"}
    assert [secret for secret in hidden if secret in text] == []
    found = archive.read(tmp_path / "b")
    assert found.summary() == {
        **{"name": "box", "version": found.about["version"], "made_s": 1.0},
        **{"servers": ["web", "bmc", "ssh"], "secrets": False, "users": 0, "files": []},
        "history_bytes": 0,
    }
    assert found.saved["server.web"] == {"wake_s": 4.2}


def test_a_configuration_with_a_byte_order_mark_is_backed_up_and_restored(
    home: Home, tmp_path: Path
) -> None:
    home.file.write_bytes(b"\xef\xbb\xbf" + home.file.read_bytes())
    found = archive.read(home.backup(tmp_path / "b"))
    merged = restore.merged(found, home.file, with_secrets=False)
    assert [server.id for server in config.parse(merged).server] == ["web", "bmc", "ssh"]


def test_a_backup_with_secrets_has_keys_users_and_the_file(home: Home, tmp_path: Path) -> None:
    found = archive.read(home.backup(tmp_path / "b", secrets=True))
    assert found.toml == home.file.read_bytes()
    assert found.users == USERS
    named = ["agent.key", "bmc/password", "ssh/id_ed25519", "ssh/known_hosts"]
    assert sorted(found.files) == named


def test_files_elsewhere_are_not_taken_though_they_are_named(home: Home, tmp_path: Path) -> None:
    (tmp_path / "shadow").write_text("root:x")
    (home.etc / "link").symlink_to(tmp_path / "shadow")
    for name in (tmp_path / "shadow", home.etc / "link", home.etc / "commands/press"):
        home.write(TOML.replace("ETC/agent.key", str(name)))
        assert len(archive.read(home.backup(tmp_path / "b", secrets=True)).files) == 3


def test_a_history_is_copied_whole_while_it_is_written(home: Home, tmp_path: Path) -> None:
    with closing(sqlite3.connect(home.data / "history.db", isolation_level=None)) as db:
        db.execute("INSERT INTO saved (key, value) VALUES ('late', '{}')")
        home.backup(tmp_path / "b", history=True)
    found = archive.read(tmp_path / "b", tmp_path / "out.db")
    assert found.history_bytes == (tmp_path / "out.db").stat().st_size > 0
    with closing(sqlite3.connect(tmp_path / "out.db")) as db:
        assert db.execute("SELECT value FROM saved WHERE key = 'late'").fetchone() == ("{}",)
    assert [p.name for p in home.data.iterdir() if p.name.startswith(".backup")] == []


# Restoring


def restored(home: Home, source: Path, **asked: bool) -> list[Any]:
    wanted = {"history": False, "with_secrets": False, **asked}
    users = restore.lay_ready(source, home.file, home.data, **wanted)
    restore.take(home.file, home.data, home.edge)
    return users


def exchanged(
    home: Home, theirs: str, ours: str = TOML, *, secrets: bool = False, with_secrets: bool = False
) -> config.Config:
    """Restore a backup of a box with `theirs` on one with `ours`; return what is in force then."""
    home.write(theirs)
    source = home.backup(home.data.parent / "b", secrets=secrets)
    home.write(ours)
    restored(home, source, with_secrets=with_secrets)
    return config.read(home.file)


def test_a_backup_comes_back_as_it_was(home: Home, tmp_path: Path) -> None:
    before = config.read(home.file)
    home.backup(tmp_path / "b", secrets=True, history=True)
    home.write("", 'notice = "new"')
    (home.etc / "agent.key").write_text("other")
    (home.etc / "ssh/id_ed25519").unlink()
    assert restored(home, tmp_path / "b", history=True, with_secrets=True) == USERS
    assert config.read(home.file) == before
    assert (home.etc / "agent.key").read_text() == "b6" * 32
    assert (home.etc / "ssh/id_ed25519").stat().st_mode & 0o777 == 0o600
    said: dict[str, Any] = {}
    restore.finish(home.data, said.__setitem__)
    assert said == {"server.web": {"wake_s": 4.2}}
    assert not (home.data / restore.READY).exists()


def test_without_secrets_a_host_of_the_backup_gets_no_password(home: Home) -> None:
    theirs = TOML.replace('"192.0.2.5"', '"192.0.2.66"').replace('"192.0.2.12"', '"192.0.2.66"')
    found = exchanged(home, theirs)
    assert (found.mqtt.host, found.mqtt.password) == ("192.0.2.66", "")
    bmc = found.server[1].sleep
    assert (bmc.host, bmc.password_file) == ("192.0.2.66", str(home.etc / "secrets/not-restored"))


def test_without_secrets_a_host_of_the_backup_gets_no_token(home: Home) -> None:
    (home.etc / "token").write_text("box@pve!naproxy=hush\n")
    proxmox = f"""driver = "proxmox"
host = "192.0.2.14"
fingerprint = "{"ab" * 32}"
password_file = "ETC/token"
machine = "pve/qemu/100"
"""
    both = f"{proxmox}[[server.wake]]\n{proxmox}"
    ours = TOML.replace('driver = "ssh"', both).partition('key_file = "ETC/ssh')[0]
    sleep = exchanged(home, ours.replace("192.0.2.14", "192.0.2.66"), ours).server[2].sleep
    assert sleep.password_file == str(home.etc / "secrets/not-restored")


def test_without_secrets_a_backup_with_older_ways_to_wake_keeps_the_boxs_password(
    home: Home,
) -> None:
    """The same list, however either file has it."""
    older = TOML.replace("[[server.wake]]", "[server.wake]")
    assert older != TOML
    for theirs, ours in ((older, older), (older, TOML), (TOML, older)):
        found = exchanged(home, theirs, ours)
        assert found.server[0].wake[0].password == "02:aa:bb:cc:dd:ee"


def test_without_secrets_settings_name_the_files_of_the_box(home: Home) -> None:
    """A password that was replaced has another file since; what became ssh needs none of it."""
    now = TOML.replace("bmc/password", "secrets/bmc-1").partition('driver = "ssh"')[0]
    now = now.replace('"192.0.2.13"', '"192.0.2.14"') + 'driver = "agent"\n'
    web, bmc, ssh = exchanged(home, TOML, now).server
    assert bmc.sleep.password_file == str(home.etc / "secrets/bmc-1")
    assert web.sleep.key_file == str(home.etc / "agent.key")
    assert ssh.sleep.key_file == str(home.etc / "ssh/id_ed25519")
    assert ssh.address == "192.0.2.13"


API = '[office]\nco2_url = "https://co2.example.org/"\nco2_key_file = "ETC/co2-key"\n'


def with_api(home: Home, text: str = API) -> str:
    (home.etc / "co2-key").write_text("hush\n")
    home.write(text + TOML)
    return str(home.etc / "co2-key")


@pytest.mark.parametrize("with_secrets", [True, False])
@pytest.mark.parametrize("own", ["", API])
@pytest.mark.parametrize("named", ["co2-key", "agent.key"])
def test_another_api_in_a_backup_is_sent_no_file_of_the_box(
    home: Home, tmp_path: Path, own: str, named: str, with_secrets: bool
) -> None:
    with_api(home, API.replace("example.org", "evil.example").replace("co2-key", named))
    (home.etc / named).rename(home.etc / "away")  # the backup has no such file
    home.backup(tmp_path / "b", secrets=True)
    (home.etc / "away").rename(home.etc / named)
    with_api(home, own)
    restored(home, tmp_path / "b", with_secrets=with_secrets)
    office = config.read(home.file).office
    assert office.co2_url == "https://co2.evil.example/"
    assert office.co2_key_file == str(home.etc / "secrets/not-restored")


FOREIGN = """
[[meter]]
id = "new"
of = "bmc"
"""
TO_TASMOTA = 'driver = "tasmota"\nhost = "192.0.2.66"\nuser = "a"\n'
TO_A_SERVER = 'driver = "ipmi"\ninterface = "lan"\nuser = "a"\n'


@pytest.mark.parametrize("with_secrets", [True, False])
@pytest.mark.parametrize("to", [TO_TASMOTA, TO_A_SERVER])
def test_a_meter_in_a_backup_is_sent_no_password_of_the_box(
    home: Home, tmp_path: Path, to: str, with_secrets: bool
) -> None:
    named = f'password_file = "{home.etc}/bmc/password"\n'
    home.write(TOML.replace("192.0.2.11", "192.0.2.66") + FOREIGN + to + named)
    (home.etc / "bmc/password").rename(home.etc / "away")  # the backup has no such file
    home.backup(tmp_path / "b", secrets=True)
    (home.etc / "away").rename(home.etc / "bmc/password")
    home.write(TOML)
    restored(home, tmp_path / "b", with_secrets=with_secrets)
    (meter,) = config.read(home.file).meter
    assert meter.password_file == str(home.etc / "secrets/not-restored")  # type: ignore[attr-defined]  # a driver's own


def test_a_file_under_another_spelling_of_its_name_sends_no_password_of_the_box(
    home: Home, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """Either the backup's file comes in the place of the box's, or the key names no file."""
    named = f'password_file = "{home.etc}/bmc/password"\n'
    (home.etc / "link").symlink_to("bmc")
    (home.etc / "out").symlink_to(tmp_path)
    for name in (
        "files/./bmc/password",
        "files/bmc/./password",
        "files//bmc/password",
        "files/bmc//./password",
        "./files/.//bmc/password",
        "./wrapper/./files/./bmc/password",
        "files/link/password",
        "files/bmc/pass\0word",
        "files/out/etc/bmc/password",
        "files/x/../bmc/password",
        "files/bmc/password/.",
        "FILES/bmc/password",
    ):
        home.write(TOML)
        (home.etc / "bmc/password").write_text("correct horse\n")
        folder = "wrapper/" if "wrapper" in name else ""
        about = ABOUT.replace(b"false", b"true")
        theirs = (TOML + FOREIGN + TO_TASMOTA).replace("ETC", str(home.etc)) + named
        parts = [(GOOD[0][0], about), (GOOD[1][0], theirs.encode()), GOOD[2]]
        members = [(folder + each, data) for each, data in parts]
        (tmp_path / "b").write_bytes(tar_of(*members, (name, b"theirs\n")))
        with subtests.test(name=name):
            with suppress(archive.ArchiveError):
                restored(home, tmp_path / "b", with_secrets=True)
            sent_to = [
                each.password_file  # type: ignore[attr-defined]  # a driver's own
                for each in config.read(home.file).meter
            ]
            has_own = (home.etc / "bmc/password").read_text() == "correct horse\n"
            assert not (has_own and str(home.etc / "bmc/password") in sent_to)


def test_another_way_in_a_backup_is_sent_no_password_of_the_box(home: Home) -> None:
    host = 'host = "192.0.2.5"'
    for own, theirs in (("port = 1883", "port = 9999"), ("tls = true", "tls = false")):
        ours, other = (TOML.replace(host, f"{host}\n{each}") for each in (own, theirs))
        assert exchanged(home, other, ours).mqtt.password == "", theirs
        assert theirs in home.file.read_text()


def test_with_secrets_an_api_comes_with_its_key_or_keeps_the_boxs(
    home: Home, tmp_path: Path
) -> None:
    key = with_api(home)
    home.backup(tmp_path / "b", secrets=True)
    restored(home, tmp_path / "b")
    office = config.read(home.file).office
    assert (office.co2_url, office.co2_key_file) == ("https://co2.example.org/", key)
    assert config.read(home.file).mqtt.password == "hu sh\"'\\"
    assert config.read(home.file).server[0].wake[0].password == "02:aa:bb:cc:dd:ee"
    home.write(TOML)
    (home.etc / "co2-key").unlink()
    restored(home, tmp_path / "b", with_secrets=True)
    assert config.read(home.file).office.co2_key_file == key
    assert (home.etc / "co2-key").read_text() == "hush\n"


def test_without_secrets_the_fleet_stays_that_of_the_box(home: Home) -> None:
    """Its token is for nobody else."""
    theirs = TOML.replace("fleet.example.org", "theirs.example.org").replace("fl33t", "th31rs")
    for ours, expected in ((TOML, ("https://fleet.example.org", "fl33t")), ("", ("", ""))):
        for known in (True, False):
            fleet = exchanged(home, theirs, ours, secrets=known).fleet
            assert (fleet.url, fleet.token) == expected, (ours, known)


@pytest.mark.parametrize(
    ("own", "kept"),
    [("", {}), ('helper = "/usr/sbin/ours"\n', {"helper": "/usr/sbin/ours"})],
)
def test_where_things_are_and_what_runs_as_root_stays_the_boxs_own(
    home: Home, tmp_path: Path, own: str, kept: dict[str, str]
) -> None:
    home.write(TOML, 'helper = "/tmp/evil"\nplatform = "naproxy"\nrun_dir = "/elsewhere"')
    home.backup(tmp_path / "b", secrets=True)
    home.write(TOML, own)
    restored(home, tmp_path / "b", with_secrets=True)
    assert config.look(home.file.read_bytes()).arguments == kept


@pytest.mark.parametrize(
    ("named", "elsewhere", "key"),
    [
        ('key_file = "ETC/agent.key"', 'key_file = "/data/webui/secret"', "server.web.sleep"),
        ('password_file = "ETC/bmc/password"', 'password_file = "/etc/shadow"', "server.bmc.sleep"),
        (
            "[mqtt]",
            '[[meter]]\nid = "m"\nof = "web"\ndriver = "ina219"\ndevice = "/dev/watchdog"\n[mqtt]',
            "meter.m.device",
        ),
    ],
)
def test_a_backup_names_no_file_or_device_that_is_not_there_for_it(
    home: Home, tmp_path: Path, named: str, elsewhere: str, key: str
) -> None:
    good = home.file.read_bytes()
    home.write(TOML.replace(named, elsewhere))
    home.backup(tmp_path / "b", secrets=True)
    home.file.write_bytes(good)
    with pytest.raises(archive.ArchiveError, match=key):
        restored(home, tmp_path / "b", with_secrets=True)
    assert home.file.read_bytes() == good
    assert not (home.data / restore.READY).exists()


def test_a_start_that_is_cut_off_restores_again(home: Home, tmp_path: Path) -> None:
    home.backup(tmp_path / "b", secrets=True, history=True)
    restored(home, tmp_path / "b", history=True, with_secrets=True)
    home.write("", 'notice = "half"')
    restore.take(home.file, home.data, home.edge)
    assert config.read(home.file).server[0].id == "web"


def test_a_damaged_restore_is_said_and_changes_nothing(home: Home, said: list[str]) -> None:
    (home.data / restore.READY).mkdir()
    (home.data / restore.READY / "naproxy.toml").write_text("[box")
    before = home.file.read_bytes()
    assert not restore.take(home.file, home.data, home.edge)
    assert home.file.read_bytes() == before
    assert "not TOML" in said[0]


def test_nothing_changes_when_a_backup_lacks_what_is_wanted(home: Home, tmp_path: Path) -> None:
    home.backup(tmp_path / "b")
    for asked in ({"history": True}, {"with_secrets": True}):
        with pytest.raises(archive.ArchiveError, match="contains no"):
            restored(home, tmp_path / "b", **asked)
    assert all(path.name.startswith("history.") for path in home.data.iterdir())


CERTIFICATE = "-----BEGIN PRIVATE KEY-----\nc3R1ZmY=c3R1ZmY=c3R1ZmY=\n"


def test_certificates_and_their_keys_come_back_with_the_secrets(home: Home, tmp_path: Path) -> None:
    store = store_of(home.edge)
    store.put("main", CERTIFICATE.encode())
    home.backup(tmp_path / "b", secrets=True, edge_dir=str(home.edge))
    assert "edge/main.pem" in archive.read(tmp_path / "b").summary()["files"]
    store.put("main", b"another")
    restored(home, tmp_path / "b")
    assert store.get("main") == b"another"
    restored(home, tmp_path / "b", with_secrets=True)
    assert store.get("main") == CERTIFICATE.encode()
    assert (home.edge / "keys/main.pem").stat().st_mode & 0o777 == 0o600


def test_accounts_with_issuers_come_back_with_the_secrets(home: Home, tmp_path: Path) -> None:
    put_account(home.edge, "letsencrypt", CERTIFICATE.encode())
    home.backup(tmp_path / "b", secrets=True, edge_dir=str(home.edge))
    assert "edge/acme/letsencrypt.pem" in archive.read(tmp_path / "b").summary()["files"]
    shutil.rmtree(home.edge)
    restored(home, tmp_path / "b")
    assert accounts(home.edge) == {}
    restored(home, tmp_path / "b", with_secrets=True)
    assert accounts(home.edge) == {"letsencrypt": CERTIFICATE.encode()}
    kept = home.edge / "acme/letsencrypt/private/key.pem"
    assert not any(path.stat().st_mode & 0o077 for path in (kept, *list(kept.parents)[:3]))


def test_a_backup_without_secrets_has_no_certificates(home: Home, tmp_path: Path) -> None:
    store_of(home.edge).put("main", CERTIFICATE.encode())
    put_account(home.edge, "letsencrypt", CERTIFICATE.encode())
    assert "c3R1" not in text_of(home.backup(tmp_path / "b", edge_dir=str(home.edge)))


def test_diagnostics_have_no_key_of_a_certificate_nor_the_boxs_own(home: Home) -> None:
    store_of(home.edge).put("main", CERTIFICATE.encode())
    own_file(home.edge).write_text("b3duIGtleSBvZiB0aGUgYm94\n")
    put_account(home.edge, "staging", b"YW4gYWNjb3VudCdzIGtleQ==\n")
    hidden = edge_secrets(home.edge)
    kept = ("c3R1ZmY=c3R1ZmY=c3R1ZmY=", "b3duIGtleSBvZiB0aGUgYm94", "YW4gYWNjb3VudCdzIGtleQ==")
    texts = {"log.txt": f"it said {kept[0]} and {kept[1]} and {kept[2]}"}
    with tarfile.open(fileobj=io.BytesIO(diagnostics.packed(texts, hidden))) as tar:
        member = tar.extractfile("naproxy-diagnostics/log.txt")
        assert member
        assert member.read().decode() == "it said [secret] and [secret] and [secret]"


# Hostile files


def tar_of(*members: tuple[str, bytes | str]) -> bytes:
    """A tar.gz; a member whose text is str is a symbolic link to it."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, data in members:
            member = tarfile.TarInfo(name)
            if isinstance(data, str):
                member.type, member.linkname = tarfile.SYMTYPE, data
                tar.addfile(member)
            else:
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    return out.getvalue()


ABOUT = json.dumps(
    {"naproxy": "backup", "format": 1, "name": "b", "version": "1", "made_s": 1, "secrets": False}
).encode()
GOOD = [("naproxy-backup.json", ABOUT), ("naproxy.toml", b""), ("saved.json", b"{}")]


def test_the_least_backup_is_read(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(tar_of(*GOOD))
    assert archive.read(tmp_path / "b").summary()["servers"] == []


def test_a_bad_backup_is_refused_in_words(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for data, words in (
        (b"", "not a complete backup"),
        (b"GIF89a", "not a complete backup"),
        (tar_of(*GOOD)[:-30], "complete|contains no saved"),
        (tar_of(*GOOD[1:]), "contains no naproxy-backup.json"),
        (tar_of(("naproxy-backup.json", b"{}"), *GOOD[1:]), "not a backup of Naproxy"),
        (tar_of(("naproxy-backup.json", b"[" * 9999), *GOOD[1:]), "cannot be read"),
        (tar_of(("naproxy-backup.json", ABOUT.replace(b": 1,", b": 2,", 1)), *GOOD[1:]), "update"),
        (tar_of(("naproxy-backup.json", ABOUT.replace(b'"b"', b"[]")), *GOOD[1:]), "its name"),
        (tar_of(GOOD[0], GOOD[2]), "no configuration"),
        (tar_of(GOOD[0], ("naproxy.toml", b"[nope]"), GOOD[2]), "nope: is not known"),
        (tar_of(GOOD[0], GOOD[1], ("saved.json", b"[]")), "not as it should be"),
        (tar_of(*GOOD, ("users.json", b"{}")), "not as it should be"),
        (tar_of(*GOOD, GOOD[1]), "too much"),
        (tar_of(*GOOD, ("/etc/passwd", b"x")), "belongs in no backup"),
        (tar_of(*GOOD, ("../x", b"x")), "belongs in no backup"),
        (tar_of(*GOOD, ("files/../../x", b"x")), "belongs in no backup"),
        (tar_of(*GOOD, ("files/key", "/etc/shadow")), "belongs in no backup"),
        (tar_of(*GOOD, ("files/key", b"x" * 65537)), "too much"),
        (tar_of(*GOOD, ("history.db", b"not a database")), "not a database"),
        (tar_of(*GOOD, *((f"files/{n}", b"") for n in range(200))), "too much"),
    ):
        (tmp_path / "b").write_bytes(data)
        with subtests.test(words=words), pytest.raises(archive.ArchiveError, match=words):
            archive.read(tmp_path / "b", tmp_path / "out.db")


def tar_by(folder: Path, *argv: str) -> bytes:
    """What the system's tar packs of a folder."""
    return subprocess.run(["tar", "-C", str(folder), *argv], capture_output=True, check=True).stdout


@pytest.mark.parametrize("folder", ["", "naproxy-box/"], ids=["plain", "folder"])
@pytest.mark.parametrize("form", ["gnu", "pax", "ustar"])
@pytest.mark.parametrize("packed", ["-c", "-cz", "-cj", "-cJ"])
def test_a_backup_that_was_unpacked_or_packed_again_is_read(
    home: Home, tmp_path: Path, packed: str, form: str, folder: str
) -> None:
    whole = archive.read(home.backup(tmp_path / "b", secrets=True, history=True))
    again = tmp_path / "again"
    there = again / folder
    there.mkdir(parents=True)
    tar_by(there, "-xf", str(tmp_path / "b"))
    # A Mac's: attributes beside each file, and its notes
    for each in list(there.rglob("*")):
        if each.is_file():
            each.with_name(f"._{each.name}").write_bytes(b"\0\5\26\7\0\2\0\0Mac OS X")
    (there / ".DS_Store").write_bytes(b"\0\0\0\1Bud1")
    (again / "__MACOSX").mkdir()
    (again / "__MACOSX" / "._naproxy.toml").write_bytes(b"\0\5\26\7")
    (tmp_path / "b").write_bytes(tar_by(again, packed, f"--format={form}", "."))
    found = archive.read(tmp_path / "b")
    assert found.summary() == whole.summary()
    assert (found.files, found.toml, found.saved) == (whole.files, whole.toml, whole.saved)


def test_a_damaged_history_is_refused(home: Home, tmp_path: Path) -> None:
    data = bytearray((home.data / "history.db").read_bytes())
    data[4096:9000] = os.urandom(4904)
    (tmp_path / "b").write_bytes(tar_of(*GOOD, ("history.db", bytes(data))))
    with pytest.raises(archive.ArchiveError, match="history is damaged"):
        archive.read(tmp_path / "b", tmp_path / "out.db")


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TRIGGER t AFTER INSERT ON saved BEGIN DELETE FROM wakes; END",
        "CREATE VIEW late AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n)"
        " SELECT * FROM n",
        "DROP TABLE saved; CREATE VIEW saved AS SELECT 'setup' AS key, '{}' AS value",
        "DROP VIEW power_hours; CREATE VIEW power_hours AS SELECT * FROM power_minutes",
        "CREATE VIRTUAL TABLE words USING fts5(text)",
    ],
)
def test_a_history_that_does_something_of_its_own_is_refused(
    home: Home, tmp_path: Path, sql: str
) -> None:
    with closing(sqlite3.connect(home.data / "history.db")) as db:
        db.executescript(sql)
    home.backup(tmp_path / "b", history=True)
    with pytest.raises(archive.ArchiveError, match="not written by Naproxy"):
        archive.read(tmp_path / "b", tmp_path / "out.db")


def test_a_history_that_would_fill_the_disk_is_refused(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.backup(tmp_path / "b", history=True)
    full = shutil.disk_usage(tmp_path)._replace(free=LEAVE_FREE_BYTES + 4096)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: full)
    with pytest.raises(archive.ArchiveError, match="too little room"):
        restored(home, tmp_path / "b", history=True)
    assert not list(home.data.glob("restore*"))


def test_a_file_that_swells_is_refused_within_its_process(home: Home, tmp_path: Path) -> None:
    # A header of 4 GiB of zeros that is a few MB when packed would be read into memory.
    swollen = tarfile.TarInfo("x")
    swollen.type, swollen.size = tarfile.XHDTYPE, 1 << 32
    (tmp_path / "b").write_bytes(
        gzip.compress(swollen.tobuf(tarfile.GNU_FORMAT) + bytes(1 << 28), 1)
    )
    request = tmp_path / "request"
    request.write_text(json.dumps({"do": "check", "source": str(tmp_path / "b")}))
    done = subprocess.run(
        [sys.executable, "-m", "naproxy.box.work", str(request)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert json.loads(done.stdout)["code"] == "backup.memory"
    assert not request.exists()


# Diagnostics


class Doubles:
    """Programs that print every secret they can find."""

    def __init__(self, text: str) -> None:
        self.text = text

    async def run(self, argv: Any, timeout_s: float) -> Printed:
        return Printed(0, self.text.encode(), b"")

    def host_name(self) -> str:
        return "box"


def run(coroutine: Callable[..., Any], *arguments: Any) -> Any:
    return asyncio.run(coroutine(*arguments))


def test_no_secret_of_a_configuration_full_of_them_is_in_the_diagnostics(
    home: Home, tmp_path: Path
) -> None:
    loaded = config.read(home.file)
    told = {"settings": sorted(HIDDEN), "status": {"alert": "bad password correct horse"}}
    log = [f"said {secret} and b64b64b64" for secret in HIDDEN]
    texts = run(diagnostics.gather, Doubles("\n".join(HIDDEN)), told, log, home.data)
    values = secrets.values(loaded)
    (tmp_path / "d").write_bytes(diagnostics.packed(texts, values))
    text = text_of(tmp_path / "d")
    # A line of a key file is a secret as a whole: "PRIVATE KEY" alone is none.
    whole = [*(HIDDEN - {"PRIVATE KEY"}), "b64b64b64", "BEGIN OPENSSH"]
    escaped = [json.dumps(secret)[1:-1] for secret in whole]
    assert [secret for secret in whole + escaped if secret in text] == []
    assert diagnostics.HIDDEN in text
    assert "transitions: 0 rows" in text


def test_who_visited_is_not_in_the_diagnostics(home: Home, tmp_path: Path) -> None:
    with closing(sqlite3.connect(home.data / "history.db", isolation_level=None)) as db:
        db.execute(
            "INSERT INTO wakes (t_s, server, who, host, path, method, agent, class, reason)"
            " VALUES (1, 'web', '203.0.113.77', 'h', '/private', 'GET', 'a', 'person', 'page')"
        )
    person = WakeRequest("203.0.113.77", "page", "GET", "person", path="/private?a=(1)").why
    program = WakeRequest("2001:db8::7", "page", "GET", "api", path="/x").why
    wanted = Reason("server.wanted_falling", wake_request=program)
    reason = together(person, wanted)
    told = {"status": {"servers": [{"reason": reason.plain(), "inhibitors": [wanted.plain()]}]}}
    log = [f"web: asleep -> waking: {reason}", f"shop: asleep -> waking: {person}"]
    texts = run(diagnostics.gather, Doubles(""), told, log, home.data)
    (tmp_path / "d").write_bytes(diagnostics.packed(texts, []))
    text = text_of(tmp_path / "d")
    hidden = ("203.0.113.77", "2001:db8::7", "/private", "/x ")
    assert [each for each in hidden if each in text] == []
    assert "waking: A person asked for something. It was needed while it fell asleep" in text
    assert "A program asked for something" in text
    assert '"code": "server.person"' in text
    assert "wakes: 1 rows" in text
