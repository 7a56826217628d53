import csv
import io
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from history_box import START_S, Box, asks, event
from naproxy.api import measures
from naproxy.cli import __main__ as cli
from naproxy.core.reason import Reason, own_words
from naproxy.core.request import WakeRequest
from naproxy.core.state import State
from naproxy.history.tables import FILE

Printed = pytest.CaptureFixture[str]

HOSTILE = ("", "a;", 'a;"', "a,", "a\t", "\t", "a; ", "a|", "a:", "a ;;", "a^", "a~", '"', "';")
HOST = 'a, "b"\nc'
IDLE = Reason("policy.idle", idle_s=63)


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    made = Box(tmp_path)
    made.meter(90)
    made.journal.transition("web", State.AWAKE, State.ASLEEP, IDLE)
    wake_request = WakeRequest(
        "192.0.2.1", "page", agent="=HYPERLINK(0)", host=HOST, path="/é", klass="person"
    )
    made.journal.wake_opened("web", wake_request)
    made.journal.decision("web", made.house_s, False, own_words("=1+1"))
    made.history.request("web", event(made))
    asks(made)
    made.history.flush()
    yield made
    made.stop()


def export(box: Box, capsys: Printed, *arguments: str) -> str:
    where = ("--data-dir", str(box.directory), "--from", "2023-11-14", "--to", "2023-11-16")
    assert cli.main(["export", *arguments, *where]) == 0
    return capsys.readouterr().out


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_power_is_in_watts_and_joules(box: Box, capsys: Printed) -> None:
    [first, second] = table(export(box, capsys, "power"))
    assert (first["t_s"], first["meter"], first["length_s"]) == (str(START_S), "web", "60")
    assert (first["mean_w"], first["min_w"], first["max_w"]) == ("43.0", "42.6", "43.4")
    assert (second["energy_j"], second["covered_s"]) == ("1290.0", "30.0")


def test_seconds_are_exported_too(box: Box, capsys: Printed) -> None:
    rows = table(export(box, capsys, "power", "web", "--tier", "seconds"))
    assert [int(r["t_s"]) for r in rows] == list(range(START_S, START_S + 90))


def test_json_has_the_same_names(box: Box, capsys: Printed) -> None:
    for what in ("power", "energy", "transitions", "wakes", "traffic", "agents"):
        rows = table(export(box, capsys, what, "--csv"))
        lines = export(box, capsys, what, "--json").splitlines()
        assert [list(json.loads(line)) for line in lines] == [list(row) for row in rows]
        assert len(rows) > 0


def test_commas_quotes_and_lines_survive(box: Box, capsys: Printed) -> None:
    [wake] = table(export(box, capsys, "wakes"))
    assert wake["host"] == HOST


def test_reasons_are_told_in_english(box: Box, capsys: Printed) -> None:
    [row] = table(export(box, capsys, "transitions"))
    assert row["reason"] == "Nobody had needed it for 63 s."
    assert json.loads(export(box, capsys, "transitions", "--json"))["reason"] == row["reason"]
    assert table(export(box, capsys, "wakes"))[0]["reason"] == "page"


def test_a_sentence_of_an_older_naproxy_stays(box: Box, capsys: Printed) -> None:
    with sqlite3.connect(box.directory / FILE) as older:
        older.execute("UPDATE transitions SET reason = 'idle, \"really\"'")
    older.close()
    [row] = table(export(box, capsys, "transitions"))
    assert row["reason"] == 'idle, "really"'


def test_a_visitors_text_never_becomes_a_formula(box: Box, capsys: Printed) -> None:
    assert table(export(box, capsys, "wakes"))[0]["agent"] == "'=HYPERLINK(0)"
    assert json.loads(export(box, capsys, "wakes", "--json"))["agent"] == "=HYPERLINK(0)"
    assert table(export(box, capsys, "decisions"))[0]["reason"] == "'=1+1"


