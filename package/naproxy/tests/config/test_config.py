import math
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from naproxy.config import describe
from naproxy.config import document as config
from naproxy.config.edit import Change, edit
from naproxy.core import schema
from naproxy.core.schema import ConfigError, Key

EXAMPLE = Path(__file__).parents[2] / "naproxy.example.toml"
LIST = Path(config.__file__).parents[1] / "keys.json"
REFERENCE = Path(__file__).parents[4] / "docs" / "configuration.md"

LEAST = """
[[server]]
id = "web"
address = "192.0.2.10"
mac = "02:00:00:00:00:01"
"""


def problems(text: str | bytes) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        config.parse(text)
    return {p.where: str(p.reason) for p in caught.value.problems}


def test_the_example_is_good() -> None:
    loaded = config.read(EXAMPLE)
    assert loaded.server[0].hosts == ("www.example.org", "example.org")
    assert loaded.server[0].sleep.key_file == "/etc/naproxy/ssh/id_ed25519"
    assert loaded.rule[0].treat_as == "monitor"


def test_three_keys_are_enough_and_have_the_cache_that_the_readme_promises() -> None:
    server = config.parse(LEAST).server[0]
    names = (server.sleep.driver, server.wake[0].driver, server.policy.name)
    assert (server.port, *names) == (80, "none", "etherwake", "teacher")
    cache = server.cache
    assert (cache.mode, cache.cookies, cache.warm) == ("frozen", (), True)


def test_the_defaults_are_those_of_the_thesis() -> None:
    loaded = config.parse(f'{LEAST}[server.policy]\nname = "thesis"')
    power, policy = loaded.server[0].power, loaded.server[0].policy
    assert (power.on_w, power.off_w, power.switch_j, loaded.box.proxy_w) == (43.3, 1.6, 170.7, 5.0)
    assert (policy.min_awake_s, policy.min_idle_s) == (60, 5)
    assert (policy.fraction, policy.delta_s) == (0.10, 0.05)
    assert loaded.server[0].connect_timeout_s == 10
    assert loaded.server[0].cache.grace_s == 3600


CACHE = f"{LEAST}[server.cache]\n"


def test_private_headers_are_names_and_have_room_beside_the_cookies() -> None:
    loaded = config.parse(f'{CACHE}private_headers = ["X-Employee", "customer"]')
    assert loaded.server[0].cache.private_headers == ("X-Employee", "customer")
    for name in ("", "a b", "a:", "x" * 65, "Host", "a\nb", "Connection"):
        text = f"{CACHE}private_headers = [{schema.toml_value(name)}]"
        assert "server.web.cache.private_headers[0]" in problems(text), name
    many = schema.toml_value(tuple(f"c{n}" for n in range(15)))
    text = f'{CACHE}cookies = {many}\nprivate_headers = ["a", "b"]'
    assert "server.web.cache.private_headers" in problems(text)


def test_cookies_are_named_whole_or_by_their_beginning() -> None:
    loaded = config.parse(f'{CACHE}cookies = ["cookie_notice", "wp-wpml_*", "{"x" * 30}*"]')
    assert loaded.server[0].cache.cookies == ("cookie_notice", "wp-wpml_*", "x" * 30 + "*")
    hostile = ["", "*", "**", "a*b", "a b", "a;b", "a=b", 'a"', "a,b", "a\u00fc"]
    for name in (*hostile, "x" * 31, f"{'x' * 31}*"):
        text = f"{CACHE}cookies = ['fine', {schema.toml_value(name)}]"
        assert "name" in problems(text)["server.web.cache.cookies[1]"], name


# Prices

NIGHT = "mon-sun 22:00-06:00 0.24"


def tariff(since: str = "2026-01-01", price: object = 0.32, *bands: str) -> str:
    listed = schema.toml_value(bands)
    return f'[[tariff]]\nsince = "{since}"\nprice_per_kwh = {price}\nbands = {listed}\n'


def test_a_price_by_day_and_night_holds_from_a_day_on() -> None:
    loaded = config.parse(LEAST + tariff("2026-01-01", 0.32, NIGHT) + tariff("2027-01-01", 0.35))
    assert [each.since for each in loaded.tariff] == ["2026-01-01", "2027-01-01"]
    assert loaded.tariff[0].bands == (NIGHT,)


def test_a_price_that_cannot_be_is_refused_by_its_field() -> None:
    for text, where, words in (
        (tariff("soon"), "tariff.1.since", "2026-01-01"),
        (tariff("2026-02-30"), "tariff.1.since", "2026-02-30"),
        (tariff() + tariff(), "tariff.2.since", "two prices"),
        (tariff(price=-0.1), "tariff.1.price_per_kwh", "0 to 100000"),
        (tariff(price="nan"), "tariff.1.price_per_kwh", "finite"),
        (tariff(price=1e9), "tariff.1.price_per_kwh", "0 to 100000"),
        (tariff(price='"dear"'), "tariff.1.price_per_kwh", "number"),
        ("[[tariff]]\n", "tariff.1.since", "is missing"),
        (tariff("2026-01-01", 0.3, "mon-sun 22:00-06:00 -1"), "tariff.1.bands[0]", "price"),
        (tariff("2026-01-01", 0.3, "sun 22:00-06:00 100001"), "tariff.1.bands[0]", "0 to 100000"),
        (tariff("2026-01-01", 0.3, NIGHT, "sat 05:00-07:00 1"), "tariff.1.bands", "sat 05:00"),
        (tariff("2026-01-01", 0.3, *[NIGHT] * 17), "tariff.1.bands", "16"),
        (tariff() * 33, "tariff", "32"),
        ("[office]\nco2_by_hour = [1.0, 2.0]\n", "office.co2_by_hour", "24 values"),
        (f"[office]\nco2_by_hour = {[-1.0] * 24}\n", "office.co2_by_hour[0]", "0 to 5000"),
        ("[office]\ntime_zone = 'Mars/Olympus'\n", "office.time_zone", "Mars/Olympus"),
    ):
        assert words in problems(text)[where], text


