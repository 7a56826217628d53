"""The report of `naproxy estimate --html`: the figures of the thesis' chapter 4 for any log.

`chapter4` has those that the thesis has, by its numbers. The others are ours and have none:
requests over the days, how much of the time lies in gaps of which length, saving against delays for
all policies. Each one is data first, then SVG.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from typing import Any, NamedTuple

from naproxy.core.energy import Power
from naproxy.core.reason import plain
from naproxy.core.state import Klass
from naproxy.lab.estimate import chapter4, choices
from naproxy.lab.estimate.boxcache import BOX
from naproxy.lab.estimate.chapter4 import Chapter4, rounded
from naproxy.lab.estimate.lineup import COLUMNS, OURS, Compared, Row, Server
from naproxy.lab.estimate.traffic import Traffic
from naproxy.lab.estimate.verdict import advice, judge
from naproxy.lab.svg import Bars, Line, bar_chart, line_chart, own_ids

_PEOPLE = (Klass.PERSON, Klass.API)
_HOUR_S, _DAY_S = 3600, 86400
_PER_DECADE = 10  # points of a curve over gap lengths


@dataclass(slots=True)
class Data:
    """The data of the figures; gaps are between requests of people and programs."""

    people: Counter[int] = field(default_factory=Counter)  # hour since the epoch -> requests
    robots: Counter[int] = field(default_factory=Counter)
    gaps: Counter[float] = field(default_factory=Counter)  # length in s, rounded -> how many
    days: float = 0.0
    chapter4: Chapter4 = field(default_factory=Chapter4)

    def both(self) -> tuple[tuple[str, Counter[int]], tuple[str, Counter[int]]]:
        """Return the counts, each with its label."""
        return ("people", self.people), ("robots", self.robots)

    def longer(self, least_s: float) -> tuple[int, float]:
        """Return how many gaps are at least so long, and their sum in seconds."""
        chosen = [(gap_s, n) for gap_s, n in self.gaps.items() if gap_s >= least_s]
        return sum(n for _, n in chosen), sum(gap_s * n for gap_s, n in chosen)


def gather(traffic: Traffic) -> Data:
    """Go through the records once."""
    data = Data(days=traffic.span_s / _DAY_S)
    last_s: float | None = None
    for chunk in traffic:
        data.chapter4.take(chunk)
        for t_s, number in zip(chunk.t_s, chunk.klass, strict=True):
            hour = int(t_s // _HOUR_S)
            if number in _PEOPLE:
                data.people[hour] += 1
                if last_s is not None and t_s > last_s:
                    data.gaps[rounded(t_s - last_s)] += 1
                last_s = t_s
            else:
                data.robots[hour] += 1
    return data


def _summed(hours: Counter[int], key: Callable[[int], int]) -> Counter[int]:
    found: Counter[int] = Counter()
    for hour, requests in hours.items():
        found[key(hour)] += requests
    return found


def requests_a_day(data: Data) -> str:
    """Requests a day, people's and robots'."""
    counts = {name: _summed(of, lambda h: h // 24) for name, of in data.both()}
    days = sorted({day for count in counts.values() for day in count})
    first = days[0] if days else 0
    series = [
        Line(name, [(day - first, count[day]) for day in days]) for name, count in counts.items()
    ]
    return line_chart(
        "Requests a day",
        "Lines of the requests a day of people and of robots over the days of the log.",
        series,
        x_label="day of the log",
        y_label="requests",
    )


class Length(NamedTuple):
    """The gaps of at least one length: their share of all gaps and of the time, and the saving."""

    length_s: float
    count_share: float
    time_share: float
    saving: float
    """Gross, of the idealised model with this threshold: section 4.4."""


def lengths(data: Data, power: Power) -> list[Length]:
    """Return points over the length of gaps, from 1 s to 28 h."""
    count, time_s = max(1, sum(data.gaps.values())), max(1.0, data.days * _DAY_S)
    always_j = max(1.0, power.on_w * data.days * _DAY_S)
    found = []
    for n in range(5 * _PER_DECADE + 1):
        length_s = 10 ** (n / _PER_DECADE)
        gaps, sum_s = data.longer(length_s)
        saving = power.saving_j(sum_s, gaps) / always_j
        found.append(Length(length_s, gaps / count, sum_s / time_s, saving))
    return found


def time_in_gaps(over: Sequence[Length]) -> str:
    """How much of the time lies in gaps that are long enough to sleep in."""
    return line_chart(
        "Time in gaps",
        "A line of the share of all time within gaps at least as long as the axis says.",
        [Line("time in gaps at least this long", [(e.length_s, e.time_share) for e in over])],
        x_label="length of the gap in seconds",
        y_label="share of the time",
        log_x=True,
    )


def saving_and_delays(rows: Sequence[Row]) -> str:
    """Saving of each policy, gross, and the share of requests it delays."""
    shown = [row for row in rows if row["saving_gross"] > 0 or row["policy"] == OURS]
    return bar_chart(
        "Saving and delays",
        "Bars of the energy each policy saves and of the share of requests that it delays.",
        [row["policy"] for row in shown],
        [
            Bars("energy saved, gross", [max(0.0, row["saving_gross"]) for row in shown]),
            Bars("requests delayed", [row["delayed_fraction"] for row in shown]),
        ],
        y_label="share",
    )


def summary(compared: Compared, data: Data) -> dict[str, Any]:
    """Return the conclusions from a log and the data of its figures, for programs.

    `hours` has, for each hour with requests, its number since the epoch, requests of people and
    programs, and of robots. `gaps` and `idealised` have a point for each length in seconds:
    the share of gaps at least so long, the share of the time within them, and the saving with
    that threshold. `chapter_4` has the data of the thesis' figures by their numbers, and how many
    requests of robots remain among those whose User-Agent is not in table 4.1.
    """
    traffic, verdict = compared.traffic, judge(compared)
    over = lengths(data, compared.server.power)
    return {
        "log": traffic.name,
        "advice": advice(compared),
        "verdict": asdict(verdict) if verdict else None,
        "choices": [asdict(each) for each in choices.cards(compared)],
        "requests": {k.name.lower(): traffic.requests[k] for k in Klass},
        "from_s": traffic.start_s if traffic.trust.entries else None,
        "days": data.days,
        "server": _told(compared.server),
        "understood": plain(traffic.understood),
        "doubts": plain(traffic.trust.doubts()),
        "problems": plain(traffic.trust.problems()),
        "not_understood": [{"line": n, "text": text} for n, text in traffic.trust.examples],
        "rows": compared.rows_of(compared.choice.cases()[0]),
        "hours": [
            [hour, data.people[hour], data.robots[hour]]
            for hour in sorted({*data.people, *data.robots})
        ],
        "gaps": [
            {
                "length_s": each.length_s,
                "count_share": each.count_share,
                "time_share": min(1.0, each.time_share),
            }
            for each in over
        ],
        "idealised": [{"threshold_s": each.length_s, "saving": each.saving} for each in over],
        "chapter_4": chapter4.as_json(data.chapter4, traffic.span_s, compared.server.power),
    }


def _told(server: Server) -> dict[str, Any]:
    box = server.boxes[BOX]
    return {
        "power": asdict(server.power),
        "wake_s": server.wake_s,
        "sleep_s": server.sleep_s,
        "utc_offset": server.utc_offset,
        "cache": {"frozen": box.frozen, "grace_s": box.grace_s, "warm": box.warm},
    }


def section(compared: Compared, data: Data, *, number: int) -> str:
    """Return one log's part of the page, the `number`-th."""
    traffic, over = compared.traffic, lengths(data, compared.server.power)
    drawn = (
        *chapter4.figures(data.chapter4, traffic.span_s, compared.server.power),
        requests_a_day(data),
        time_in_gaps(over),
        saving_and_delays(compared.rows_of(compared.choice.cases()[0])),
    )
    problems = "".join(f"<li>{escape(str(each))}</li>" for each in traffic.trust.problems())
    read = " ".join(map(str, traffic.understood))
    people = traffic.daily(*_PEOPLE)
    return "\n".join(
        (
            f"<section><h2>{escape(traffic.name)}</h2>",
            f"<p>{escape(read)}</p>" if read else "",
            f"<p>Why this log may mislead:</p><ul>{problems}</ul>" if problems else "",
            f"<p><strong>{escape(advice(compared))}</strong></p>",
            f"<p>{sum(traffic.requests):,} requests in {data.days:.1f} days; {people:,.0f} a day"
            " by people and programs.</p>",
            _unlisted(data.chapter4.unlisted),
            _cards(choices.cards(compared)),
            _table(compared.rows),
            *(f"<figure>{own_ids(svg, f'{number}-{n}')}</figure>" for n, svg in enumerate(drawn)),
            "</section>",
        )
    )


