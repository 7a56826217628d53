"""Texts that would cost a parser more than a small box has."""

import tomllib
from pathlib import Path

import pytest
from naproxy.api.shapes import ShapeError, from_json, integer
from naproxy.box import secrets
from naproxy.config import document
from naproxy.config import edit as configedit
from naproxy.core.bounded import MOST_PARTS, json_value, toml
from naproxy.core.schema import ConfigError

EXAMPLE = Path(__file__).parents[2] / "naproxy.example.toml"
DEEP = 60_000
LONG_KEYS = (
    "a." * DEEP + "a = 1",
    "a . " * DEEP + "a = 1",
    '"".' * DEEP + "a = 1",
    "'a'.\"b\".c\t." * DEEP + "a = 1",
    "[" + "a." * DEEP + "a]",
    "[[" + "a." * DEEP + "a]]",
    "x = {" + "a." * DEEP + "a = 1}",
    'x = ["""a"""", {' + "a." * DEEP + "a = 1}]",
    "x = ['''a'''', {" + "a." * DEEP + "a = 1}]",
    'x = ["\\"", {' + "a." * DEEP + "a = 1}]",
    "x = 'it''s'\n" + "a." * DEEP + "a = 1",
    "\n".join("a." * MOST_PARTS + f"b{n} = 1" for n in range(3000)),
)
LONG_NUMBERS = (
    "1" * 5000,
    "-" + "1" * 5000,
    "1_" * 2500 + "1",
    "0x" + "f" * 5000,
    "0b" + "1" * 9000,
)


def test_toml_keys_of_many_parts_are_refused_before_they_are_parsed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def parsed(_: str) -> None:
        raise AssertionError("tomllib got it")

    monkeypatch.setattr(tomllib, "loads", parsed)
    for text in LONG_KEYS:
        for read in (
            toml,
            document.parse,
            lambda each: configedit.edit(each[:60_000].encode(), []),
            lambda each: secrets.without_secrets(each.encode(), document.Config()),
        ):
            with pytest.raises(ConfigError, match=r"more than 16 parts"):
                read(text)


def test_integers_that_nobody_means_are_refused_in_words() -> None:
    for number in LONG_NUMBERS:
        with pytest.raises(ConfigError, match=r"line 2: a word .* longer than"):
            document.parse(f"[box]\nnotice = {number}")
    for text in ("9" * 5000, "-" + "9" * 400, "1" + "0" * 21):
        assert isinstance(json_value(text), float), text
        with pytest.raises(ShapeError):
            from_json(text.encode(), integer())
    with pytest.raises(ValueError, match="brackets"):
        json_value("[" * 100_000)


SERVER = '[[server]]\nid = "a"\naddress = "192.0.2.1"\nmac = "02:00:00:00:00:01"\n'


def test_a_large_number_of_a_key_is_refused_with_its_place() -> None:
    for number in ("1" * 60, "-" + "1" * 60, "0x" + "f" * 60):
        with pytest.raises(ConfigError, match=r"most_cycles"):
            document.parse(f"{SERVER}[server.policy]\nmost_cycles = {number}")


def test_long_texts_and_versions_within_quotes_are_read() -> None:
    many = "x.y." * 90
    for text in (
        f'a = "{many}"',
        f"a = '{many}'",
        f'a = """{many}"""""',
        f"# {many}\n",
        'a = "' + "9" * 5000 + '"',
        "a.b.c = 1.5\n[a.d]\ne = 1979-05-27T07:32:00.999999Z\n",
        "\r\n".join(["a = [", "  1.0, 2.0, 3.0, # 4.0", "]"]),
    ):
        assert toml(text) == tomllib.loads(text), text


def test_the_example_is_read() -> None:
    assert toml(EXAMPLE.read_bytes()) == tomllib.loads(EXAMPLE.read_text("utf-8"))