# Each key wrong in turn

ALL_KEYS = list(schema.keys(config.Config))
GIVEN = {
    "id": "web",
    "address": "192.0.2.10",
    "mac": "02:00:00:00:00:01",
    "kind": "path",
    "text": "/x",
    "treat_as": "feed",
    "host": "192.0.2.9",
    "user": "naproxy",
    "password_file": "/etc/naproxy/bmc",
    "fingerprint": "ab" * 32,
    "source": "sensor.server_power",
    "machine": "web",
    "path": "/x",
    "program": "press",
    "chip": "gpiochip0",
    "line": 17,
    "of": "web",
    "since": "2026-01-01",
    "price_per_kwh": 0.3,
}
"""What must be given, by key."""


MISSING = object()


def problems_with(key: Key, value: object) -> dict[str, str]:
    """What is wrong with a configuration that is right but for `key`, which has `value`."""
    data: dict[str, Any] = tomllib.loads(LEAST)
    data["rule"] = [{"kind": "path", "text": "/x", "treat_as": "feed"}]
    here: Any = data
    *path, name = key.path.split(".")
    for part in path:
        inner = here.setdefault(part.removesuffix("[]"), [{}] if part.endswith("[]") else {})
        here = inner[0] if part.endswith("[]") else inner
    if key.when:
        selector, _, choice = key.when.partition(" = ")
        here[selector] = choice.strip('"')
    section = key.path.rpartition(".")[0]
    for other in ALL_KEYS:
        if other.required and other.when == key.when and other.path.startswith(f"{section}."):
            name_of = other.path.rpartition(".")[2]
            guest = "proxmox" in other.when and name_of == "machine"
            here.setdefault(name_of, "pve/qemu/100" if guest else GIVEN[name_of])
    here[name] = value
    if value is MISSING:
        del here[name]
    found: list[schema.Problem] = []
    schema.load(config.Config, data, "", found)
    return {p.where: str(p.reason) for p in found}


def spelled(key: Key) -> str:
    """The path as errors spell it: a server by its id, where that is known."""
    path = key.path
    for name in ("server", "meter", "certificate"):
        path = path.replace(f"{name}[]", f"{name}.{1 if path == f'{name}[].id' else 'web'}")
    for name in ("rule", "wake", "tariff"):
        path = path.replace(f"{name}[]", f"{name}.1")
    return path


RIGHT_TYPES: dict[str, set[type]] = {
    "true or false": {bool},
    "a whole number": {int},
    "a number": {int, float},
    "a text in quotes": {str},
}


def wrong_types(key: Key) -> list[Any]:
    right = RIGHT_TYPES.get(key.kind, {list})
    every: list[Any] = [True, 7, 7.5, "text", ["text"], {}]
    return [value for value in every if type(value) not in right]


def test_a_value_of_the_wrong_type_is_rejected_with_its_path() -> None:
    seen_kinds = set()
    for key in ALL_KEYS:
        # One key of each kind gets every wrong type. The others only show that they are checked.
        wrong = wrong_types(key)
        for value in wrong[-1:] if key.kind in seen_kinds else wrong:
            found = problems_with(key, value)
            assert found.get(spelled(key), "").startswith("must be"), (key, value, found)
        seen_kinds.add(key.kind)


NUMBERS = [k for k in ALL_KEYS if k.kind in ("a number", "a whole number")]


def numeric(key: Key) -> type[int | float]:
    return int if key.kind == "a whole number" else float


def test_a_number_out_of_range_is_rejected_with_its_path() -> None:
    for key in NUMBERS:
        assert key.low is not None, key
        assert key.high is not None, key
        step = 1 if numeric(key) is int else 0.001
        for value in (key.low - step, key.high + step):
            found = problems_with(key, numeric(key)(value))
            assert found.get(spelled(key), "").startswith("must be"), (key, value, found)
        for value in (math.nan, math.inf, -math.inf) if numeric(key) is float else ():
            found = problems_with(key, value)
            assert found.get(spelled(key)) == "must be a finite number", (key, value, found)


def test_both_bounds_of_every_number_are_accepted() -> None:
    for key in NUMBERS:
        for value in (key.low, key.high):
            assert value is not None, key
            assert problems_with(key, numeric(key)(value)) == {}, (key, value)


def test_a_text_with_control_characters_is_rejected() -> None:
    # One key gets every such character. The others only show that they are checked.
    for number, key in enumerate(k for k in ALL_KEYS if k.kind == "a text in quotes"):
        for value in ("a\nb", "a\x00b", "\x7f")[: 1 if number else 3]:
            found = problems_with(key, value)
            assert spelled(key) in found, (key, value, found)


def test_an_unknown_choice_is_rejected_with_the_known_ones() -> None:
    for key in (k for k in ALL_KEYS if k.choices):
        value: Any = ["nonsense"] if key.kind.startswith("a list") else "nonsense"
        found = problems_with(key, value)
        words = next((w for where, w in found.items() if where.startswith(spelled(key))), found)
        choices = ", ".join(choice or '""' for choice in key.choices)
        assert words == f"must be one of {choices}", key


