"""The doctor's checks over readings, and what it makes of hostile answers."""

import dataclasses
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from naproxy.cli import __main__ as cli
from naproxy.config import document as config
from naproxy.core import findings
from naproxy.core.processes import Ended
from naproxy.core.reason import Reason, own_words, reason_of
from naproxy.doctor import box, readings, visitors
from naproxy.doctor import server as on_server
from naproxy.drivers.agent_protocol import Outcome
from naproxy.drivers.openssh import Session
from naproxy.drivers.sleep import agent, ssh

MAC = "02:00:00:00:00:01"
TEXT = f"""
[box]
interface = "eth7"
[[server]]
id = "web"
address = "127.0.0.1"
mac = "{MAC}"
"""


def configured(sleep: str = 'driver = "none"', wake: str = "") -> config.Server:
    return config.parse(f"{TEXT}[server.sleep]\n{sleep}\n[[server.wake]]\n{wake}\n").server[0]


EDGE = {
    "problem": None,
    "visited": True,
    "uncovered": [],
    "ended": [],
    "certificates": [],
    "ending": [],
}
GOOD = readings.Seen(
    server=configured('driver = "ssh"'),
    interface="eth7",
    up=True,
    route={"dst": "127.0.0.1", "dev": "eth7"},
    web="open",
    macs=(MAC,),
    programs=frozenset({"etherwake", "ssh"}),
    known=readings.Known(
        {
            "https": {"sight": None, "around": None},
            "live": {"last_s": 1e9},
            "reason": Reason("server.answers").plain(),
            "inhibitors": [],
            "sleeps_itself": None,
            "services": {"told": True, "listens": "22/tcp/sshd 80/tcp/nginx"},
        },
        EDGE,
    ),
    way=ssh.Login(
        session=Session(Ended(255, ""), "Authenticated to x\nadministratively prohibited")
    ),
)
NOT_PRIVATE = Reason("doctor.key_not_private", file="/k")
AGENT = dataclasses.replace(
    GOOD,
    server=configured('driver = "agent"'),
    way=agent.Heard(answer=Outcome(accepted=True, why=(), states=("mem",), clock_ahead_s=0)),
)


def found_by(seen: readings.Seen) -> dict[str, findings.Finding]:
    return {f.name: f for f in box.look(seen)}


def verdicts(seen: readings.Seen) -> dict[str, str]:
    found = found_by(seen).items()
    return {name: f.verdict for name, f in found if f.verdict not in ("ok", "not used")}


def test_where_all_is_well_nothing_is_said() -> None:
    for seen in (GOOD, AGENT):
        assert verdicts(seen) == {}, seen


def test_what_is_wrong_is_said_with_how_to_mend_it() -> None:
    for change, check, words in (
        ({"server": configured()}, "way_to_sleep", "never put to sleep"),
        ({"up": None}, "interface", "no interface eth7"),
        ({"up": False}, "interface", "is down"),
        ({"route": None}, "route", "no route"),
        ({"route": {"dev": "eth7", "gateway": "10.0.0.1"}}, "route", "behind the router 10.0.0.1"),
        ({"route": {"dev": "eth8"}}, "route", "leave through eth7"),
        ({"web": "refused"}, "web_port", "no web server runs there"),
        ({"web": "silent", "way": ssh.Login()}, "web_port", "silent"),
        (
            {"web": "silent", "way": ssh.Login(), "pinged": True},
            "web_port",
            "it answers pings: a firewall",
        ),
        ({"web": "silent"}, "web_port", "lets the box in over ssh: a firewall"),
        ({"macs": ("02:00:00:00:00:99",)}, "ethernet_address", "would not wake it"),
        ({"programs": frozenset({"ssh"})}, "magic_packet", "etherwake is not installed"),
        ({"raw": False}, "magic_packet", "may not send frames"),
        ({"programs": frozenset({"etherwake"})}, "programs", "not installed: ssh"),
        ({"way": ssh.Login(key_problem=NOT_PRIVATE)}, "ssh_key", "others may read"),
        ({"way": ssh.Login(problem=own_words("no host key"))}, "ssh_login", "no host key"),
        (
            {"way": ssh.Login(session=Session(Ended(255, "connect failed"), "Authenticated to x"))},
            "ssh_restricted",
            "may open tunnels",
        ),
    ):
        found = found_by(dataclasses.replace(GOOD, **change))
        assert found[check].verdict == "problem", change
        assert words in str(found[check].what), change
        assert found[check].mend, change


