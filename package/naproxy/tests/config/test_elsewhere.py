"""No change of an address has a secret sent to whoever does not know it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from naproxy.api import configuration
from naproxy.api.calls import ApiError
from naproxy.config.edit import Change
from naproxy.config.in_force import InForce
from naproxy.config.shown import shown
from naproxy.config.worked import Worked

FILE = """
[office]
co2_url = "https://co2.example.org/v3/latest?zone=CH"
co2_key_file = "FOLDER/co2-key"
[[server]]
id = "web"
address = "192.0.2.2"
mac = "02:00:5e:10:00:02"
[server.sleep]
driver = "redfish"
host = "192.0.2.3"
fingerprint = "FINGERPRINT"
user = "box"
password_file = "FOLDER/bmc"
[[meter]]
id = "plug"
of = "web"
driver = "tasmota"
host = "192.0.2.4"
user = "admin"
password_file = "FOLDER/plug"
[notify]
mail_to = ["anna@example.org"]
smtp_host = "mail.example.org"
smtp_user = "box"
smtp_password = "hush"
ntfy = "https://ntfy.example.org/box"
ntfy_token = "hush"
webhook = "https://hooks.example.org/a"
webhook_token = "hush"
[mqtt]
host = "192.0.2.5"
password = "hush"
[fleet]
url = "https://fleet.example.org"
token = "hush"
"""


@pytest.fixture
def ours(tmp_path: Path) -> InForce:
    file = tmp_path / "naproxy.toml"
    pin = ":".join(["AB"] * 32)
    file.write_text(FILE.replace("FOLDER", str(tmp_path)).replace("FINGERPRINT", pin))
    return InForce(file, Worked(file).choose(), lambda _: None)


def change(ours: InForce, *changes: tuple[str, Any]) -> None:
    made = [Change("set", where, value) for where, value in changes]
    asyncio.run(configuration.change(ours, made, ours.version))


@pytest.mark.parametrize(
    ("where", "value", "secret"),
    [
        ("notify.smtp_host", "evil.example", "notify.smtp_password"),
        ("notify.ntfy", "https://evil.example/box", "notify.ntfy_token"),
        ("notify.ntfy", "http://ntfy.example.org/box", "notify.ntfy_token"),
        ("notify.webhook", "https://hooks.example.org@evil.example/a", "notify.webhook_token"),
        ("notify.webhook", "https://hooks.example.org\\@evil.example/a", "notify.webhook_token"),
        ("notify.webhook", "https://hooks.example.org:8443/a", "notify.webhook_token"),
        ("notify.smtp_port", 2525, "notify.smtp_password"),
        ("notify.smtp_security", "tls", "notify.smtp_password"),
        ("mqtt.host", "evil.example", "mqtt.password"),
        ("mqtt.port", 1884, "mqtt.password"),
        ("mqtt", {"host": "evil.example"}, "mqtt.password"),
        ("fleet.url", "https://evil.example", "fleet.token"),
    ],
)
def test_a_secret_is_not_sent_to_another_address_unless_it_is_given_again(
    ours: InForce, where: str, value: Any, secret: str
) -> None:
    before = ours.file.read_text()
    with pytest.raises(ApiError) as refused:
        change(ours, (where, value))
    assert refused.value.body["problems"][0]["where"] == secret
    assert refused.value.body["problems"][0]["code"] == "config.secret_again"
    assert ours.file.read_text() == before
    change(ours, (where, value), (secret, "hush"))
    assert ours.file.read_text() != before


def test_nor_by_way_of_no_address(ours: InForce) -> None:
    change(ours, ("notify.webhook", ""))
    with pytest.raises(ApiError):
        change(ours, ("notify.webhook", "https://evil.example/"))


def test_another_path_on_the_same_server_is_the_same_address(ours: InForce) -> None:
    change(ours, ("notify.webhook", "https://hooks.example.org/b"))
    change(ours, ("office.co2_url", "https://co2.example.org/v3/latest?zone=DE"))
    assert ours.current().notify.webhook.endswith("/b")
    assert ours.current().office.co2_url.endswith("DE")


def test_a_secret_that_is_forgotten_goes_nowhere(ours: InForce) -> None:
    change(ours, ("mqtt.password", ""), ("mqtt.host", "192.0.2.6"))
    change(ours, ("office.co2_url", "https://co2.example.com/"), ("office.co2_key_file", ""))
    assert (ours.current().mqtt.password, ours.current().office.co2_key_file) == ("", "")


# What is in a file: its name is no secret


def refused_with(ours: InForce, *changes: tuple[str, Any]) -> str:
    before = ours.file.read_text()
    with pytest.raises(ApiError) as refused:
        change(ours, *changes)
    (problem,) = refused.value.body["problems"]
    assert problem["where"] == "office.co2_key_file"
    assert ours.file.read_text() == before
    return str(problem["code"])


def test_a_key_in_a_file_is_not_sent_to_another_address(ours: InForce) -> None:
    same = ours.current().office.co2_key_file
    for url in (
        "https://evil.example/v3/latest?zone=CH",
        "http://co2.example.org/v3/latest?zone=CH",
        "https://co2.example.org:8443/v3/latest?zone=CH",
        "https://co2.example.org.evil.example/",
    ):
        again = (("office.co2_url", url), ("office.co2_key_file", same))
        whole = ("office", {"co2_url": url, "co2_key_file": same})
        for changes in (again[:1], again, (whole,)):
            assert refused_with(ours, *changes) == "config.secret_again", changes


def test_nor_by_way_of_none(ours: InForce) -> None:
    change(ours, ("office.co2_url", ""))
    assert refused_with(ours, ("office.co2_url", "https://evil.example/")) == "config.secret_again"


def test_it_is_sent_there_if_it_is_given_again(ours: InForce) -> None:
    url = "https://co2.example.com/"
    change(ours, ("office.co2_url", url), ("office.co2_key_file", {"secret": "hush"}))
    office = ours.current().office
    assert office.co2_url == url
    assert Path(office.co2_key_file).read_text() == "hush\n"


def test_no_other_file_may_be_named_for_it(ours: InForce, tmp_path: Path) -> None:
    """Else what is in any of the box's files could be sent anywhere."""
    other = str(tmp_path / "secrets" / "server-web-sleep-key-0123456789abcdef")
    assert refused_with(ours, ("office.co2_key_file", other)) == "config.file_itself"


