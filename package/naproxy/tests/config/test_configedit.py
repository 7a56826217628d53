import copy
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from naproxy.config import edit as configedit
from naproxy.config.edit import Change, ChangeError
from naproxy.core.schema import ConfigError

EXAMPLE = Path(__file__).parents[2] / "naproxy.example.toml"

TEXT = b"""# ours
[box]
interface = "eth0" # the white cable
[mqtt]
password = "hush" # do not tell

# the web server
[[server]]
id = "web"
address = "192.0.2.10"
mac = "02:00:00:00:00:01"
hosts = [
    "www.example.org", # the old name
    "example.org",
]

[server.promise]
# as voted in May
fraction = 0.01

[[server]]
id = "shop"
address = "192.0.2.11"
mac = "02:00:00:00:00:02"

[[rule]]
kind = "path"
text = "/a"
treat_as = "feed"

[[rule]] # the scanner in room 3
kind = "path"
text = "/b"
treat_as = "scanner"
"""


def edited(*changes: tuple[Any, ...], text: bytes = TEXT) -> tuple[str, dict[str, Any]]:
    secrets = frozenset({"password"})
    written = configedit.edit(text, [Change(*c) for c in changes], secrets).decode()
    return written, tomllib.loads(written)


def refused(*change: Any, text: bytes = TEXT) -> tuple[str, str]:
    with pytest.raises(ConfigError) as caught:
        configedit.edit(text, [Change(*change)])
    return caught.value.problems[0].where, str(caught.value.problems[0].reason)


def test_no_change_changes_nothing() -> None:
    assert edited()[0] == TEXT.decode()


def test_a_value_changes_and_every_other_line_stays() -> None:
    written, data = edited(("set", "server.web.promise.fraction", 0.05))
    assert data["server"][0]["promise"]["fraction"] == 0.05
    assert written == TEXT.decode().replace("0.01", "0.05")
    _, data = edited(("remove", "server.web.promise.fraction"))
    assert data["server"][0]["promise"] == {}


def test_a_comment_behind_a_value_stays_with_it() -> None:
    assert 'interface = "eth1" # the white cable' in edited(("set", "box.interface", "eth1"))[0]


def test_a_section_that_is_not_there_is_made_for_its_server() -> None:
    _, data = edited(("set", "server.web.sleep.driver", "ssh"), ("set", "office.name", "A & B"))
    assert data["server"][0]["sleep"] == {"driver": "ssh"}
    assert "sleep" not in data["server"][1]
    assert data["office"] == {"name": "A & B"}


def test_a_rule_is_added_and_another_removed() -> None:
    new = {"kind": "address", "text": "192.0.2.9", "treat_as": "monitor"}
    written, data = edited(("add", "rule", new), ("remove", "rule.1"))
    assert [rule["text"] for rule in data["rule"]] == ["/b", "192.0.2.9"]
    assert "# the scanner in room 3" in written


METER = {"id": "plug", "of": "web", "driver": "shelly", "host": "192.0.2.30"}
MAIL = {
    "id": "mail",
    "sleep": {"driver": "ssh"},
    "address": "192.0.2.12",
    "wake": [{"driver": "udp", "x": 1}],
    "mac": "02:00:00:00:00:03",
}
RULE = {"kind": "path", "text": "/b", "treat_as": "api"}
INLINE = b'rule = [{ kind = "path", text = "/a", treat_as = "feed" }]\n[box]\n'
SECRET = b'[mqtt]\ndriver = "udp"\npassword = "hush"\n'