COUNTED = Reason("sleep.refused", who=Reason("sleep.the_server"), words=Reason("sleep.counts_box"))


def test_refusal_for_the_box_s_own_login_is_a_problem() -> None:
    for told in (
        {"reason": COUNTED.plain()},
        {"inhibitors": [Reason("server.asked_again", why=COUNTED, again_s=60).plain()]},
    ):
        assert GOOD.known, told
        known = readings.Known({**GOOD.known.status, **told}, EDGE)
        found = found_by(dataclasses.replace(GOOD, known=known))
        assert found["ssh_counts_box"].verdict == "problem", told
        assert "paste" in str(found["ssh_counts_box"].mend), told


def test_why_ssh_got_nowhere_decides_what_to_do() -> None:
    for log, mend in (
        ("connect to host x port 22: Connection timed out", "port 22 proto tcp"),
        ("connect to host x port 22: No route to host", "port 22 proto tcp"),
        ("", "port 22 proto tcp"),
        ("connect to host x port 22: Connection refused", "enable --now ssh"),
        ("naproxy@x: Permission denied (publickey).", "authorized_keys"),
    ):
        session = Session(Ended(255, ""), log)
        login = ssh.Login(session=session, problem=own_words("no"))
        problem = ssh.ssh_login(dataclasses.replace(GOOD, way=login))
        assert problem, log
        assert problem.what == own_words("no"), log
        assert mend in str(problem.mend), log


def test_an_agent_that_is_silent_may_be_behind_a_firewall() -> None:
    problem = agent.agent(dataclasses.replace(AGENT, way=agent.Heard(problem=own_words("no"))))
    assert problem
    assert "port 47809 proto udp" in str(problem.mend)


def test_keys_are_mended_by_the_boxs_own_command() -> None:
    found = found_by(dataclasses.replace(GOOD, way=ssh.Login(key_problem=NOT_PRIVATE)))
    assert "naproxy key make web" in str(found["ssh_key"].mend)
    assert "naproxy key pin web" in str(found["ssh_login"].mend)


def test_a_router_is_no_problem_for_a_packet_that_crosses_it() -> None:
    far = dataclasses.replace(
        GOOD,
        server=configured('driver = "ssh"', 'driver = "udp"'),
        route={"dev": "eth0", "gateway": "10.0.0.1"},
    )
    assert box.route(far) is None


# Visitors past the box

AROUND = Reason("server.https_around", port=443)
BLIND = Reason("server.blind", days=3, around=7)
BY_BOX = config.parse(f'{TEXT}hosts = ["a.example"]\n[server.https]\nmode = "box"\n').server[0]
SOON = Reason("https.ends_soon", days=9, day="2026-12-01")
EXPIRED = Reason("https.expired", day="2026-11-01")
MAIN = {"id": "main", "names": ["*.example"], "not_after_s": 2e9}