def test_a_missing_required_key_is_named() -> None:
    for key in (k for k in ALL_KEYS if k.required):
        assert problems_with(key, MISSING).get(spelled(key), "").startswith("is missing"), key


def test_a_text_of_the_wrong_form_is_refused_with_its_path() -> None:
    for path, value in (
        ("server[].id", "Web"),
        ("server[].id", ""),
        ("server[].id", "x" * 32),
        ("server[].id", "../etc"),
        ("server[].address", "www.example.org"),
        ("server[].address", "192.0.2.256"),
        ("server[].address", "224.0.0.1"),
        ("server[].mac", "02:00:00:00:00"),
        ("server[].mac", "ff:ff:ff:ff:ff:ff"),
        ("server[].mac", "00:00:00:00:00:00"),
        ("server[].mac", "-b"),
        ("server[].sleep.user", "-oProxyCommand=id"),
        ("server[].sleep.host", "-oProxyCommand=id"),
        ("server[].sleep.host", "a b"),
        ("server[].sleep.key_file", "id_ed25519"),
        ("server[].interface", "-i"),
        ("server[].wake[].interface", "sixteen-letters-"),
        ("server[].ready.path", "robots.txt"),
        ("server[].ready.path", "/a b"),
        ("server[].ready.host", "UPPER"),
        ("box.interface", "a/b"),
        ("box.notice", "x" * 512),
        ("box.notice", "ä" * 256),
        ("rule[].text", "x" * 56),
    ):
        key = next(k for k in ALL_KEYS if k.path == path and "none" not in k.when)
        where = spelled(key) if path != "server[].id" else f"server.{value or 1}.id"
        assert where in problems_with(key, value), (path, value)


def test_a_host_name_of_the_wrong_form_is_refused() -> None:
    for host in ("WWW.example.org", "a:80", "a b", "-a", "", "a..b", "x" * 64):
        assert "server.web.hosts[0]" in problems(f'{LEAST}hosts = ["{host}"]'), host
    assert config.parse(f'{LEAST}hosts = ["*.example.org"]').server[0].hosts == ("*.example.org",)


def test_more_than_the_page_holds_is_refused() -> None:
    hosts = [f"n{number}.example" for number in range(65)]
    assert "0 to 64" in problems(f"{LEAST}hosts = {hosts}")["server.web.hosts"]
    assert config.parse(f"{LEAST}hosts = {hosts[:64]}").server[0].hosts == tuple(hosts[:64])
    servers = "".join(LEAST.replace('"web"', f'"w{n}"') for n in range(7))
    assert problems(servers) == {"server": "must be given 0 to 6 times"}


def test_an_unknown_key_is_refused_with_its_path_and_a_guess() -> None:
    found = problems(f"{LEAST}[server.hold]\nlimits_s = 3")
    assert found == {"server.web.hold.limits_s": "is not known; did you mean limit_s?"}


def test_unknown_keys_are_refused_at_every_depth() -> None:
    for text, where in (
        ("[bix]\n", "bix"),
        ("[box]\nnotise = 1\n", "box.notise"),
        ("[[server]]\n[server.nap]\n", "server.1.nap"),
        ("[[server]]\n[server.sleep]\npath = 1\n", "server.1.sleep.path"),
        # A key of another driver.
        (f'{LEAST}[server.ready]\nkind = "tcp"\npath = "/"', "server.web.ready.path"),
        (f"{LEAST}[[server.wake]]\nports = [9]\n", "server.web.wake.1.ports"),
    ):
        assert "is not known" in problems(text)[where], text


def test_an_unknown_driver_is_refused_with_those_there_are() -> None:
    for where, known in (
        ("sleep.driver", "agent, command, ipmi, itself, libvirt, none, proxmox, redfish, ssh"),
        ("ready.kind", "http, tcp"),
        ("policy.name", "schedule, teacher, thesis, timeout"),
    ):
        section, _, selector = where.partition(".")
        for value in ('"../../evil"', '""', "3", "[]", "{}"):
            found = problems(f"{LEAST}[server.{section}]\n{selector} = {value}")
            assert found == {f"server.web.{where}": f"must be one of {known}"}
            found = problems(f"{LEAST}[[server.wake]]\ndriver = {value}")
            assert found == {"server.web.wake.1.driver": f"must be one of {WAYS}"}


WAYS = "command, etherwake, gpio, ipmi, libvirt, proxmox, redfish, udp"


def test_a_virtual_machine_needs_a_way_back() -> None:
    machine = 'driver = "libvirt"\nhost = "vmhost"\ndomain = "web"\n'
    asleep = f"{LEAST}[server.sleep]\n{machine}"
    assert set(problems(asleep)) == {"server.web.wake.1.driver"}
    ways = f"[[server.wake]]\n[[server.wake]]\n{machine}"
    assert config.parse(f"{asleep}{ways}").server[0].wake[1].machine == "web"


def test_an_error_in_a_way_to_wake_names_its_number() -> None:
    found = problems(f'{LEAST}[[server.wake]]\n[[server.wake]]\ndriver = "udp"\nports = [0]\n')
    assert found == {"server.web.wake.2.ports[0]": "must be 1 to 65535"}


