import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from naproxy.core.reason import Reason, own_words
from naproxy.shm import datagram

GOOD = (
    b"naproxy-wake 1\nserver=web\nreason=page\nmethod=GET\nclass=person\nclient=192.0.2.17\n"
    b"agent=Mozilla/5.0 (X11)\nhost=www.example.org\npath=/news?id=3=b\n"
)


def test_a_datagram_says_who_asks_for_which_server() -> None:
    name, wake_request = datagram.parse(GOOD)
    assert name == "web"
    assert wake_request == datagram.WakeRequest(
        who="192.0.2.17",
        reason="page",
        method="GET",
        klass="person",
        agent="Mozilla/5.0 (X11)",
        host="www.example.org",
        path="/news?id=3=b",
    )


def test_a_datagram_says_that_the_server_took_no_connection() -> None:
    assert not datagram.parse(GOOD)[1].silent
    assert datagram.parse(GOOD + b"seen=silent\n")[1].silent


def test_a_datagram_says_which_search_engine_was_refused() -> None:
    refused = b"naproxy-refused 1\nserver=web\nengine=Google\naddress=192.0.2.7\nnetwork=00ff\n"
    assert datagram.parse(refused) == ("web", datagram.Refusal("Google", "192.0.2.7", 255))
    for wrong in (b"network=xy", b"", b"network=1\nreason=page"):
        with pytest.raises(ValueError, match=r".+"):
            datagram.parse(refused.replace(b"network=00ff", wrong))


def test_the_reason_names_the_request() -> None:
    why = datagram.parse(GOOD)[1].why
    person = Reason("server.person")
    assert why == Reason(
        "server.request", klass=person, request="GET /news?id=3=b", who="192.0.2.17"
    )
    assert str(why) == "A person asked for GET /news?id=3=b (from 192.0.2.17)."


def test_a_class_that_is_not_known_is_told_as_it_came() -> None:
    wake_request = datagram.parse(b"naproxy-wake 1\nserver=a\nreason=miss\nclass=elf\npath=/\n")[1]
    assert wake_request.why.params["klass"] == own_words("elf")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"naproxy-wake 1",
        b"naproxy-wake 2\nserver=web\nreason=page\n",
        b"naproxy-wake 1\nserver=web\n",
        b"naproxy-wake 1\nserver=\nreason=page\n",
        b"naproxy-wake 1\nreason=page\n",
        b"naproxy-wake 1\nserver=web\nreason=page\nserver=web\n",
        b"naproxy-wake 1\nserver=web\nreason=page\nunknown=1\n",
        b"naproxy-wake 1\nserver=web\nreason=page\nseen=awake\n",
        b"naproxy-wake 1\nserver=web\nreason=page\nno equals sign\n",
        b"naproxy-wake 1\nserver=web\n\nreason=page\n",
        b"naproxy-wake 1\nserver=web\nreason=pa\x00ge\n",
        b"naproxy-wake 1\r\nserver=web\r\nreason=page\r\n",
        b"naproxy-wake 1\nserver=web\nreason=page\npath=\x1b[2J\n",
        b"naproxy-wake 1\nserver=web\nreason=\xff\n",
        GOOD + b"path=" + b"x" * 1024,
    ],
)
def test_garbage_is_refused_in_words(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        datagram.parse(data)


@given(st.binary(max_size=1100))
@example(GOOD)
def test_any_bytes_are_a_datagram_or_a_value_error(data: bytes) -> None:
    try:
        name, wake_request = datagram.parse(data)
    except ValueError:
        return
    assert name
    assert wake_request.reason