def passing(
    server: config.Server = GOOD.server,
    sight: Reason | None = None,
    around: int | None = None,
    inhibitor: Reason | None = None,
    last_s: float | None = 1e9,
    **edge: Any,
) -> dict[str, findings.Finding]:
    """Return what the checks of the visitors' way say that is not well."""
    status = {
        "https": {"sight": sight, "around": None if around is None else {"today": around}},
        "live": {"last_s": last_s},
        "reason": Reason("server.answers"),
        "inhibitors": [inhibitor] if inhibitor else [],
        "sleeps_itself": None,
    }
    plain = json.loads(json.dumps([status, {**EDGE, **edge}], default=Reason.plain))
    seen = dataclasses.replace(GOOD, server=server, known=readings.Known(*plain))
    names = {check.__name__ for check in visitors.CHECKS}
    found = [f for f in box.look(seen) if f.verdict not in ("ok", "not used")]
    return {f.name: f for f in found if f.name in names}


def test_visitors_past_the_box_are_judged_by_what_is_known_of_them() -> None:
    leads = Reason("server.leads_around", name="a", to="https://a")
    circle = Reason("server.leads_in_a_circle", name="a.example")
    visits = Reason("doctor.visits_past", number=41)
    cases: list[tuple[dict[str, Any], str, Reason, str]] = [
        ({"sight": AROUND}, "problem", AROUND, "The box serves it"),
        ({"sight": leads}, "problem", leads, "The box serves it"),
        ({"server": BY_BOX, "sight": circle}, "problem", circle, "looks after the server"),
        *(
            ({"sight": Reason(code)}, "not seen", Reason(code), "")
            for code in ("server.not_looked", "server.not_seen")
        ),
        ({"last_s": None}, "not seen", Reason("doctor.no_visitor_yet"), ""),
        ({"around": 41}, "note", visits, ""),
        ({"around": 7, "inhibitor": BLIND}, "problem", BLIND, ""),
    ]
    for known, verdict, what, mend in cases:
        [found] = passing(**known).values()
        assert (found.verdict, found.what) == (verdict, what), known
        assert mend in str(found.mend), known
    assert passing(around=0) == {}


def test_one_that_puts_itself_to_sleep_may_be_left_to_do_so() -> None:
    assert GOOD.known
    own = Reason("server.sleeps_itself", number=3)
    known = readings.Known({**GOOD.known.status, "sleeps_itself": own.plain()}, EDGE)
    (found,) = (f for f in box.look(dataclasses.replace(GOOD, known=known)) if f.what == own)
    assert (found.verdict, found.name) == ("note", "way_to_sleep")
    assert "naproxy leave web" in str(found.mend)


def test_without_a_controller_nothing_is_said_of_visitors() -> None:
    assert verdicts(dataclasses.replace(GOOD, known=None)) == {
        "past_the_box": "not seen",
        "visits_past_the_box": "not seen",
        "other_services": "not seen",
        "ssh_counts_box": "not seen",
    }


def test_names_without_a_certificate_are_a_problem() -> None:
    [found] = passing(BY_BOX, uncovered=["a.example"]).values()
    assert (found.name, found.verdict) == ("https_served", "problem")
    assert "a.example" in str(found.what)
    assert passing(BY_BOX, uncovered=["b.example"]) == {}


def test_https_that_does_not_run_is_a_problem() -> None:
    for mode in ("box", "through"):
        server = dataclasses.replace(BY_BOX, https=dataclasses.replace(BY_BOX.https, mode=mode))
        [found] = passing(server, problem=Reason("https.not_running")).values()
        assert (found.what, found.mend) == (
            Reason("https.not_running"),
            Reason("doctor.do_see_edge"),
        ), mode


def test_a_certificate_that_ends_is_told_by_whose_it_is() -> None:
    for why, certificate, verdict in (
        (SOON, MAIN, "note"),
        (EXPIRED, MAIN, "problem"),
        (EXPIRED, {**MAIN, "names": ["other.test"]}, None),
    ):
        ending = Reason("https.certificate", name="main", why=why)
        found = passing(BY_BOX, certificates=[certificate], ending=[ending]).get("certificate_end")
        assert (found.verdict if found else None) == verdict, (why, certificate)
        assert found is None or str(why) in str(found.what), (why, certificate)


BY_HTTPS = dataclasses.replace(
    GOOD, server=config.parse(f'{TEXT}[server.https]\nto_server = "https"\n').server[0], way=None
)