def test_an_invalid_list_of_ways_to_wake_is_rejected() -> None:
    for text, where, words in (
        ("wake = []\n", "wake", "must be given 1 to 10 times"),
        ("wake = 3\n", "wake", "must be an array of tables"),
        ('wake = "etherwake"\n', "wake", "must be an array of tables"),
        ('wake = ["etherwake"]\n', "wake.1", "must be a section"),
        ("wake = [[]]\n", "wake.1", "must be a section"),
        ("[[server.wake]]\n" * 11, "wake", "must be given 1 to 10 times"),
        ("rung = 3\n", "rung", "is not known"),
        ("rung = [3]\n", "wake.2", "must be a section"),
        ("wake = 3\nrung = [{}]\n", "wake", "must be an array of tables"),
    ):
        assert words in problems(LEAST + text)[f"server.web.{where}"], text
    assert list(problems(f"{LEAST}[server.wake]\n[[server.wake]]\n")) == [""]


def test_a_secureon_password_has_4_or_6_bytes_and_is_not_shown() -> None:
    udp = f'{LEAST}[[server.wake]]\ndriver = "udp"\npassword = '
    for password in ("00:11", "00:11:22:33:44", "xx:11:22:33", "00112233"):
        said = problems(f'{udp}"{password}"\n')["server.web.wake.1.password"]
        assert said.startswith("must be 4 or 6 bytes"), password
    shown = schema.plain(config.parse(f'{udp}"00:11:22:33"\n'))["server"][0]["wake"][0]
    assert shown["driver"] == "udp"
    assert "password" not in shown


def test_a_domain_means_nothing_to_a_shell() -> None:
    for domain in ("-x", "a b", "a;reboot", "$(id)", "a'b", "x" * 65, "", "../etc"):
        text = f'{LEAST}[[server.wake]]\ndriver = "libvirt"\nhost = "h"\nmachine = "{domain}"\n'
        assert "server.web.wake.1.machine" in problems(text), domain


def test_all_errors_are_told_at_once() -> None:
    found = problems(
        '[box]\nnotise = ""\n[[server]]\nid = "a"\naddress = 1\n[server.hold]\nlimit_s = -1\n'
        '[[server]]\nid = "b"\naddress = "::1"\nmac = "02:00:00:00:00:01"\nport = 0\n'
    )
    assert set(found) == {
        "box.notise",
        "server.a.address",
        "server.a.mac",
        "server.a.hold.limit_s",
        "server.b.port",
    }


CERTIFICATE = '[[certificate]]\nid = "main"\n'
HTTPS = f'{LEAST}[server.https]\nmode = "box"\n'
METER = '[[meter]]\nid = "plug"\nof = "web"\ndriver = "simulated"\n'
TWO_HOSTS = LEAST.replace("web", "shop") + 'hosts = ["xn--bcher-kva.de"]\n'
TWO = LEAST + LEAST.replace('"web"', '"shop"')


def test_keys_that_contradict_each_other_are_refused() -> None:
    for text, where in (
        (LEAST + LEAST, "server.web.id"),
        (TWO.replace("mac", 'hosts = ["a"]\nmac'), "server.web.hosts"),
        (LEAST + 'hosts = ["bücher.de"]\n' + TWO_HOSTS, "server.web.hosts"),
        (TWO.replace("mac", "default = true\nmac"), "server.shop.default"),
        (LEAST + LEAST.replace("web", "shop") + HTTPS[len(LEAST) :], "server.shop.https.mode"),
        (f"{LEAST}[server.https]\nredirect = true", "server.web.https.redirect"),
        (f"{LEAST}[server.https]\nhsts_s = 1", "server.web.https.hsts_s"),
        (f'{LEAST}[[rule]]\nkind = "path"\ntext = "no"\ntreat_as = "feed"', "rule.1.text"),
        *(
            (f'{LEAST}[server.https]\nto_server = "https"\n{line}', f"server.web.https.{key}")
            for key, line in (
                ("to_server_pin", 'to_server_check = "pin"'),
                ("to_server_pin", f'to_server_pin = "{"0" * 63}g"'),
                ("to_server_pin", f'to_server_pin = "{"0" * 64}\\n"'),
                ("to_server_name", 'to_server_name = "*.example.org"'),
                ("to_server_name", 'to_server_name = "a b"'),
                ("to_server_name", 'to_server_name = "192.0.2.1) verify none"'),
                ("to_server_ca_file", 'to_server_ca_file = "ca.pem"'),
            )
        ),
        (f"{HTTPS}redirect = true\n[https]\nport = 8443", "server.web.https.redirect"),
        (f"{LEAST}{2 * CERTIFICATE}", "certificate.main.id"),
        (f"{LEAST}[server.power]\non_w = 1.0\noff_w = 2.0", "server.web.power.on_w"),
        (
            f'{LEAST}[[rule]]\nkind = "path"\ntext = "/"\ntreat_as = "feed"\nserver = "nope"',
            "rule.1.server",
        ),
        (
            f'{LEAST}[[rule]]\nkind = "address"\ntext = "192.0.2.1/24"\ntreat_as = "feed"',
            "rule.1.text",
        ),
        (LEAST + METER + METER, "meter.plug.id"),
        (LEAST + METER.replace('"web"', '"nope"'), "meter.plug.of"),
        (LEAST.replace('"web"', '"box"') + METER.replace('"web"', '"box"'), "meter.plug.of"),
        (f"{LEAST}{METER}adapter_w = [10.0]", "meter.plug.adapter_efficiency"),
        (
            f"{LEAST}{METER}adapter_w = [10.0, 10.0]\nadapter_efficiency = [0.8, 0.9]",
            "meter.plug.adapter_w",
        ),
    ):
        assert where in problems(text), text


