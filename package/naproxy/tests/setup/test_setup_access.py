"""What a request may have the box write, and give somebody to run as root on the server."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from naproxy.api.jobs import JobError
from naproxy.config import document as config
from naproxy.config.document import Server
from naproxy.core.schema import toml_value
from naproxy.setup import access

LINE = 'restrict,command="/usr/local/bin/naproxy-sleep" ssh-ed25519 AAAAC3Nza naproxy'


def server(**sleep: object) -> Server:
    text = '[[server]]\nid = "web"\naddress = "127.0.0.1"\nmac = "02:00:00:00:00:02"\n'
    more = "".join(f"{key} = {toml_value(value)}\n" for key, value in sleep.items())
    return config.parse(f'{text}[server.sleep]\ndriver = "ssh"\n{more}').server[0]


def test_no_request_makes_a_key_anywhere_else(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/link").symlink_to(tmp_path)
    for name in ("elsewhere/key", "etc/commands/key", "etc/../key", "etc/link/key"):
        with pytest.raises(JobError, match="on the box itself") as refused:
            asyncio.run(access.key(server(key_file=str(tmp_path / name)), tmp_path / "etc"))
        assert refused.value.reason.code == "setup.file_elsewhere", name
        assert [path.name for path in tmp_path.rglob("key*")] == [], name


def test_no_request_pins_a_host_key_into_a_file_elsewhere(tmp_path: Path) -> None:
    # "pty ssh-ed25519 AAAA" is a line that lets somebody in: a server may be called so.
    keys = tmp_path / "known_hosts"
    asked = server(host="pty", key_file=str(tmp_path / "id_ed25519"))
    with pytest.raises(JobError, match="on the box itself"):
        asyncio.run(access.pin(asked, f"SHA256:{'A' * 43}", tmp_path / "etc", replace=True))
    assert not keys.exists()


def test_a_user_whose_name_a_shell_would_read_gets_no_script() -> None:
    for user in ("x;reboot", "$(reboot)", "`reboot`", "x'y", "x\\y", "ü", "x|y", "r&"):
        odd = server(user=user)
        assert odd.sleep.user == user  # type: ignore[attr-defined]  # the driver's own
        assert access._script(odd, odd.sleep, LINE) == "", user
    plain = server(user="na-proxy_1.x")
    assert "useradd" in access._script(plain, plain.sleep, LINE)