def test_a_certificate_that_haproxy_refuses_is_a_problem_with_words() -> None:
    shown = dataclasses.replace(BY_HTTPS, shown=Reason("https.shown_expired"))
    [found] = [f for f in box.look(shown) if f.name == "server_certificate"]
    assert (found.verdict, str(found.what)) == ("problem", "its certificate has expired")
    closed = dataclasses.replace(BY_HTTPS, web="refused")
    [found] = [f for f in box.look(closed) if f.name == "server_certificate"]
    assert found.verdict == "not seen"


def test_what_an_agent_answers_is_judged() -> None:
    good = {"accepted": True, "why": (), "states": ("mem",), "clock_ahead_s": 0}
    busy, late, off = (
        agent.Heard(answer=Outcome(**{**good, **change}))
        for change in (
            {"accepted": False, "why": ("rsync is running",)},
            {"clock_ahead_s": -3600},
            {"states": ("off",)},
        )
    )
    old = dataclasses.replace(AGENT.way, counts=False)
    for way, check, verdict in (
        (busy, agent.agent_consent, "note"),
        (old, agent.agent_counts, "note"),
        (late, agent.agent_clock, "note"),
        (off, agent.agent_state, "problem"),
    ):
        seen = dataclasses.replace(AGENT, way=way)
        assert verdicts(seen) == {check.__name__: verdict}, check
    busy_seen, old_seen = (dataclasses.replace(AGENT, way=way) for way in (busy, old))
    assert agent.agent_consent(busy_seen) == findings.Problem(
        Reason("sleep.busy_running", name="rsync"), Reason("doctor.do_change_agent"), True
    )
    assert agent.agent_counts(old_seen) == findings.Problem(
        Reason("doctor.agent_old"), Reason("doctor.do_update_agent"), True
    )


def test_the_port_that_the_box_asks_is_looked_at() -> None:
    [found] = [f for f in box.look(dataclasses.replace(BY_HTTPS, web="refused")) if "web" in f.name]
    assert "443" in str(found.what)


def test_the_box_knows_by_which_address_a_server_knows_it() -> None:
    assert readings.own_address("127.0.0.1") == "127.0.0.1"


# On the server itself

FACTS = {
    "root": "yes",
    "card": "enp3s0",
    "wol_can": "pumbg",
    "wol": "g",
    "eee": "disabled",
    "wakeup": "enabled",
    "kept": "/etc/network/interfaces",
    "states": "freeze mem disk",
    "mem_sleep": "s2idle [deep]",
    "target": "suspend.target loaded",
    "inhibitors": '{"type":"a(ssssuu)","data":[[]]}',
    "login": "/bin/sh",
    "keys": "1",
    "forced": "1",
    "command": "runs",
    "command_looks": "yes",
    "command_tells": "yes",
    "box": "192.168.1.5",
    "log_clients": "192.0.2.7=30 2001:db8::7=3 192.168.1.5=8",
}


MORE_FACTS = (
    *("users", "ethtool", "agent_unit", "virtual", "masked", "can", "pme"),
    *("firewalld", "ufw", "nft_drops", "ignored_ports", "command_counts"),
)


def on(facts: dict[str, str], sleep: str = 'driver = "ssh"') -> dict[str, findings.Finding]:
    seen = on_server.Seen(facts, configured(sleep))
    return {f.name: f for f in on_server.look(seen) if f.verdict not in ("ok", "not used")}


def test_a_server_that_is_prepared_leaves_only_the_firmware() -> None:
    assert set(on(FACTS)) == {"firmware"}


def test_an_agent_that_ignores_visitors_past_the_box_is_a_note() -> None:
    for ignored, verdict in (
        ("-", None),
        ("22 8080 -", None),
        ("80 443 -", "note"),
        ("443 -", "note"),
        ("all -", "note"),
        ("", "not seen"),
    ):
        found = on({**FACTS, "agent_unit": "active", "ignored_ports": ignored}, 'driver = "agent"')
        said = found.get("agent_sees_visitors")
        assert (said.verdict if said else None) == verdict, ignored