def test_https_may_be_served_here() -> None:
    for text in (
        f"{HTTPS}redirect = true\nhsts_s = 63072000",
        f'{LEAST}hosts = ["bücher.example", "www.example.org"]\n{HTTPS[len(LEAST) :]}',
        f'{LEAST}[server.https]\nmode = "unused"',
        f'[https]\nport = 8443\noldest = "1.3"\n{HTTPS}{CERTIFICATE}',
    ):
        assert config.parse(text).server[0].https.mode != "none", text


def test_a_configuration_with_a_byte_order_mark_is_read() -> None:
    text = f"\ufeff# our box\n{LEAST}"
    assert config.parse(text.encode()) == config.parse(LEAST)


def test_invalid_toml_or_an_unknown_section_is_rejected() -> None:
    large, deep = b"a" * (config.MAX_BYTES + 1), b"x = " + b"[" * 100000
    for text in (b"\xff\xfe", b"[box", b"= 3", large, deep, b"\x00"):
        assert list(problems(text)) == [""], text[:50]
    for section in ("server = 3", "server = {}", "server = [3]", "box = 3", "rule = [[]]"):
        assert any("must be a" in what for what in problems(section).values()), section


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3)
    ),
    max_leaves=10,
)
NAMES = sorted({part.rstrip("[]") for key in ALL_KEYS for part in key.path.split(".")})


@given(
    st.dictionaries(
        st.sampled_from(NAMES) | st.text(max_size=5),
        JSON | st.dictionaries(st.sampled_from(NAMES), JSON, max_size=5),
        max_size=5,
    )
)
def test_nonsense_is_refused_and_never_a_crash(table: dict[str, Any]) -> None:
    found: list[schema.Problem] = []
    schema.load(config.Config, {"server": [table, table], **table}, "", found)
    assert found


# Older files


def test_installation_keys_of_an_older_file_are_read_with_a_warning() -> None:
    found = config.look(f'[box]\nrun_dir = "/r"\nrealtime = false\nnotice = "Hi"\n{LEAST}')
    assert found.config == config.parse(f'[box]\nnotice = "Hi"\n{LEAST}')
    assert found.arguments == {"run_dir": "/r", "realtime": False}
    warned = {each.where: str(each.reason) for each in found.warnings}
    assert warned.keys() == {"box.run_dir", "box.realtime"}
    assert "--run-dir" in warned["box.run_dir"]


def test_a_key_that_got_another_name_is_read_with_a_warning() -> None:
    found = config.look(f"{LEAST}redirect_robots = false\n")
    assert not found.config.server[0].defer_crawlers
    [warning] = found.warnings
    assert (warning.where, str(warning.reason)) == (
        "server.web.redirect_robots",
        "is called defer_crawlers now",
    )
    both = f"{LEAST}redirect_robots = false\ndefer_crawlers = true\n"
    assert config.look(both).config.server[0].defer_crawlers


def test_a_removed_key_is_ignored_with_a_warning() -> None:
    hold = "[server.hold]\nlimit_s = 7\n"
    gone = 'release_batch = 3\nrelease_ms = -1\n[server.cache]\nwarm_sla = "mine"\n'
    found = config.look(LEAST + hold + gone)
    assert found.config == config.parse(LEAST + hold)
    warned = {each.where.removeprefix("server.web.") for each in found.warnings}
    assert warned == {"hold.release_batch", "hold.release_ms", "cache.warm_sla"}


def test_a_removed_key_of_a_driver_is_ignored_with_a_warning() -> None:
    for gone, where in (
        ("[server.wake]\nto_all = false\n", "server.web.wake.to_all"),
        ("[[server.wake]]\n[[server.wake]]\nto_all = 3\n", "server.web.wake.2.to_all"),
        ("[[server.rung]]\nto_all = true\n", "server.web.rung.1.to_all"),
        ('[server.sleep]\ndriver = "agent"\nanswer_s = 5\n', "server.web.sleep.answer_s"),
        (
            '[server.sleep]\ndriver = "ssh"\nconnect_timeout_s = 9\n',
            "server.web.sleep.connect_timeout_s",
        ),
        ("[server.rung]\nconnect_timeout_s = 9\n", "server.web.rung.connect_timeout_s"),
        ('[[meter]]\nid = "m"\nof = "web"\ntimeout_s = 9\n', "meter.m.timeout_s"),
        ('[server.policy]\nname = "thesis"\nthreshold_s = 5\n', "server.web.policy.threshold_s"),
        ('[[meter]]\nid = "m"\nof = "web"\nhighest_w = 9\n', "meter.m.highest_w"),
        ("[box]\nheartbeat_s = 0.1\n", "box.heartbeat_s"),
        ("[box]\nlearn_robots = false\n", "box.learn_robots"),
        ('[fleet]\ntenant = "ACME"\n', "fleet.tenant"),
        ("wake_expect_s = 'soon'\n", "server.web.wake_expect_s"),
        ("[server.awake]\nleast_s = 60\n", "server.web.awake.least_s"),
        ("[server.ready]\nstatus = [200]\n", "server.web.ready.status"),
        ("[[server.wake]]\nattempts = 9\n", "server.web.wake.1.attempts"),
        ('[server.sleep]\ndriver = "ssh"\nexpect_s = 9\n', "server.web.sleep.expect_s"),
        ('[[certificate]]\nid = "main"\nkind = "rsa"\n', "certificate.main.kind"),
    ):
        found = config.look(LEAST + gone)
        line = next(each for each in gone.splitlines() if where.rpartition(".")[2] in each)
        newer = gone.replace(f"{line}\n", "")
        assert found.config == config.parse(LEAST + newer), gone
        said = {each.where: str(each.reason) for each in found.warnings}
        assert said[where] == "has no effect any more", gone