def test_a_change_is_where_it_belongs() -> None:
    for text, change, value in (
        # To a server that has sections, to a member by its number, to lists of sections.
        (TEXT, ("set", "server.web.port", 8080), lambda data: data["server"][0]["port"]),
        (TEXT, ("set", "rule.2.text", "/c"), lambda data: data["rule"][1]["text"]),
        (TEXT, ("add", "server", MAIL), lambda data: data["server"][2]),
        (TEXT, ("add", "meter", METER), lambda data: data["meter"][0]),
        (TEXT.rstrip(), ("add", "meter", METER), lambda data: data["meter"][0]),
        (INLINE, ("add", "rule", RULE), lambda data: data["rule"][1]),
        (b"[box]", ("set", "box.notice", "x"), lambda data: data["box"]["notice"]),
        (b"", ("set", "office.language", "de"), lambda data: data["office"]["language"]),
        (TEXT, ("set", "mqtt.password", "new"), lambda data: data["mqtt"]["password"]),
        # Another driver's secret goes with it.
        (SECRET, ("set", "mqtt", {"driver": "wire"}), lambda data: data["mqtt"]),
    ):
        written, data = edited(change, text=text)
        assert value(data) == change[2], text
        assert "meter" not in data or "[[meter]]" in written, text


OLDER = TEXT.replace(b"[server.promise]", b"[server.hold]\nrelease_ms = 3\n[server.promise]")


def test_a_key_that_has_no_effect_any_more_goes_with_the_next_change() -> None:
    written, data = edited(("set", "box.notice", "Hi"), text=OLDER)
    assert data["server"][0]["hold"] == {}
    assert "# as voted in May" in written


RENAMED = TEXT.replace(b'"192.0.2.10"', b'"192.0.2.10"\nredirect_robots = false # they complained')


def test_a_key_that_got_another_name_gets_it_with_the_next_change() -> None:
    written, data = edited(("set", "box.notice", "Hi"), text=RENAMED)
    assert data["server"][0]["defer_crawlers"] is False
    assert "redirect_robots" not in written
    assert "# they complained" in written


def test_a_change_of_the_new_key_replaces_the_old_one() -> None:
    for text in (
        RENAMED,
        RENAMED.replace(b"redirect_robots", b"defer_crawlers = false\nredirect_robots"),
    ):
        written, data = edited(("set", "server.web.defer_crawlers", True), text=text)
        assert data["server"][0]["defer_crawlers"] is True, text
        assert "redirect_robots" not in written, text
        assert (
            "defer_crawlers" not in edited(("remove", "server.web.defer_crawlers"), text=text)[0]
        ), text
        assert refused("set", "server.web.redirect_robots", True, text=text) == (
            "server.web.redirect_robots",
            "is called defer_crawlers now",
        ), text


def test_a_key_that_is_an_argument_now_stays() -> None:
    older = TEXT.replace(b"[box]\n", b'[box]\nrun_dir = "/elsewhere" # a larger disk\n')
    written, data = edited(("set", "box.notice", "Hi"), text=older)
    assert data["box"]["run_dir"] == "/elsewhere"
    assert "# a larger disk" in written


def test_a_change_that_brings_an_old_key_is_refused() -> None:
    for text in (TEXT, OLDER):
        where, words = refused("set", "server.web.hold.release_ms", 7, text=text)
        assert where == "server.web.hold.release_ms", text
        assert "no effect any more" in words, text
        assert refused("set", "server.web.hold", {"release_ms": 7}, text=text) == (where, words), (
            text
        )


OLD_WAYS = b"""[[server]]
id = "web"
# our BMC
[server.wake]
driver = "udp" # since March
expect_s = 9
interface = "eth7"
password = "00:11:22:33" # do not tell
[server.hold]
limit_s = 3
[[server.rung]] # the button
driver = "gpio"
line = 3
[[server]]
id = "shop"
[[server.rung]]
driver = "udp"
[box]
notice = "Hi"
"""
NEW_WAYS = [
    {"driver": "udp", "password": "00:11:22:33"},
    {"driver": "gpio", "line": 3},
]