def lock(what: str, mode: str = "block") -> str:
    entry = [what, "backup", "it is running", mode, 0, 1]
    return json.dumps({"type": "a(ssssuu)", "data": [[entry]]})


def test_what_the_server_says_is_judged() -> None:
    for change, check, verdict, words in (
        ({"card": ""}, "card", "problem", MAC),
        ({"wol_can": "pumb"}, "wake_on_lan", "problem", "cannot"),
        ({"wol": "ug"}, "wake_on_lan", "problem", "other packets"),
        ({"kept": ""}, "wake_on_lan_kept", "note", "next boot|switch it off"),
        ({"states": "freeze"}, "sleep_state", "problem", "not mem"),
        ({"mem_sleep": "[s2idle]"}, "sleep_depth", "note", "s2idle"),
        ({"target": "suspend.target masked"}, "sleep_target", "problem", "masked"),
        ({"ufw": "Status: active 22/tcp"}, "firewall", "note", "port 80 proto tcp"),
        ({"nft_drops": "1"}, "firewall", "note", "nftables"),
        ({"inhibitors": lock("sleep:idle")}, "inhibitors", "note", "backup: it is running"),
        ({"log_clients": "192.168.1.5=30 192.0.2.7=9"}, "logs_client", "note", "192.168.1.5"),
        ({"users": "anna tty1;"}, "users", "note", "anna"),
        ({"login": ""}, "forced_command", "problem", "no user naproxy"),
        ({"login": "/usr/sbin/nologin"}, "forced_command", "problem", "nologin"),
        ({"keys": "2"}, "forced_command", "problem", "no forced command"),
        ({"keys": ""}, "forced_command", "problem", "no authorized_keys"),
        ({"command": ""}, "forced_command", "problem", "not executable"),
        ({"command_counts": "yes"}, "command_counts_box", "problem", "own login"),
        ({"command_looks": ""}, "command_sees_visitors", "note", "past the box"),
        ({"command_tells": ""}, "command_tells", "note", "timers and crontabs"),
    ):
        found = on({**FACTS, **change})
        assert found[check].verdict == verdict, change
        assert any(word in str(found[check].what) for word in words.split("|")), change
        assert found[check].mend, change


def test_a_log_that_tells_nothing_is_not_judged() -> None:
    for said in (
        "",
        "192.168.1.5=9",
        "192.168.1.5=1000000000",
        "192.168.1.5=-90",
        "x" * 2000,
        "=99 $(id)=99",
    ):
        assert on({**FACTS, "log_clients": said})["logs_client"].verdict == "not seen", said


def test_locks_that_do_not_hold_up_a_suspend_are_not_told() -> None:
    for entry in (lock("sleep", "delay"), lock("shutdown"), lock("handle-lid")):
        assert "inhibitors" not in on({**FACTS, "inhibitors": entry}), entry


def test_a_lock_on_shutdown_holds_up_a_power_off() -> None:
    found = on({**FACTS, "inhibitors": lock("shutdown")}, 'driver = "agent"\nstate = "off"')
    assert found["inhibitors"].verdict == "note"


def test_a_firewall_is_told_unless_it_lets_the_box_in() -> None:
    for facts, told in (
        ({"firewalld": "public: cockpit dhcpv6-client ssh http"}, False),
        ({"firewalld": "public: 80/tcp 22/tcp"}, False),
        ({"ufw": "Status: active 22/tcp 80,443/tcp"}, False),
        ({"ufw": "Status: inactive"}, False),
        ({"nft_drops": "0"}, False),
        # A longer number is another port.
        ({"ufw": "Status: active 180/tcp 22/tcp"}, True),
        ({"ufw": "Status: active 8080/tcp 22/tcp"}, True),
        ({"ufw": "Status: active 192.168.80.2 22/tcp"}, True),
    ):
        assert ("firewall" in on({**FACTS, **facts})) is told, facts