def test_several_old_keys_are_read_as_the_one_that_replaced_them() -> None:
    proxmox = f'driver = "proxmox"\nhost = "h"\nfingerprint = "{"ab" * 32}"\n'
    login = 'password_file = "/etc/naproxy/token"\n'
    meter = '[[meter]]\nid = "m"\nof = "web"\n'
    own = '[[server.wake]]\ndriver = "command"\n'
    for older, newer, warned in (
        (
            f'[server.sleep]\n{proxmox}token_file = "/etc/naproxy/token"\n'
            "node = 'pve'\nvmid = 7000\n"
            f"[[server.wake]]\n{proxmox}{login}node = 'b'\nvmid = 100\nkind = 'lxc'\n",
            f'[server.sleep]\n{proxmox}{login}machine = "pve/qemu/7000"\n'
            f'[[server.wake]]\n{proxmox}{login}machine = "b/lxc/100"\n',
            {"token_file", "node", "vmid", "kind"},
        ),
        (
            '[server.policy]\nname = "schedule"\ndays = ["mon", "sat"]\ncloses = "24:00"\n',
            '[server.policy]\nname = "schedule"\nhours = ["mon,sat 07:00-24:00"]\n',
            {"days", "closes"},
        ),
        (
            '[server.policy]\nname = "schedule"\nopens = "08:00"\ncloses = "08:00"\n',
            '[server.policy]\nname = "schedule"\nhours = []\n',
            {"opens", "closes"},
        ),
        (f'{meter}via = "i2c"\nbus = 7\n', f'{meter}device = "/dev/i2c-7"\n', {"via", "bus"}),
        (
            f'{meter}via = "hwmon"\nhwmon_dir = "/sys/class/hwmon/hwmon3"\n',
            f'{meter}device = "/sys/class/hwmon/hwmon3"\n',
            {"via", "hwmon_dir"},
        ),
        (
            f'{meter}via = "usb"\ndevice = "/dev/ttyACM7"\n',
            f'{meter}device = "/dev/ttyACM7"\n',
            {"via"},
        ),
        (
            f'{own}program = "on"\narguments = ["a b", "$(id)", "-x"]\n',
            f"{own}program = \"on 'a b' '$(id)' -x\"\n",
            {"arguments"},
        ),
        (
            f'{meter}driver = "nut"\nups = "a@b"\nvariable = "ups.load"\n',
            f'{meter}driver = "nut"\nhost = "a@b"\nsource = "ups.load"\n',
            {"ups", "variable"},
        ),
    ):
        found = config.look(LEAST + older)
        assert found.config == config.parse(LEAST + newer), older
        assert {each.where.rpartition(".")[2] for each in found.warnings} == warned, older
        assert config.look(LEAST + newer).warnings == []
        written = edit(
            (LEAST + older).encode(), [Change("set", "box.notice", "Hi")], frozenset()
        ).decode()
        assert config.look(written).warnings == [], written
        assert config.parse(written).server == config.parse(LEAST + newer).server, written


def test_nonsense_in_replaced_keys_is_rejected_without_a_crash() -> None:
    for older, where in (
        ("[server.policy]\nname = 'schedule'\ndays = 3\n", "server.web.policy.hours[0]"),
        ("[server.sleep]\ndriver = 'proxmox'\nnode = [1]\n", "server.web.sleep.machine"),
        ("[[server.wake]]\ndriver = 'command'\narguments = 3\n", "server.web.wake.1.program"),
        ("[[meter]]\nid = 'm'\nof = 'web'\nvia = 'hwmon'\nhwmon_dir = 3\n", "meter.m.device"),
    ):
        assert where in problems(LEAST + older), older


IPMI = 'driver = "ipmi"\nhost = "192.0.2.9"\nuser = "box"\npassword_file = "/etc/naproxy/bmc"\n'


def test_an_older_table_and_its_further_ways_to_wake_are_read_as_one_list() -> None:
    udp = 'driver = "udp"\nports = [7]\n'
    for older, newer, warned in (
        ("[server.wake]\n", "[[server.wake]]\n", {"wake"}),
        (f"[server.wake]\n{IPMI}", f"[[server.wake]]\n{IPMI}", {"wake"}),
        (
            f"[server.wake]\n{IPMI}[[server.rung]]\n{udp}[[server.rung]]\n",
            f"[[server.wake]]\n{IPMI}[[server.wake]]\n{udp}[[server.wake]]\n",
            {"wake", "rung"},
        ),
        # Without the table the first way was etherwake.
        (f"[[server.rung]]\n{udp}", f"[[server.wake]]\n[[server.wake]]\n{udp}", {"rung"}),
        (f"[server.rung]\n{udp}", f"[[server.wake]]\n[[server.wake]]\n{udp}", {"rung"}),
        # Somebody changed one of both only.
        (
            f"[[server.wake]]\n{IPMI}[[server.rung]]\n{udp}",
            f"[[server.wake]]\n{IPMI}[[server.wake]]\n{udp}",
            {"rung"},
        ),
        (f"wake = []\n[[server.rung]]\n{udp}", f"[[server.wake]]\n{udp}", {"rung"}),
    ):
        found = config.look(LEAST + older)
        assert found.config == config.parse(LEAST + newer), older
        assert {each.where.removeprefix("server.web.") for each in found.warnings} == warned, older
        assert all("[[server.wake]]" in str(each.reason) for each in found.warnings), older
        assert config.look(LEAST + newer).warnings == []


