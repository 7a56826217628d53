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
        ("mqtt.host", "evil.example", "mqtt.password"),
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


def test_another_path_on_the_same_server_is_no_other_address(ours: InForce) -> None:
    change(ours, ("notify.webhook", "https://hooks.example.org/b"))
    assert ours.current().notify.webhook.endswith("/b")


def test_a_secret_that_is_forgotten_goes_nowhere(ours: InForce) -> None:
    change(ours, ("mqtt.password", ""), ("mqtt.host", "192.0.2.6"))
    assert ours.current().mqtt.password == ""


# What is in a file: its name is no secret


def refused_with(ours: InForce, *changes: tuple[str, Any]) -> str:
    before = ours.file.read_text()
    with pytest.raises(ApiError) as refused:
        change(ours, *changes)
    (problem,) = refused.value.body["problems"]
    assert problem["where"] == "office.co2_key_file"
    assert ours.file.read_text() == before
    return str(problem["code"])


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example/v3/latest?zone=CH",
        "http://co2.example.org/v3/latest?zone=CH",
        "https://co2.example.org:8443/v3/latest?zone=CH",
        "https://co2.example.org.evil.example/",
    ],
)
def test_a_key_in_a_file_is_not_sent_to_another_address(ours: InForce, url: str) -> None:
    same = ours.current().office.co2_key_file
    assert refused_with(ours, ("office.co2_url", url)) == "config.secret_again"
    again = (("office.co2_url", url), ("office.co2_key_file", same))
    assert refused_with(ours, *again) == "config.secret_again"
    whole = {"co2_url": url, "co2_key_file": same}
    assert refused_with(ours, ("office", whole)) == "config.secret_again"


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
    assert refused_with(ours, ("office.co2_key_file", other)) == "config.key_itself"


def test_another_path_on_the_same_server_needs_no_key_again(ours: InForce) -> None:
    change(ours, ("office.co2_url", "https://co2.example.org/v3/latest?zone=DE"))
    assert ours.current().office.co2_url.endswith("DE")


def test_it_can_be_removed(ours: InForce) -> None:
    url = "https://co2.example.com/"
    change(ours, ("office.co2_url", url), ("office.co2_key_file", ""))
    assert ours.current().office.co2_key_file == ""


# ------------------------------------------------------- of meters and ways to sleep


def refusals(ours: InForce, *changes: tuple[str, Any]) -> list[tuple[str, str]]:
    with pytest.raises(ApiError) as refused:
        change(ours, *changes)
    return [(each["where"], each["code"]) for each in refused.value.body["problems"]]


@pytest.mark.parametrize(
    ("section", "host"),
    [
        ("meter.plug", "192.0.2.66"),
        ("meter.plug", "evil.example"),
        ("server.web.sleep", "192.0.2.66"),
    ],
)
def test_a_password_in_a_file_is_not_sent_to_another_host(
    ours: InForce, section: str, host: str
) -> None:
    key = f"{section}.password_file"
    assert refusals(ours, (f"{section}.host", host)) == [(key, "config.secret_again")]
    change(ours, (f"{section}.host", host), (key, {"secret": "hush"}))


def test_nor_to_another_port_of_it(ours: InForce) -> None:
    again = [("meter.plug.password_file", "config.secret_again")]
    assert refusals(ours, ("meter.plug.port", 8080)) == again


@pytest.mark.parametrize("of", ["bmc", "co2-key"])
def test_a_file_with_another_secret_is_not_sent_to_a_new_meter(
    ours: InForce, tmp_path: Path, of: str
) -> None:
    new = {
        **{"id": "new", "of": "web", "driver": "tasmota", "host": "192.0.2.66", "user": "admin"},
        "password_file": str(tmp_path / of),
    }
    with pytest.raises(ApiError) as refused:
        asyncio.run(configuration.change(ours, [Change("add", "meter", new)], ours.version))
    (problem,) = refused.value.body["problems"]
    assert (problem["where"], problem["code"]) == ("meter.new.password_file", "config.secret_again")