def test_the_agents_port_is_looked_for_in_a_firewall_too() -> None:
    found = on({**FACTS, "firewalld": "public: ssh http"}, 'driver = "agent"')
    assert "--add-port=47809/udp" in str(found["firewall"].mend)


def test_that_a_card_can_call_from_d3cold_does_not_prove_the_firmware() -> None:
    pme = {"pme": "D0+,D1-,D2-,D3hot+,D3cold+"}
    assert on({**FACTS, **pme})["firmware"].verdict == "not seen"


def test_without_ethtool_or_root_it_is_not_guessed() -> None:
    assert on({**FACTS, "ethtool": "missing"})["wake_on_lan"].verdict == "not seen"
    assert on({**FACTS, "root": "no", "wol_can": ""})["wake_on_lan"].verdict == "not seen"
    assert on({**FACTS, "root": "no"})["forced_command"].verdict == "not seen"


def test_other_output_than_the_scripts_is_refused(subtests: pytest.Subtests) -> None:
    for data in (
        *(b"", b"bash: ethtool: not found\n", b"naproxy-facts 2\n", b"\0" * 100),
        *(b"naproxy-facts 1\nno equals\n", b"naproxy-facts 1\n../x=1\n"),
        b"naproxy-facts 1\n" + b"a=" + b"x" * 70000,
    ):
        with subtests.test(data=data), pytest.raises(on_server.FactsError):
            on_server.parse(data)


@given(st.dictionaries(st.sampled_from([*FACTS, *MORE_FACTS]), st.text()))
def test_whatever_a_server_says_what_is_shown_is_printable(facts: dict[str, str]) -> None:
    seen = on_server.Seen(facts, configured('driver = "ssh"'))
    for finding in on_server.look(seen):
        shown = "".join(finding.lines())
        assert shown.isprintable(), finding


def test_the_script_of_this_server_runs_in_a_shell_and_is_understood() -> None:
    script = on_server.script(configured('driver = "ssh"'))
    assert MAC in script
    done = subprocess.run(["sh"], input=script.encode(), capture_output=True, check=True)
    facts = on_server.parse(done.stdout)
    assert facts["root"] in ("yes", "no")
    assert facts["card"] == ""


# The command


def doctor(tmp_path: Path, *words: str, text: str = TEXT) -> int:
    file = tmp_path / "naproxy.toml"
    file.write_text(text)
    return cli.main(["doctor", "web", "--config", str(file), *words])


def test_problems_are_the_exit_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor(tmp_path) == 1
    said = capsys.readouterr().out
    assert "PROBLEM  interface: there is no interface eth7" in said
    assert "--script | ssh root@127.0.0.1 sh | naproxy doctor web --facts -" in said


def test_json_has_each_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = tmp_path / "facts"
    facts.write_text("naproxy-facts 1\ncard=\n")
    assert doctor(tmp_path, "--json", "--facts", str(facts)) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["server"] == "web"
    assert {c["where"] for c in said["checks"]} == {"box", "server"}
    assert len([c for c in said["checks"] if c["verdict"] == "problem"]) == said["problems"]
    for check in said["checks"]:
        for key in ("title", "what", "mend"):
            reason = check[f"{key}_reason"]
            assert check[key] == (str(reason_of(reason)) if reason else "")


def test_unusable_input_is_status_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, text in (
        (("--facts", "/dev/null"), TEXT),
        (("--facts", "/no/such/file"), TEXT),
        ((), TEXT.replace('"web"', '"other"')),
        ((), TEXT + "rubbish = 1"),
    ):
        assert doctor(tmp_path, *words, text=text) == 2, words
        assert capsys.readouterr().err.startswith("naproxy doctor: "), words
