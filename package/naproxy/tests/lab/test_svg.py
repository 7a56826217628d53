import math
import re
from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st
from naproxy.lab.svg import Bars, Line, bar_chart, line_chart

SVG = "{http://www.w3.org/2000/svg}"


def rects(svg: str) -> list[ET.Element]:
    return [rect for rect in ET.fromstring(svg).iter(f"{SVG}rect") if rect.get("height") != "400"]


def texts(svg: str) -> list[str]:
    return ["".join(text.itertext()) for text in ET.fromstring(svg).iter(f"{SVG}text")]


def test_title_and_description_name_the_picture() -> None:
    root = ET.fromstring(
        bar_chart("Energy", "Less is better.", ["a"], [Bars("x", [1])], y_label="J")
    )
    named = {e.get("id"): e.text for e in root.iter() if e.get("id")}
    assert [named[i] for i in str(root.get("aria-labelledby")).split()] == [
        "Energy",
        "Less is better.",
    ]


def test_text_from_outside_cannot_become_markup() -> None:
    evil = "<script>alert(1)</script>\"'&"
    svg = bar_chart(evil, evil, [evil], [Bars(evil, [1]), Bars(evil, [2])], y_label=evil)
    assert not list(ET.fromstring(svg).iter(f"{SVG}script"))
    assert evil in texts(svg)


def test_bars_are_as_high_as_their_values() -> None:
    svg = bar_chart("t", "d", ["a", "b", "c"], [Bars("x", [1, 2, 4])], y_label="y")
    heights = [float(rect.get("height", "nan")) for rect in rects(svg)]
    assert math.isclose(heights[1] * 2, heights[2], abs_tol=0.2)
    assert math.isclose(heights[0] * 4, heights[2], abs_tol=0.2)


def test_stacked_bars_stand_on_each_other() -> None:
    svg = bar_chart("t", "d", ["a"], [Bars("x", [1]), Bars("y", [3])], y_label="y", stacked=True)
    lower, upper = (r for r in rects(svg) if r.find(f"{SVG}title") is not None)
    bottom_of_upper = float(upper.get("y", "")) + float(upper.get("height", ""))
    assert math.isclose(bottom_of_upper, float(lower.get("y", "")), abs_tol=0.2)
    assert upper.get("x") == lower.get("x")


def test_labels_that_do_not_fit_side_by_side_stand_in_rows() -> None:
    names = [f"a policy's name {n}" for n in range(12)]
    svg = bar_chart("t", "d", names, [Bars("a", [1.0] * 12)], y_label="y")
    assert all(f">{name.replace(chr(39), '&#x27;')}</text>" in svg for name in names)
    assert len({re.findall(r'y="(\d+)" text-anchor="middle">a pol', svg)[n] for n in range(3)}) == 3


def test_steps_keep_their_height_until_the_next_point() -> None:
    points = [(0.0, 0.0), (1.0, 1.0)]
    path = line_chart("t", "d", [Line("a", points)], x_label="x", y_label="y", steps=True)
    assert re.search(r'd="M72\.0 344\.0H688\.0V84\.0"', path)


def test_nothing_to_draw_is_still_a_picture() -> None:
    ET.fromstring(line_chart("t", "d", [], x_label="x", y_label="y", log_x=True))
    ET.fromstring(bar_chart("t", "d", [], [], y_label="y"))
    ET.fromstring(bar_chart("t", "d", ["a"], [Bars("x", [0])], y_label="y"))


@given(st.lists(st.tuples(st.floats(0, 1e9), st.floats(0, 1e9))), st.booleans())
def test_every_point_is_within_the_picture(points: list[tuple[float, float]], log_x: bool) -> None:
    svg = line_chart("t", "d", [Line("a", points)], x_label="x", y_label="y", log_x=log_x)
    path = next(p for p in ET.fromstring(svg).iter(f"{SVG}path") if p.get("fill") == "none")
    numbers = [float(n) for n in re.findall(r"[\d.]+", path.get("d", ""))]
    assert all(72 <= x <= 704 for x in numbers[::2] if points)
    assert all(84 <= y <= 344 for y in numbers[1::2] if points)
