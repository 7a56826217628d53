"""What arrives is checked against the shapes that are declared."""

from __future__ import annotations

import pytest
from naproxy.api.shapes import (
    ShapeError,
    array,
    boolean,
    check,
    choice,
    from_text,
    integer,
    nullable,
    number,
    obj,
    string,
)

PERSON = obj(
    {
        "name": string(minLength=1, maxLength=5),
        "age": integer(minimum=0, maximum=150),
        "role": nullable(choice("a", "b")),
        "tags": array(string(pattern="^[a-z]+$"), maxItems=2),
    },
    optional=("role", "tags"),
)


def test_a_valid_value_is_accepted() -> None:
    check({"name": "x", "age": 0}, PERSON)
    check({"name": "éö", "age": 150, "role": None, "tags": ["a"]}, PERSON)
    check(1.5, number())
    check(3, number())


def test_an_invalid_value_is_reported_with_its_place(subtests: pytest.Subtests) -> None:
    for value, where in (
        ([], ""),
        (None, ""),
        ({}, "name"),
        ({"name": "", "age": 1}, "name"),
        ({"name": "toolong", "age": 1}, "name"),
        ({"name": 1, "age": 1}, "name"),
        ({"name": "x", "age": True}, "age"),
        ({"name": "x", "age": -1}, "age"),
        ({"name": "x", "age": 10**400}, "age"),
        ({"name": "x", "age": 1, "role": "c"}, "role"),
        ({"name": "x", "age": 1, "role": ["a"]}, "role"),
        ({"name": "x", "age": 1, "tags": ["a", "b", "c"]}, "tags"),
        ({"name": "x", "age": 1, "tags": ["a", "B"]}, "tags.1"),
        ({"name": "x", "age": 1, "more": 1}, "more"),
        ({"name": "\ud800", "age": 1}, "name"),
    ):
        with subtests.test(value=value), pytest.raises(ShapeError) as refused:
            check(value, PERSON)
        assert refused.value.where == (where or None), value
        assert str(refused.value), value


def test_a_number_is_finite(subtests: pytest.Subtests) -> None:
    for value in (float("nan"), float("inf"), float("-inf")):
        with subtests.test(value=value), pytest.raises(ShapeError):
            check(value, number())


def test_a_name_of_any_length_is_cut_where_it_is_repeated() -> None:
    with pytest.raises(ShapeError) as refused:
        check({"name": "x", "age": 1, "y" * 5000: 1}, PERSON)
    assert len(refused.value.where or "") == 100


def test_a_query_is_read_as_its_shape_says() -> None:
    for text, shape, value in (
        ("7", integer(), 7),
        ("-7", integer(), -7),
        ("1.5", number(), 1.5),
        ("1e3", number(), 1000.0),
        ("true", boolean(), True),
        ("a", choice("a"), "a"),
        ("", string(), ""),
    ):
        assert from_text(text, shape, "x") == value, text


def test_a_query_that_is_not_of_its_shape_is_refused(subtests: pytest.Subtests) -> None:
    for text, shape in (
        *((text, integer()) for text in ("", "1.5", "x", "1_000", " 1", "٣", "9" * 19, "0x10")),
        *((text, number()) for text in ("nan", "inf", "1e999", "1,5", "", "--1", "1_0.0")),
        *((text, boolean()) for text in ("True", "1", "yes", "")),
        ("b", choice("a")),
        ("x\x00", choice("x")),
    ):
        with subtests.test(text=text), pytest.raises(ShapeError) as refused:
            from_text(text, shape, "field")
        assert refused.value.where == "field", text
