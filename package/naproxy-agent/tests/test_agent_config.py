"""The agent's configuration: what is wrong is named, what is not said has a safe default."""

import re
from pathlib import Path

import pytest

import naproxy_agent
from naproxy_agent import ConfigError, Rules, parse_config

ROOM = Path(__file__).resolve().parent.parent
LEAST = "[agent]\nserver = web\n[sleep]\nmem = systemctl suspend\n"


def test_the_least_that_must_be_said():
    config = parse_config(LEAST)
    assert config.server == "web"
    assert config.port == 47809
    assert config.listen == ""
    assert config.box == frozenset()
    assert config.rules == Rules()
    assert config.commands == {"mem": ("systemctl", "suspend")}


def test_everything_said():
    config = parse_config(
        "[agent]\nserver = db-2\nlisten = 2001:db8::2\nport = 1234\n"
        "box = ::ffff:192.0.2.1 2001:DB8:0::1\n"
        "[stay-awake]\ninhibitors = no\nlogged-in-users = no\nload-above = 2.5\n"
        "connections-except-ports = 80\nprocesses = rsync 'my job'\nunits = a.service b.timer\n"
        "[sleep]\ndisk = systemctl hibernate\noff = /sbin/my-off --now\n"
    )
    assert (config.server, config.listen, config.port) == ("db-2", "2001:db8::2", 1234)
    assert config.box == frozenset({"192.0.2.1", "2001:db8::1"})
    assert config.rules == Rules(
        False, False, 2.5, frozenset({80}), frozenset({"rsync", "my job"}), ("a.service", "b.timer")
    )
    assert config.commands == {
        "disk": ("systemctl", "hibernate"),
        "off": ("/sbin/my-off", "--now"),
    }


def test_any_load_and_all_ports_can_be_allowed_and_no_port_is_unless_it_is_said():
    rules = stay_awake("load-above = any\nconnections-except-ports = all\n").rules
    assert rules.load_above is None
    assert rules.connections_except_ports is None
    assert stay_awake("connections-except-ports =\n").rules.connections_except_ports == frozenset()


def stay_awake(text):
    return parse_config(f"{LEAST}[stay-awake]\n{text}")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", r"\[sleep\] offers no state"),
        ("nonsense", "no section headers"),
        ("[sleep]\nmem = x\n", r"\[agent\] server must be"),
        (LEAST.replace("web", "Web Server"), r"\[agent\] server must be.*'Web Server'"),
        (LEAST.replace("web", "w" * 32), r"\[agent\] server must be"),
        (LEAST + "[wake]\n", r"\[wake\] is not known"),
        (LEAST + "[agent]\n", "agent.*already exists"),
        (LEAST + "mem = y\n", "mem.*already exists"),
        (LEAST + "standby = x\n", r"\[sleep\] standby is not known"),
        (LEAST.replace("web", "web\nbox = 192.0.2.1 box.lan"), "box: 'box.lan' is no IP address"),
        (LEAST.replace("web", "web\nport = 0"), "port: '0' is no port"),
        (LEAST.replace("web", "web\nlisten = eth0"), "listen: 'eth0' is no IP address"),
        ("[agent]\nserver = web\n[sleep]\nmem =\n", r"\[sleep\] offers no state"),
    ],
)
def test_what_is_wrong_is_named(text, words):
    with pytest.raises(ConfigError, match=words):
        parse_config(text)


def test_what_is_wrong_with_a_rule_is_named():
    for line, words in (
        ("users = no", r"\[stay-awake\] users is not known"),
        ("inhibitors = maybe", "inhibitors must be yes or no"),
        ("load-above = nan", "load-above must be a number"),
        ("load-above = 0", "load-above must be a number"),
        ("load-above = high", "load-above must be a number"),
        ("connections-except-ports = http", "'http' is no port"),
        ("connections-except-ports = 80 65536", "'65536' is no port"),
        ("connections-except-ports = ²", "'²' is no port"),
        ("units = backup", "'backup' is no unit"),
        ("units = --all.service", "'--all.service' is no unit"),
        ("processes = 'rsync", "processes: No closing quotation"),
    ):
        with pytest.raises(ConfigError, match=words):
            stay_awake(f"{line}\n")


def test_the_file_that_is_installed_says_what_the_defaults_are():
    shipped = (ROOM / "naproxy-agent.conf").read_text()
    # The commented keys, taken at their word; states that are not offered by default left out.
    spelt = re.sub(r"^#(?=[a-z-]+ =)(?!disk|off)", "", shipped, flags=re.MULTILINE)
    assert spelt != shipped
    assert parse_config(spelt) == parse_config(shipped)


def test_a_wrong_file_ends_the_agent_with_its_name(tmp_path, capsys):
    file = tmp_path / "agent.conf"
    file.write_text(LEAST + "standby = x\n")
    assert naproxy_agent.main(["--config", str(file)]) == 2
    assert f"{file}: [sleep] standby is not known" in capsys.readouterr().err


def test_a_bad_or_missing_key_ends_the_agent(tmp_path, capsys):
    config, key = tmp_path / "agent.conf", tmp_path / "key"
    config.write_text(LEAST)

    def ends_with(words):
        assert naproxy_agent.main(["--config", str(config), "--key", str(key)]) == 2
        assert words in capsys.readouterr().err

    ends_with("No such file")
    for contents, mode, words in (
        ("00" * 32, 0o644, "may be read by others"),
        ("00" * 31, 0o600, "64 hex digits"),
        ("", 0o600, "64 hex digits"),
    ):
        key.write_text(contents)
        key.chmod(mode)
        ends_with(words)