def _unlisted(unlisted: chapter4.Unlisted) -> str:
    """Return section 4.2's count of robots that table 4.1 does not have."""
    return (
        f"<p>Robots that the thesis' table 4.1 does not have made {unlisted.robots:,} of the other"
        f" {unlisted.requests:,} requests: {unlisted.share:.1%}. The thesis found about 5 % in"
        " a sample of its own log.</p>"
    )


def _cards(cards: Sequence[choices.Card]) -> str:
    """Return who may wait, as three cards."""
    made = []
    for each in cards:
        name = choices.WORDS[each.name]
        money = "" if each.money_a_year is None else f", {each.money_a_year:+,.0f} in money"
        loss = "" if each.pays else "<br><strong>This does not pay.</strong>"
        made.append(
            f"<li{'' if each.pays else ' class=loss'}><b>{name[0].upper()}{name[1:]}</b><br>"
            f"{each.waits_a_day:,.1f} times a day a visitor waits, {each.mean_s:.1f} s on average,"
            f" usually {each.usual_s:.1f} s at most<br>"
            f"{each.asleep_h_a_day:.1f} hours asleep a day<br>"
            f"{each.kwh_a_year:+,.0f} kWh a year net{money}{loss}</li>"
        )
    return f"<ul class=cards>{''.join(made)}</ul>" if made else ""