def test_keys_of_an_older_table_that_are_the_servers_now_are_read_there() -> None:
    older = '[server.wake]\nspacing_s = 2\nexpect_s = 9\ninterface = "eth7"\n'
    found = config.look(f"{LEAST}{older}direct = false\ndirect_port = 7\n")
    newer = 'interface = "eth7"\n[[server.wake]]\nspacing_s = 2\n'
    assert found.config == config.parse(LEAST + newer)
    said = {each.where.removeprefix("server.web."): str(each.reason) for each in found.warnings}
    assert said == {
        "wake": "is a list now: write [[server.wake]]",
        "wake.expect_s": "has no effect any more",
        "wake.interface": "is called server.interface now",
        "wake.direct": "has no effect any more",
        "wake.direct_port": "has no effect any more",
    }
    # What is given at the new place holds.
    both = config.parse(f'{LEAST}interface = "eth1"\n{older}').server[0]
    assert both.interface == "eth1"


def test_an_older_broadcast_address_is_another_way_to_wake() -> None:
    def udp(text: str) -> list[str]:
        server = config.parse(f"{LEAST}[server.wake]\n{text}").server[0]
        return [way.address for way in server.wake if way.driver == "udp"]

    to = 'broadcast = "192.0.2.255"\n'
    assert udp(to) == ["192.0.2.255"]
    assert udp(f'driver = "udp"\naddress = "192.0.2.255"\n{to}') == ["192.0.2.255"]
    assert udp(f"{to}[[server.rung]]\ndriver = 'udp'\n") == ["", "192.0.2.255"]
    assert udp('broadcast = ""\n') == []
    whole = f"{LEAST}[server.wake]\n{to}" + "[[server.rung]]\n" * 7
    assert len(config.parse(whole).server[0].wake) == 9
    for wrong in ('"ff02::1"', '"here"', "3"):
        found = problems(f"{LEAST}[server.wake]\nbroadcast = {wrong}\n")
        assert set(found) == {"server.web.wake.2.address"}, wrong


def test_an_older_packet_to_another_subnet_keeps_its_interface() -> None:
    text = f'{LEAST}[server.wake]\ndriver = "udp"\naddress = "198.51.100.255"\ninterface = "eth7"\n'
    server = config.parse(text).server[0]
    assert (server.interface, server.wake[0].interface) == ("eth7", "eth7")


def test_nonsense_in_an_older_table_is_refused_and_never_a_crash() -> None:
    for line, where in (
        ("interface = 3", "interface"),
        ("nonsense = 1", "wake.1.nonsense"),
    ):
        assert set(problems(f"{LEAST}[server.wake]\n{line}\n")) == {f"server.web.{where}"}, line
    for servers in ("server = [3]", "server = 3", "[server]\nwake = {}", "server = [{wake = {}}]"):
        assert problems(servers), servers


def test_older_limits_of_visitors_are_read_and_none_stays_none() -> None:
    for line, cost in (("awake_s = 0", 0.0), ("awake_s = 600\nwakes = 3", 0.1)):
        found = config.look(f"{LEAST}[server.share]\n{line}\n")
        assert found.config.server[0].share.strangers_cost == cost, line
        assert {each.reason.code for each in found.warnings} == {"config.now_gone"}, line


def test_invalid_installation_keys_of_an_older_file_are_rejected() -> None:
    for line in ('run_dir = "run"', 'platform = "ours"', "realtime = 1"):
        assert f"box.{line.split()[0]}" in problems(f"[box]\n{line}\n")


# Replacing


def test_every_key_says_what_it_is() -> None:
    assert [k.path for k in ALL_KEYS if not k.help] == []


def test_every_number_with_a_dimension_says_its_unit() -> None:
    bare = {"port", "fraction", "most_cycles", "strangers_cost"}
    bare |= {"line", "shunt_uohm"}
    bare |= {"channel", "price_per_kwh", "co2_g_per_kwh", "to_server_port"}
    bare |= {"co2_by_hour", "smtp_port"}
    names = {k.path.rpartition(".")[2] for k in NUMBERS if not k.unit}
    assert names - bare == set()


def test_every_default_is_good() -> None:
    for key in ALL_KEYS:
        if not key.required:
            default = list(key.default) if isinstance(key.default, tuple) else key.default
            assert problems_with(key, default) == {}, key


def test_the_reference_has_every_key() -> None:
    written = REFERENCE.read_text()
    assert "\n".join(schema.markdown(config.Config)) in written, (
        "run: naproxy config keys --markdown, and put it into docs/configuration.md"
    )


def test_the_list_for_the_web_interface_has_every_key() -> None:
    assert LIST.read_text() == f"{describe.as_json()}\n", (
        "run: naproxy config keys --json >package/naproxy/src/naproxy/keys.json"
    )


def test_a_file_that_is_not_there_is_a_box_that_is_not_set_up_yet(
    tmp_path: Path, said: list[str]
) -> None:
    assert config.read_or_new(tmp_path / "none.toml").config.server == ()
    assert "not set up yet" in said[0]


