from naproxy.lab.estimate.cachemodel import NEVER, Fetched, is_cacheable, is_static


def test_files_that_pages_embed_are_static_and_other_addresses_are_not() -> None:
    for path in ("/a.css", "/b/c.min.JS", "/favicon.ico", "/x.y/z.woff2"):
        assert is_static(path), path
    for path in ("/", "/a.php", "/a.css/", "/css", "/v1.2/list", ""):
        assert not is_static(path), path


def test_what_may_be_kept() -> None:
    for method, status, kept in (
        ("GET", 200, True),
        ("HEAD", 404, True),
        ("POST", 200, False),
        ("GET", 500, False),
    ):
        assert is_cacheable(method, status) is kept, method


def test_an_entry_is_fetched_again_when_it_is_no_longer_fresh() -> None:
    fetched = Fetched()
    ages = [fetched.age_s(t_s, 1) for t_s in (0.0, 100.0, 119.0, 120.0, 130.0, 1000.0)]
    assert ages == [NEVER, 100.0, 119.0, 120.0, 10.0, 880.0]


def test_memory_is_bounded_and_the_oldest_go_first() -> None:
    fetched = Fetched(remembered=100)
    for path in range(1000):
        fetched.age_s(float(path), path)
    assert fetched.age_s(1000.0, 999) == 1.0
    assert fetched.age_s(1000.0, 1) == NEVER
    assert len(fetched._fetched_s) <= 100