def _table(rows: Sequence[Row]) -> str:
    names = ("policy", "cache", "counting")
    titles = ("promise", "policy", "cache", "loop", *(column.title for column in COLUMNS))
    body = []
    for row in rows:
        promised = f"{row['promise']['f']:g} over {row['promise']['delta_s']:g} s"
        figures = [column.text(row) for column in COLUMNS]
        cells = [promised, *map(escape, [*(row[name] for name in names), *figures])]
        body.append(f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    head = "".join(f"<th>{title}</th>" for title in titles)
    return f"<table><tr>{head}</tr>{''.join(body)}</table>"


_STYLE = """
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1100px; margin: 2em auto; padding: 0 1em }
table { border-collapse: collapse; display: block; overflow-x: auto }
td { font-variant-numeric: tabular-nums }
th, td { padding: .2em .6em; text-align: right; border-bottom: 1px solid #8884 }
th:nth-child(-n+4), td:nth-child(-n+4) { text-align: left }
figure { margin: 1.5em 0; max-width: 760px }
.cards { display: flex; flex-wrap: wrap; gap: 1em; padding: 0; list-style: none }
.cards li { flex: 1 15em; padding: 1em; border: 1px solid #8884; border-radius: 8px }
.cards .loss strong { color: #c62828 }
"""


def page(sections: Sequence[str]) -> str:
    """Return the whole page; it needs nothing from elsewhere."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Naproxy: estimate</title><style>{_STYLE}</style></head>\n"
        f"<body><h1>What Naproxy would save</h1>\n{''.join(sections)}</body></html>\n"
    )