def test_older_ways_to_wake_become_one_list_with_the_next_change() -> None:
    written, data = edited(("set", "server.web.wake.2.line", 4), text=OLD_WAYS)
    web, shop = data["server"]
    assert web["wake"] == [NEW_WAYS[0], {"driver": "gpio", "line": 4}]
    assert (web["interface"], web["hold"]) == ("eth7", {"limit_s": 3})
    assert "wake_expect_s" not in web
    assert shop["wake"] == [{"driver": "etherwake"}, {"driver": "udp"}]
    assert "rung" not in written
    for comment in ("# our BMC", "# since March", "# do not tell", "# the button"):
        assert comment in written, comment
    assert edited(text=written.encode())[0] == written


def test_older_ways_to_wake_in_any_form_of_toml_become_one_list() -> None:
    inline = '{ driver = "udp", password = "00:11:22:33" }'
    gpio = '{ driver = "gpio", line = 3 }'
    table = '[server.wake]\ndriver = "udp"\npassword = "00:11:22:33"\n'
    for server in (
        f'[[server]]\nid = "web"\nwake = {inline}\nrung = [{gpio}]\n',
        f'[[server]]\nid = "web"\nrung = [{gpio}]\n{table}',
        f'[[server]]\nid = "web"\nwake.driver = "udp"\nwake.password = "00:11:22:33"\n'
        f"rung = [{gpio}]\n",
        f'[[server]]\nid = "web"\n{table}[[server.rung]]\ndriver = "gpio"\nline = 3\n',
        f'server = [{{ id = "web", wake = {inline}, rung = [{gpio}] }}]\n',
    ):
        _, data = edited(("set", "box.notice", "Hi"), text=server.encode())
        assert data["server"] == [{"id": "web", "wake": NEW_WAYS}], server


def test_a_change_that_brings_older_ways_to_wake_is_refused() -> None:
    for change, where in (
        (("set", "server.web.wake", {"driver": "udp"}), "server.web.wake"),
        (("add", "server.web.rung", {"driver": "udp"}), "server.web.rung"),
        (("add", "server", {"id": "mail", "wake": {"expect_s": 9}}), "server.mail.wake"),
        (("set", "server.web.wake.interface", "eth7"), "server.web.wake.interface"),
    ):
        said, words = refused(*change)
        assert said == where, change
        assert "[[server.wake]]" in words or "there is no" in words, change


def test_the_way_to_wake_that_holds_without_a_word_stays_when_its_list_changes() -> None:
    way = {"driver": "udp", "ports": [7]}
    for change, ways in (
        (("add", "server.web.wake", way), [{"driver": "etherwake"}, way]),
        (
            ("set", "server.web.wake.1.spacing_s", 5),
            [{"driver": "etherwake", "spacing_s": 5}],
        ),
        (("set", "server.web.wake.1", way), [way]),
        (("set", "server.web.wake", [way]), [way]),
    ):
        written, data = edited(change)
        assert data["server"][0]["wake"] == ways, change
        assert "[[server.wake]]" in written, change
    assert "wake" not in edited(("remove", "server.web.wake.1"))[1]["server"][0]
    assert refused("set", "server.web.wake.2.spacing_s", 5)[0] == "server.web.wake.2"
    assert refused("add", "server.nope.wake", way)[0] == "server.nope"


def test_a_password_of_a_way_to_wake_stays_with_it() -> None:
    text = OLD_WAYS.replace(b"line = 3", b'line = 3\n[[server.rung]]\ndriver = "ipmi"')
    _, data = edited(("remove", "server.web.wake.2"), text=text)
    assert data["server"][0]["wake"] == [NEW_WAYS[0], {"driver": "ipmi"}]
    whole = ("set", "server.web.wake.1", {"driver": "udp", "ports": [7]})
    assert edited(whole, text=text)[1]["server"][0]["wake"][0]["password"] == "00:11:22:33"


def test_the_last_rule_can_go() -> None:
    one_by_one = [("remove", "rule.2"), ("remove", "rule.1")]
    at_once: list[tuple[Any, ...]] = [("set", "rule", [])]
    for gone in (one_by_one, at_once):
        _, data = edited(*gone)
        assert "rule" not in data
        assert data["server"] == tomllib.loads(TEXT.decode())["server"]


