"""The configuration of rauc-hawkbit-updater, from ours."""

from configparser import ConfigParser
from pathlib import Path

import pytest
from naproxy.cli.__main__ import main
from naproxy.cli.fleet import rendered
from naproxy.config import document as config
from naproxy.core.schema import ConfigError

FLEET = '[fleet]\nurl = "https://fleet.example.org:8443"\ntoken = "%s{s3cret}=#;"\n'


def client(text: str) -> dict[str, str]:
    parsed = ConfigParser(interpolation=None, comment_prefixes=None, inline_comment_prefixes=None)
    parsed.read_string(rendered(config.parse(text), "naproxy-1", "naproxy-board"))
    assert dict(parsed["device"])["board"] == "naproxy-board"
    return dict(parsed["client"])


def test_a_box_shows_its_own_token_and_checks_the_server() -> None:
    said = client(FLEET)
    assert said["hawkbit_server"] == "fleet.example.org:8443"
    assert (said["ssl"], said["ssl_verify"]) == ("true", "true")
    assert said["auth_token"] == "%s{s3cret}=#;"
    assert "gateway_token" not in said
    assert (said["tenant_id"], said["target_name"]) == ("DEFAULT", "naproxy-1")
    assert said["post_update_reboot"] == "false"


def test_a_token_for_all_and_a_restart_are_passed_on() -> None:
    said = client(FLEET + 'token_of = "gateway"\nrestart = true\n')
    assert said["gateway_token"] == "%s{s3cret}=#;"
    assert "auth_token" not in said
    assert said["post_update_reboot"] == "true"


def test_an_invalid_address_is_rejected(subtests: pytest.Subtests) -> None:
    for url in (
        *("http://a.example", "https://", "https://a b", "https://a/path", "https://a\\nssl=false"),
        *("a", "https://a:0", "https://a:65536"),
    ):
        with subtests.test(url=url), pytest.raises(ConfigError, match=r"fleet\.url"):
            config.parse(f'[fleet]\nurl = "{url}"\ntoken = "x"\n')


def test_a_value_that_would_mean_more_in_the_file_is_refused(subtests: pytest.Subtests) -> None:
    for value in ("a b", "a\\nssl=false", "\\u00e4", "a\\\\sb", "\\u0000"):
        with subtests.test(value=value), pytest.raises(ConfigError, match=r"fleet\.token"):
            config.parse(f'[fleet]\nurl = "https://a"\ntoken = "{value}"\n')


def test_a_fleet_without_a_token_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"fleet\.token: is needed"):
        config.parse('[fleet]\nurl = "https://a"\n')


def test_a_bad_configuration_of_rauc_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for text in (b"\xff\xfe", b"compatible=x\n", b"[system\n"):
        (tmp_path / "system.conf").write_bytes(text)
        command = ["fleet", str(tmp_path / "out"), "--config", str(tmp_path / "naproxy.toml")]
        (tmp_path / "naproxy.toml").write_text(FLEET)
        assert main([*command, f"--rauc-conf={tmp_path}/system.conf"]) == 1, text
        assert f"{tmp_path}/system.conf: " in capsys.readouterr().err, text
        old = f'[box]\nrauc_conf = "{tmp_path}/system.conf"\n'
        (tmp_path / "naproxy.toml").write_text(old + FLEET)
        assert main(command) == 1, text
        assert f"{tmp_path}/system.conf: " in capsys.readouterr().err, text


def test_only_root_can_read_the_file(tmp_path: Path) -> None:
    (tmp_path / "naproxy.toml").write_text(FLEET)
    (tmp_path / "out").write_text("old")
    (tmp_path / "out").chmod(0o644)
    assert main(["fleet", str(tmp_path / "out"), "--config", str(tmp_path / "naproxy.toml")]) == 0
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o600
    assert "[client]" in (tmp_path / "out").read_text()


def test_off_is_the_default(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "naproxy.toml").write_text("")
    assert main(["fleet", str(tmp_path / "out"), "--config", str(tmp_path / "naproxy.toml")]) == 1
    assert "belongs to no fleet" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