def test_a_new_file_is_for_its_owner_only_and_another_keeps_its_mode(tmp_path: Path) -> None:
    """Passwords may be in it."""
    file = tmp_path / "etc" / "naproxy.toml"
    config.replace(file, LEAST.encode())
    assert file.read_text() == LEAST
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o640)
    config.replace(file, b'[mqtt]\npassword = "x"\n')
    assert file.stat().st_mode & 0o777 == 0o640
    assert [each.name for each in file.parent.iterdir()] == ["naproxy.toml"]


def test_a_mac_address_is_read_in_all_forms_that_people_write() -> None:
    for typed in ("00-11-22-33-44-5f", "0011.2233.445F", "00:11:22:33:44:5f", "00112233445f"):
        found = config.parse(LEAST.replace("02:00:00:00:00:01", typed)).server[0]
        assert found.mac.lower() == "00:11:22:33:44:5f", typed


def test_a_problem_has_what_was_given_unless_it_is_secret() -> None:
    with pytest.raises(schema.ConfigError) as error:
        config.parse("[box]\nproxy_w = -7\n[mqtt]\nport = 0\npassword = 7\nhost = 8\n")
    given = {each.where: each.given for each in error.value.problems}
    assert given == {
        "box.proxy_w": -7.0,
        "mqtt.port": 0,
        "mqtt.password": None,
        "mqtt.host": 8,
    }
    assert "box.proxy_w: must be 0 to 10000 (given: -7.0)" in str(error.value)


def several(*servers: str) -> str:
    """Return servers with these ids, and what else is said of them after a space."""
    text = ""
    for number, server in enumerate(servers, 1):
        name, _, more = server.partition(" ")
        text += f'[[server]]\nid = "{name}"\naddress = "192.0.2.{number}"\n'
        text += f'mac = "02:00:00:00:00:0{number}"\n{more}\n'
    return text


def guest(name: str, host: str, state: str = "ram") -> str:
    """Return a virtual machine of libvirt on a host."""
    way = f'driver = "libvirt"\nhost = "{host}"\nmachine = "{name}"\nuser = "root"\n'
    sleep = f'[server.sleep]\n{way}key_file = "/etc/naproxy/ssh/id"\nstate = "{state}"\n'
    return f'{name} {sleep}[[server.wake]]\n{way}key_file = "/etc/naproxy/ssh/id"\n'


def needs(text: str) -> dict[str, tuple[str, ...]]:
    servers = config.parse(text).server
    return {each.id: config.needs_of(each, servers) for each in servers}


def test_a_chain_of_needs_is_good() -> None:
    chain = several('a needs = ["b"]', 'b needs = ["c"]', "c")
    assert needs(chain) == {"a": ("b",), "b": ("c",), "c": ()}
    assert needs(several('a needs = ["c", "b"]', 'b needs = ["c"]', "c"))["a"] == ("c", "b")


@pytest.mark.parametrize(
    ("servers", "wrong"),
    [
        (['a needs = ["a"]'], {"a.needs": "a server cannot need itself"}),
        (
            ['a needs = ["b"]', 'b needs = ["a"]'],
            {"a.needs": "cannot wake: a, b, a.", "b.needs": "cannot wake: b, a, b."},
        ),
        (
            ['a needs = ["b"]', 'b needs = ["c"]', 'c needs = ["b"]'],
            {"b.needs": "cannot wake: b, c, b.", "c.needs": "cannot wake: c, b, c."},
        ),
        (['web needs = ["nas"]', "disk"], {"web.needs": "the server web needs nas, but no server"}),
        (['a needs = ["B"]', "b"], {"a.needs[0]": "a to z"}),
    ],
)
def test_needs_that_cannot_be_met_are_refused(servers: list[str], wrong: dict[str, str]) -> None:
    found = problems(several(*servers))
    assert set(found) == {f"server.{where}" for where in wrong}
    for where, words in wrong.items():
        assert words in found[f"server.{where}"]


@pytest.mark.parametrize("change", [("remove", "server.nas"), ("set", "server.nas.id")])
def test_a_server_that_others_need_is_neither_removed_nor_renamed(change: tuple[str, str]) -> None:
    op, where = change
    text = several('web needs = ["nas"]', "nas").encode()
    edited = edit(text, [Change(op, where, None if op == "remove" else "nas2")])
    assert problems(edited)["server.web.needs"].startswith("the server web needs nas")


@pytest.mark.parametrize("host", ["192.0.2.2", "pve", "pve.example.org"])
def test_a_virtual_machine_needs_its_host_unsaid(host: str) -> None:
    servers = (guest("web", host), 'pve hosts = ["pve.example.org"]')
    assert needs(several(*servers)) == {"web": ("pve",), "pve": ()}
    assert needs(several(guest("web", "192.0.2.99"), "pve")) == {"web": (), "pve": ()}


def test_a_host_that_needs_its_guest_is_refused() -> None:
    found = problems(several(guest("web", "192.0.2.2"), 'pve needs = ["web"]'))
    assert "pve, web, pve" in found["server.pve.needs"]


@pytest.mark.parametrize("state", ["ram", "disk", "off"])
def test_a_guest_in_the_memory_of_a_host_that_is_switched_off_is_refused(state: str) -> None:
    off = 'pve [server.sleep]\ndriver = "ssh"\nuser = "box"\nstate = "off"\n'
    text = several(guest("web", "192.0.2.2", state), off)
    if state == "ram":
        assert "would be lost" in problems(text)["server.web.sleep.state"]
    else:
        assert needs(text)["web"] == ("pve",)
