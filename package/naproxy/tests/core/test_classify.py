from naproxy.core import classify
from naproxy.core.classify import Agents, Behaviour, Kind, Seen
from naproxy.core.state import Klass

AGENTS = Agents()
CHROME = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/126.0.0.0 Safari/537.36"


def test_the_class_an_agent_declares() -> None:
    for agent, klass in (
        (CHROME, Klass.PERSON),
        ("Opera/9.80 (Windows NT 6.1)", Klass.PERSON),
        ("", Klass.API),
        ("curl/8.0", Klass.API),
        ("MyApp/1.0", Klass.API),
        ("Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", Klass.CRAWLER),
        ("Uptime-Kuma/1.23.3", Klass.MONITOR),
        ("Feedfetcher-Google; (+http://www.google.com/feedfetcher.html)", Klass.FEED),
        ("Mozilla/5.0 zgrab/0.x", Klass.SCANNER),
        # A monitor that names a crawler is a monitor.
        ("Googlebot UptimeRobot/2.0", Klass.MONITOR),
    ):
        assert AGENTS.klass(agent) is klass, agent


def test_literals_are_tied_to_edges() -> None:
    for literal, agent, found in (
        ("^curl", "curl/8", True),
        ("^curl", "libcurl/8", False),
        ("bot$", "a bot", True),
        ("bot$", "bot a", False),
        ("\\bsonic", "x sonic/1", True),
        ("\\bsonic", "panasonic", False),
        ("a.c", "a.c", True),
        ("a.c", "abc", False),
    ):
        agents = Agents([{"name": "x", "class": "crawler", "literals": [literal]}])
        assert agents.klass(agent) is (Klass.CRAWLER if found else Klass.API), (literal, agent)


def test_a_catch_all_counts_only_where_nothing_has_a_name() -> None:
    agents = Agents(
        [
            {"name": "a robot", "class": "crawler", "literals": ["; +http"], "catch_all": True},
            {"name": "Mastodon", "class": "api", "literals": ["mastodon"]},
        ]
    )
    assert agents.klass("http.rb/5 (Mastodon/4; +https://example.org/)") is Klass.API
    assert agents.klass("Mozilla/5.0 (x; +https://example.org/)") is Klass.CRAWLER


def test_table_4_1_knows_its_nine_and_no_more() -> None:
    agents = Agents.thesis()
    assert agents.klass("Mozilla/5.0 (compatible; bingbot/2.0)") is Klass.CRAWLER
    assert agents.klass("Mozilla/5.0 (compatible; AhrefsBot/7.0)") is Klass.PERSON


def seen(
    t_s: float = 0.0,
    *,
    path: int = 1,
    kind: Kind = Kind.PAGE,
    status: int = 200,
    klass: Klass = Klass.PERSON,
    client: int = 7,
) -> Seen:
    return Seen(t_s, client, path, klass, kind, status, safe=True)


def crowd(behaviour: Behaviour) -> None:
    """People whose pages come with assets."""
    for client in range(1000, 1100):
        behaviour.see(seen(path=1, client=client))
        for path in (2, 3):
            behaviour.see(seen(path=path, kind=Kind.ASSET, client=client))


def test_a_class_learned_from_a_request_holds_from_the_next_one_on() -> None:
    behaviour = Behaviour()
    assert behaviour.see(seen(kind=Kind.ROBOTS_TXT)) is Klass.PERSON
    assert behaviour.see(seen()) is Klass.CRAWLER
    assert behaviour.known == {7: Klass.CRAWLER}


def test_a_declared_robot_stays_what_it_says() -> None:
    behaviour = Behaviour()
    assert behaviour.see(seen(klass=Klass.FEED, kind=Kind.ROBOTS_TXT)) is Klass.FEED
    assert not behaviour.known


def test_who_guesses_addresses_is_a_scanner() -> None:
    for kind in (Kind.PAGE, Kind.ASSET):
        behaviour = Behaviour()
        for path in range(classify.SCAN_PATHS):
            assert behaviour.see(seen(path=path, kind=kind, status=404)) is Klass.PERSON, kind
        assert behaviour.see(seen()) is Klass.SCANNER, kind


def test_missing_images_of_a_page_and_one_dead_link_make_no_scanner() -> None:
    images = [seen(path=n, status=404, kind=Kind.ASSET) for n in range(10 * classify.SCAN_PATHS)]
    for requests in ([seen(), *images], [seen(status=404)] * 10 * classify.SCAN_PATHS):
        behaviour = Behaviour()
        for request in requests:
            behaviour.see(request)
        assert behaviour.see(seen()) is Klass.PERSON