def test_no_cell_begins_a_formula_whatever_separates_the_cells(box: Box, capsys: Printed) -> None:
    texts = [before + sign + "1+cmd" for before in HOSTILE for sign in "=+-@\uff1d\uff20"]
    for text in texts:
        wake = WakeRequest("192.0.2.1", "page", agent=text, host="a", path=f"/{text}")
        box.journal.wake_opened("web", wake)
    box.history.flush()
    for line in export(box, capsys, "wakes").splitlines():
        for separator in ";,\t|: ^~":
            for quotes in (csv.QUOTE_MINIMAL, csv.QUOTE_NONE):
                [cells] = csv.reader([line], delimiter=separator, quoting=quotes)
                wrong = [c for c in cells if c.strip(' "')[:1] in tuple("=+-@\uff1d\uff20")]
                assert wrong == [], (separator, line)


def test_a_slip_is_said(box: Box, capsys: Printed) -> None:
    for arguments, words in (
        (["power", "nope"], "there is no meter nope; there is web"),
        (["power", "--from", "1h", "--to", "2h"], "--from must be before --to"),
        (["traffic", "--tier", "seconds"], "not by seconds"),
    ):
        assert cli.main(["export", *arguments, "--data-dir", str(box.directory)]) == 1, arguments
        assert words in capsys.readouterr().err, arguments


def test_a_missing_history_is_said(tmp_path: Path, capsys: Printed) -> None:
    assert cli.main(["export", "power", "--data-dir", str(tmp_path)]) == 1
    assert FILE in capsys.readouterr().err
    assert not (tmp_path / FILE).exists()


def status(**changes: Any) -> dict[str, Any]:
    return {
        "box": {
            "version": "1.2.3",
            "settings_refused": None,
            "started_s": 1.5,
            "events_lost": 0,
            "history_error": None,
            "energy_j": {"web": 4.25},
            "edge": {
                "wanted": True,
                "problem": None,
                "certificates": [{"id": "main", "not_after_s": 1.8e9}],
            },
        },
        "servers": [],
        "meters": [{"id": "web", "of": "web", "power_w": 43.3, "estimated": False}],
    } | changes


def test_metrics_are_prometheus_text() -> None:
    text = measures.prometheus(status())
    assert "# TYPE naproxy_power_watts gauge\n" in text
    assert 'naproxy_power_watts{meter="web",of="web",estimated="false"} 43.3\n' in text
    assert 'naproxy_energy_joules_total{meter="web"} 4.25\n' in text
    assert 'naproxy_build_info{version="1.2.3"} 1.0\n' in text
    assert text.endswith("\n")


def test_a_silent_meter_has_no_power_instead_of_none() -> None:
    silent = [{"id": "web", "of": "web", "power_w": None, "estimated": False}]
    assert "naproxy_power_watts" not in measures.prometheus(status(meters=silent))


def test_a_label_cannot_break_out_of_its_quotes() -> None:
    evil = 'a"} 1\nnaproxy_evil{x="\\'
    text = measures.prometheus(status(box={**status()["box"], "energy_j": {evil: 1.0}}))
    assert [line for line in text.splitlines() if "evil" in line] == [
        r'naproxy_energy_joules_total{meter="a\"} 1\nnaproxy_evil{x=\"\\"} 1.0'
    ]


def test_robots_are_exported_by_name_and_day(box: Box, capsys: Printed) -> None:
    [row, _] = table(export(box, capsys, "agents"))
    assert (row["day"], row["agent"], row["class"]) == ("2023-11-14", "Googlebot", "crawler")
    assert (row["outcome"], row["requests"]) == ("refused", "1")


def test_hours_of_carbon_dioxide_are_exported(box: Box, capsys: Printed) -> None:
    box.history.carbon(118.5)
    box.history.flush()
    [row] = table(export(box, capsys, "co2"))
    assert (row["t_s"], row["co2_g_per_kwh"]) == (str(START_S // 3600 * 3600), "118.5")
    assert row["readings"] == "1"