def test_an_item_is_added_to_a_list() -> None:
    written, data = edited(
        ("add", "server.web.hosts", "new.example.org"),
        ("add", "server.web.awake.hours", "mon-fri 07:30-18:00"),
    )
    assert data["server"][0]["hosts"] == ["www.example.org", "example.org", "new.example.org"]
    assert data["server"][0]["awake"] == {"hours": ["mon-fri 07:30-18:00"]}
    assert "# the old name" in written


def test_a_secret_survives_a_replacement_of_its_section_that_omits_it() -> None:
    written, data = edited(("set", "mqtt", {"host": "192.0.2.5"}))
    assert data["mqtt"] == {"password": "hush", "host": "192.0.2.5"}
    assert 'password = "hush" # do not tell' in written


def test_a_replaced_section_keeps_the_comments_of_unchanged_keys() -> None:
    written, data = edited(("set", "server.web.promise", {"fraction": 0.01, "delta_s": 2.0}))
    assert "# as voted in May\nfraction = 0.01" in written
    assert data["server"][0]["promise"] == {"fraction": 0.01, "delta_s": 2.0}


def test_a_place_that_there_is_not_is_named() -> None:
    for change, where, words in (
        (("set", "server.nope.port", 1), "server.nope", "there is no server nope"),
        (("set", "rule.3.text", "/"), "rule.3", "there is no rule 3"),
        (("set", "rule.0.text", "/"), "rule.0", "there is no rule 0"),
        (("remove", "rule.99999999999999999999"), "rule.99999999999999999999", "there is no rule"),
        (("remove", "box.notice"), "box.notice", "is not in the file"),
        (("remove", "office.name"), "office", "is not in the file"),
        (("set", "box.interface.x", 1), "box.interface", "is not a section"),
        (("set", "box.interface.x.y", 1), "box.interface", "is not a section"),
        (("add", "box.interface", 1), "box.interface", "is not a list"),
        (("add", "rule.1", {}), "rule.1", "is one rule; to add one, write rule"),
        (("set", "rule.1", 7), "rule.1", "must be a section"),
        (("add", "rule", "/x"), "rule", "does not fit"),
    ):
        said_where, said = refused(*change)
        assert said_where == where, change
        assert words in said, change


def test_a_file_with_a_byte_order_mark_is_edited_and_loses_the_mark() -> None:
    changed = configedit.edit(b"\xef\xbb\xbf" + TEXT, [Change("set", "box.notice", "x")])
    assert changed == configedit.edit(TEXT, [Change("set", "box.notice", "x")])


def test_a_file_that_is_not_toml_or_too_large_to_edit_in_time_is_left_alone() -> None:
    large = b"#" * (configedit.MOST_BYTES + 1)
    not_toml = "not TOML"
    for text, words in (
        (b"\xff", not_toml),
        (b"[box", not_toml),
        (b"a = 1\na = 2\n", not_toml),
        (large, "larger than"),
    ):
        assert words in refused("set", "box.notice", "x", text=text)[1], text[:50]


def deep(levels: int) -> Any:
    return [deep(levels - 1)] if levels else 1