def test_who_reads_pages_and_never_their_images_is_a_crawler() -> None:
    behaviour = Behaviour()
    crowd(behaviour)
    for path in range(classify.CRAWL_PAGES):
        assert behaviour.see(seen(path=path)) is Klass.PERSON
    assert behaviour.see(seen()) is Klass.CRAWLER


def test_one_image_is_enough_to_be_a_person() -> None:
    behaviour = Behaviour()
    crowd(behaviour)
    behaviour.see(seen(kind=Kind.ASSET))
    for path in range(10 * classify.CRAWL_PAGES):
        assert behaviour.see(seen(path=path)) is Klass.PERSON


def test_where_nobody_loads_images_nobody_is_a_crawler_for_it() -> None:
    behaviour = Behaviour()
    for client in range(100):
        for path in range(classify.CRAWL_PAGES + 1):
            assert behaviour.see(seen(path=path, client=client)) is Klass.PERSON


def every_five_minutes(hours: int, klass: Klass) -> list[Seen]:
    return [seen(float(t), klass=klass) for t in range(0, hours * 3600, 300)]


def test_a_program_that_asks_every_five_minutes_is_a_monitor() -> None:
    behaviour = Behaviour()
    classes = [behaviour.see(each) for each in every_five_minutes(3, Klass.API)]
    assert (classes[0], classes[-1]) == (Klass.API, Klass.MONITOR)
    assert classes.index(Klass.MONITOR) * 300 > 2 * 3600


def test_a_missed_beat_does_not_hide_a_monitor() -> None:
    behaviour = Behaviour()
    beats = [each for each in every_five_minutes(3, Klass.API) if each.t_s % 2400]
    assert [behaviour.see(each) for each in beats][-1] is Klass.MONITOR


def test_a_browser_has_to_do_so_for_a_day() -> None:
    behaviour = Behaviour()
    classes = [behaviour.see(each) for each in every_five_minutes(26, Klass.PERSON)]
    assert classes[12 * 12] is Klass.PERSON
    assert classes[-1] is Klass.MONITOR


def test_who_asks_for_the_same_few_addresses_for_ever_is_a_monitor_without_a_period() -> None:
    behaviour = Behaviour()
    gaps = [17, 300, 45, 1200, 90, 33]
    t_s, last = 0.0, Klass.API
    for n in range(2 * classify.POLL_ANYWAY + 3):
        t_s += gaps[n % len(gaps)] * (1 + n % 7)
        last = behaviour.see(seen(t_s, path=n % 2, klass=Klass.API))
    assert last is Klass.MONITOR


def test_a_program_that_posts_is_no_monitor() -> None:
    behaviour = Behaviour()
    for each in every_five_minutes(10, Klass.API):
        assert behaviour.see(each._replace(safe=False)) is Klass.API


def test_a_person_who_comes_back_to_a_page_all_day_stays_a_person() -> None:
    behaviour = Behaviour()
    t_s = 0.0
    for n in range(40):
        t_s += 600 + (n * 7919) % 3000
        assert behaviour.see(seen(t_s, path=n % 6)) is Klass.PERSON


def test_only_so_many_are_known_at_once_and_who_asks_again_is_known_again() -> None:
    behaviour = Behaviour(slots=2)
    for client in (1, 2, 3):
        behaviour.see(seen(client=client, kind=Kind.ROBOTS_TXT))
    assert list(behaviour.known) == [2, 3]
    assert behaviour.see(seen(client=1)) is Klass.PERSON
    assert list(behaviour.known) == [3, 1]


def test_memory_is_bounded() -> None:
    behaviour = Behaviour(remembered=10)
    for client in range(1000):
        behaviour.see(seen(client=client))
    assert len(behaviour._clients) == 10


def test_what_is_never_refused() -> None:
    for method, url, never in (
        ("POST", "/", True),
        ("PROPFIND", "/a", True),
        ("GET", "/.well-known/caldav", True),
        ("GET", "/a/.well-known/b", False),
        ("GET", "/remote.php/dav/files", True),
        ("GET", "/SOGo/DAV/a", True),
        ("GET", "/dav?a", True),
        ("GET", "/dav.php", True),
        ("GET", "/david/dav.html", False),
        ("GET", "/a?next=/dav/", False),
        ("GET", "/back?code=a&scope=b&state=c", True),
        ("HEAD", "/back?error=denied&state=c", True),
        ("GET", "/back?code=&state=c", False),
        ("GET", "/back?code=a&estate=c", False),
    ):
        assert classify.never_refused(method, url) is never, (method, url)
