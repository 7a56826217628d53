"""Made-up requests to the office's site, for where no access log is at hand."""

import random
import zlib
from collections.abc import Iterator

from naproxy.lab.estimate.accesslog import Entry

DAY_S = 86400
_MIDNIGHT_S = 1_706_313_600  # 2024-01-27
_FIRST_WEEKDAY = 5  # a Saturday
_BUSY_VISITS = 6  # an hour
_QUIET = 1 / 18  # of the busy rate
_BROWSERS = (
    "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko)"
    " Chrome/126.0.0.0 Safari/537.36",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15"
    " (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1",
)
_CRAWLER = "Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)"
_OTHER_CRAWLERS = (
    "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
    "Mozilla/5.0 (compatible; AhrefsBot/7.0; +http://ahrefs.com/robot/)",
    "Mozilla/5.0 (compatible; YandexBot/3.0; +http://yandex.com/bots)",
)
_MONITOR = "Uptime-Kuma/1.23.3"
_FEED = "Feedly/1.0 (+http://www.feedly.com/fetcher.html; like FeedFetcher-Google)"
_PROGRAM = "python-requests/2.31.0"


def day() -> Iterator[Entry]:
    """Yield a day, the same every time, in order.

    People, crawlers and programs come as Poisson processes: a visit every 90 s, a crawler's
    request every 45 s, a program's every 70 s on average. A person reads a geometric number
    of pages (3 on average) with log-normal pauses (median 12 s) and loads the pictures and
    styles of the first page. A monitor asks every minute, a feed reader every 15 minutes.
    """
    dice = random.Random(1)
    made: list[Entry] = []
    for t_s in _poisson(dice, 90):
        made += _person(dice, t_s)
    made += [_one(t_s, "198.18.3.1", _page(dice), _CRAWLER) for t_s in _poisson(dice, 45)]
    made += [_one(t_s, "198.18.4.1", "/app/echo", _PROGRAM, "POST") for t_s in _poisson(dice, 70)]
    made += [_one(t_s, "198.18.5.1", "/", _MONITOR, "HEAD") for t_s in range(7, DAY_S, 60)]
    made += [_one(t_s, "198.18.6.1", "/", _FEED) for t_s in range(300, DAY_S, 900)]
    yield from sorted(made, key=lambda entry: entry.t_s)


def weeks(count: int = 2) -> Iterator[Entry]:
    """Yield weeks of a small office, the same every time, in order.

    Visits are Poisson: six an hour from 8 to 18 on working days, one every three hours else.
    Four crawlers ask, the most eager every ten minutes, a program every two hours, a feed
    reader every hour, a monitor every five minutes.
    """
    dice = random.Random(2)
    end_s = 7 * DAY_S * count
    made: list[Entry] = []
    for t_s in _poisson(dice, 3600 / _BUSY_VISITS, end_s):
        if dice.random() < (1.0 if _at_work(t_s) else _QUIET):
            made += _person(dice, t_s)
    for number, crawler in enumerate((_CRAWLER, *_OTHER_CRAWLERS)):
        times_s = _poisson(dice, 600 * (1 + number), end_s)
        made += [_one(t, f"198.18.3.{number}", _page(dice), crawler) for t in times_s]
    made += [_one(t_s, "198.18.6.1", "/", _FEED) for t_s in range(300, end_s, 3600)]
    made += [
        _one(t, "198.18.4.1", "/app/echo", _PROGRAM, "POST") for t in _poisson(dice, 7200, end_s)
    ]
    made += [_one(t_s, "198.18.5.1", "/", _MONITOR, "HEAD") for t_s in range(7, end_s, 300)]
    yield from sorted(made, key=lambda entry: entry.t_s)


def _at_work(t_s: float) -> bool:
    weekday = int(t_s // DAY_S + _FIRST_WEEKDAY) % 7
    return weekday < 5 and 8 <= t_s % DAY_S / 3600 < 18


def _poisson(dice: random.Random, mean_s: float, end_s: float = DAY_S) -> Iterator[float]:
    t_s = dice.expovariate(1 / mean_s)
    while t_s < end_s:
        yield t_s
        t_s += dice.expovariate(1 / mean_s)


def _person(dice: random.Random, t_s: float) -> Iterator[Entry]:
    host = f"198.18.{dice.randrange(16, 255)}.{dice.randrange(1, 255)}"
    browser = _BROWSERS[zlib.crc32(host.encode()) % len(_BROWSERS)]
    embedded = ["/css/base.css", "/js/menu.js", *(_image(dice) for _ in range(4))]
    while True:
        yield _one(t_s, host, _page(dice), browser)
        for path in embedded:
            yield _one(t_s + 1, host, path, browser)
        embedded = []
        if dice.random() < 1 / 3:
            return
        t_s += dice.lognormvariate(2.5, 1)  # e^2.5 is 12 s


def _page(dice: random.Random) -> str:
    return f"/pages/{dice.randrange(1, 60):03}.html"


def _image(dice: random.Random) -> str:
    return f"/images/{dice.randrange(240):03}.png"


def _one(t_s: float, host: str, path: str, agent: str, method: str = "GET") -> Entry:
    return Entry(_MIDNIGHT_S + int(t_s), host, method, path, 200, 0, "", agent)