def test_changes_of_the_wrong_form_are_refused_and_named() -> None:
    for body, where in (
        (None, "changes"),
        ({}, "changes"),
        ([{"op": "remove", "where": "a"}] * 201, "changes"),
        (["set"], "changes[0]"),
        ([{"op": "set", "where": "a.b", "value": 1, "x": 1}], "changes[0].x"),
        ([{"op": "eval", "where": "a.b", "value": 1}], "changes[0].op"),
        ([{"op": ["set"], "where": "a.b", "value": 1}], "changes[0].op"),
        ([{"where": "a.b", "value": 1}], "changes[0].op"),
        ([{"op": "set", "value": 1}], "changes[0].where"),
        ([{"op": "set", "where": 7, "value": 1}], "changes[0].where"),
        ([{"op": "set", "where": "", "value": 1}], "changes[0].where"),
        ([{"op": "set", "where": "a..b", "value": 1}], "changes[0].where"),
        ([{"op": "set", "where": "a.b"}], "changes[0].value"),
        ([{"op": "remove", "where": "a.b", "value": 1}], "changes[0].value"),
        ([{"op": "set", "where": "a.b", "value": None}], "changes[0].value"),
        ([{"op": "set", "where": "a.b", "value": float("nan")}], "changes[0].value"),
        ([{"op": "set", "where": "a.b", "value": 1 << 64}], "changes[0].value"),
        ([{"op": "set", "where": "a.b", "value": "a\nb"}], "changes[0].value"),
        ([{"op": "set", "where": "a.b", "value": "\ud800"}], "changes[0].value"),
        ([{"op": "set", "where": "a.b", "value": {"x\ny": 1}}], "changes[0].value"),
        ([{"op": "set", "where": "a.b", "value": [{"x": [None]}]}], "changes[0].value"),
        ([{"op": "set", "where": "a.b", "value": deep(50)}], "changes[0].value"),
    ):
        with pytest.raises(ChangeError) as caught:
            configedit.read(body)
        assert caught.value.where == where, body
        assert str(caught.value), body


@pytest.mark.parametrize(
    "body",
    [
        [{"op": "set", "where": "server.web.hosts", "value": [1] * 2001}],
        [{"op": "set", "where": "rule", "value": [{"kind": "path", "text": "/"}] * 700}],
        [{"op": "add", "where": "rule", "value": {"hosts": ["a"] * 150}}] * 14,
    ],
)
def test_changes_with_more_values_than_a_configuration_has_are_refused(body: Any) -> None:
    # The library that writes them needs minutes for what fits into a request.
    with pytest.raises(ChangeError, match="too many values"):
        configedit.read(body)


KEYS = st.sampled_from(["port", "armed", "notice", "a b", "ключ", '"', "awake", "sleep"])
SCALARS = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(min_codepoint=32, exclude_categories=["Cs"], exclude_characters="\x7f")),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=5,
)
SECTIONS = ["box", "mqtt", "office", "server.web.promise", "server.shop.sleep"]
MEMBERS = ["server", "server.web", "server.1", "server.shop", "rule", "rule.1", "rule.2"]
PLACES = st.sampled_from([*SECTIONS, *MEMBERS, "server.web.hosts"])
WHERES = st.one_of(PLACES, st.tuples(PLACES, KEYS).map(".".join))
CHANGES = st.one_of(
    st.builds(Change, st.sampled_from(["set", "add"]), WHERES, VALUES),
    st.builds(Change, st.just("remove"), WHERES),
)


@given(st.lists(CHANGES, max_size=4), st.sampled_from([TEXT, EXAMPLE.read_bytes()]))
def test_after_any_change_the_file_is_as_requested_or_the_change_is_rejected(
    changes: list[Change], text: bytes
) -> None:
    changes = configedit.read([vars_of(c) for c in changes])
    expected = tomllib.loads(text.decode())
    plainly = configedit._Hand(lambda value, _: value, frozenset())
    try:
        written = configedit.edit(text, copy.deepcopy(changes))
        for change in copy.deepcopy(changes):
            configedit._apply(expected, change, plainly)
    except ConfigError:
        return
    assert tomllib.loads(written.decode()) == expected


def vars_of(change: Change) -> dict[str, Any]:
    said = {"op": change.op, "where": change.where, "value": change.value}
    if change.op == "remove":
        del said["value"]
    return said


def test_older_limits_of_visitors_are_removed_and_none_stays_none() -> None:
    text = b'[[server]]\nid = "web"\n[server.share]\nawake_s = 0\nwakes = 0\n'
    changed = configedit.edit(text, [Change("set", "box.notice", "Hi")])
    [server] = tomllib.loads(changed.decode())["server"]
    assert server["share"] == {"strangers_cost": 0.0}