# ------------------------------------------------------- of meters and ways to sleep


def refusals(ours: InForce, *changes: Change) -> list[tuple[str, str]]:
    with pytest.raises(ApiError) as refused:
        asyncio.run(configuration.change(ours, list(changes), ours.version))
    return [(each["where"], each["code"]) for each in refused.value.body["problems"]]


def meter(file: Path | str, **more: Any) -> Change:
    """Add one at a host of somebody else's choice."""
    new = {"id": "new", "of": "web", "driver": "tasmota", "host": "192.0.2.66", "user": "admin"}
    return Change("add", "meter", {**new, "password_file": str(file), **more})


AGAIN = "config.secret_again"


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("meter.plug", "host", "192.0.2.66"),
        ("meter.plug", "host", "evil.example"),
        ("meter.plug", "port", 8080),
        ("server.web.sleep", "host", "192.0.2.66"),
        ("server.web.sleep", "fingerprint", ":".join(["CD"] * 32)),
    ],
)
def test_a_password_in_a_file_is_not_sent_to_another_host(
    ours: InForce, section: str, key: str, value: Any
) -> None:
    file = f"{section}.password_file"
    assert refusals(ours, Change("set", f"{section}.{key}", value)) == [(file, AGAIN)]
    change(ours, (f"{section}.{key}", value), (file, {"secret": "hush"}))


@pytest.mark.parametrize("of", ["bmc", "co2-key", "./bmc", "/bmc", "x/../bmc"])
def test_a_file_with_another_secret_is_not_sent_to_a_new_meter(
    ours: InForce, tmp_path: Path, of: str
) -> None:
    (tmp_path / "x").mkdir()
    found = refusals(ours, meter(f"{tmp_path}/{of}"))
    assert found == [("meter.new.password_file", AGAIN)]


@pytest.mark.parametrize("forgotten", ["meter.plug.password_file", "office.co2_key_file"])
def test_nor_is_one_that_was_forgotten_first(ours: InForce, tmp_path: Path, forgotten: str) -> None:
    file = {"meter": "plug", "office": "co2-key"}[forgotten.partition(".")[0]]
    change(ours, (forgotten, ""))
    found = refusals(ours, meter(tmp_path / file))
    assert found == [("meter.new.password_file", "config.file_itself")]


def test_nor_to_the_address_of_a_new_server(ours: InForce, tmp_path: Path) -> None:
    other = {"id": "other", "address": "192.0.2.66", "mac": "02:00:5e:10:00:66"}
    bmc = meter(tmp_path / "bmc", of="other", driver="ipmi", host="")
    found = refusals(ours, Change("add", "server", other), bmc)
    assert found == [("meter.new.password_file", AGAIN)]


def test_a_meter_at_the_same_bmc_takes_the_same_file(ours: InForce, tmp_path: Path) -> None:
    pin = ours.current().server[0].sleep.fingerprint  # type: ignore[attr-defined]  # the driver's own
    same = meter(tmp_path / "bmc", driver="redfish", host="192.0.2.3", fingerprint=pin)
    asyncio.run(configuration.change(ours, [same], ours.version))


def test_a_key_that_only_signs_stays_with_another_host(ours: InForce, tmp_path: Path) -> None:
    key = tmp_path / "agent.key"
    key.write_text("ab" * 32)
    change(ours, ("server.web.sleep", {"driver": "agent", "key_file": str(key)}))
    change(ours, ("server.web.sleep.host", "192.0.2.2"))
    found = refusals(ours, meter(key))
    assert found == [("meter.new.password_file", AGAIN)]


def test_a_fix_of_a_rejected_file_sends_no_secret_elsewhere(ours: InForce) -> None:
    good = ours.file.read_text()
    Worked(ours.file).end(good.encode())
    wrong = good.replace("[mqtt]", '[mqtt]\ntopic = ""')
    ours.file.write_text(wrong)
    refused = InForce(ours.file, Worked(ours.file).choose(), lambda _: None)
    mend = configuration.handlers(refused)["config.mend"]
    text = shown(wrong.encode())
    assert text
    text = text.replace('topic = ""', 'topic = "boxes"')
    with pytest.raises(ApiError) as error:
        mend(refused.version, text.replace("192.0.2.5", "192.0.2.66"))
    assert error.value.body["problems"][0]["where"] == "mqtt.password"
    mend(refused.version, text)
    assert refused.current().mqtt.topic == "boxes"
