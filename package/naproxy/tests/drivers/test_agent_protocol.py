"""What the box and the agent say to each other, and what a stranger may try."""

import dataclasses
import hashlib
import hmac
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from naproxy.drivers import agent_protocol as protocol
from naproxy.drivers.agent_protocol import AGAIN, NO, YES, ForgedError, NoAnswerError, ProtocolError

KEY = bytes(range(32))
NONCE = "00112233445566778899aabbccddeeff"
OTHER = "f" * 32
HELLO = protocol.Request("web", NONCE, 1_700_000_000, "mem")
ORDER = dataclasses.replace(HELLO, nonce="1" * 32, challenge=OTHER)
REPLY = protocol.Answer(
    "web", OTHER, 1_700_000_001, NONCE, NO, ("mem", "off"), ("logged in: anna",)
)
COUNT = protocol.Count("web", NONCE, 1_700_000_000, (80, 443))
COUNTED = protocol.Counted("web", 1_700_000_001, NONCE, "3" * 32, 41, 2)
ALARM = dataclasses.replace(ORDER, alarm_s=35000)
ASK = protocol.Ask("web", NONCE, 1_700_000_000)
TOLD = protocol.Told(
    "web",
    1_700_000_001,
    NONCE,
    ((36000, False, "backup.timer"), (120, True, "www-data: php")),
)
LISTEN = protocol.Listen("web", NONCE, 1_700_000_000, (51820,), (8080, 8443))
LISTENING = protocol.Listening("web", 1_700_000_001, NONCE, ("flows", "22/tcp/sshd", "51820/udp"))
DOC = Path(__file__).resolve().parents[4] / "docs/agent.md"


def signed(body: bytes, key: bytes = KEY) -> bytes:
    return body + b"mac=" + hmac.new(key, body, hashlib.sha256).hexdigest().encode() + b"\n"


def test_the_documentation_s_vectors_are_what_we_write():
    vectors = re.findall(r"```datagram\n(.*?)```", DOC.read_text(), re.DOTALL)
    assert vectors == [
        protocol.request(KEY, HELLO).decode(),
        protocol.answer(KEY, dataclasses.replace(REPLY, verdict=YES, why=())).decode(),
        protocol.request(KEY, ORDER).decode(),
        protocol.answer(
            KEY,
            protocol.Answer(
                "web",
                "2" * 32,
                1_700_000_002,
                "1" * 32,
                NO,
                ("mem", "off"),
                ("logged in: anna from 192.0.2.7", "rsync is running"),
            ),
        ).decode(),
        protocol.count(KEY, COUNT).decode(),
        protocol.counted(KEY, COUNTED).decode(),
        protocol.ask(KEY, ASK).decode(),
        protocol.told(KEY, TOLD).decode(),
        protocol.request(KEY, ALARM).decode(),
        protocol.listen(KEY, LISTEN).decode(),
        protocol.listening(KEY, LISTENING).decode(),
    ]


READERS = {
    "request": protocol.read_request,
    "answer": protocol.read_answer,
    "counted": protocol.read_counted,
    "told": protocol.read_told,
    "listening": protocol.read_listening,
}
WRITTEN = [
    *(("request", protocol.request, message) for message in (HELLO, ORDER, ALARM)),
    ("request", protocol.count, COUNT),
    ("request", protocol.ask, ASK),
    ("request", protocol.listen, LISTEN),
    *(
        ("answer", protocol.answer, dataclasses.replace(REPLY, why=why))
        for why in ((), ("a",), ("logged in: Zoë", "a = b"))
    ),
    ("counted", protocol.counted, COUNTED),
    ("told", protocol.told, TOLD),
    ("told", protocol.told, dataclasses.replace(TOLD, jobs=(), why=("cannot be read",))),
    ("listening", protocol.listening, LISTENING),
]


def test_what_was_written_is_read_by_its_own_reader_and_no_other():
    for kind, write, message in WRITTEN:
        datagram = write(KEY, message)
        for name, read in READERS.items():
            if name == kind:
                assert read(KEY, datagram) == message
            else:
                with pytest.raises(ProtocolError, match=r"no (request|answer)"):
                    read(KEY, datagram)


@given(
    st.lists(
        st.tuples(st.integers(0, 99_999_999), st.booleans(), st.text(max_size=300)), max_size=200
    )
)
def test_any_appointments_fit_into_one_datagram_that_can_be_read(jobs):
    datagram = protocol.told(KEY, dataclasses.replace(TOLD, jobs=tuple(jobs)))
    assert len(datagram) <= protocol.MAX_BYTES
    said = protocol.read_told(KEY, datagram).jobs
    assert bool(said) == bool(jobs)
    assert [each[:2] for each in said] == [each[:2] for each in jobs[: len(said)]]
    assert all(name.isprintable() for _, _, name in said)


def unsigned(datagram: bytes) -> bytes:
    return datagram.rpartition(b"mac=")[0]


def test_more_visits_than_a_line_holds_are_the_most():
    many = dataclasses.replace(COUNTED, visits=10**12, here=10**12)
    said = protocol.read_counted(KEY, protocol.counted(KEY, many))
    assert (said.visits, said.here) == (protocol.MOST_VISITS, protocol.MOST_HERE)


@pytest.mark.parametrize(
    ("read", "datagram", "line", "values"),
    [
        (
            protocol.read_request,
            protocol.count(KEY, COUNT),
            "ports=80 443",
            ("", "0", "080", "80  443", "80 ", "1 2 3 4 5 6 7 8 9", "100000", "x"),
        ),
        (
            protocol.read_counted,
            protocol.counted(KEY, COUNTED),
            "visits=41",
            ("1000000000", "9" * 500, "-1", "1e9", "\u0661", ""),
        ),
        (protocol.read_counted, protocol.counted(KEY, COUNTED), "here=2", ("100000", "1e9")),
        (protocol.read_counted, protocol.counted(KEY, COUNTED), f"run={'3' * 32}", ("x" * 32,)),
        (
            protocol.read_told,
            protocol.told(KEY, dataclasses.replace(TOLD, jobs=TOLD.jobs[:1])),
            "job=36000 other backup.timer",
            ("", "-1 other x", "1 never x", "1 other ", "999999999 other x", f"1 other {'x' * 81}"),
        ),
    ],
)
def test_a_value_in_bad_form_is_refused(read, datagram, line, values):
    body = unsigned(datagram).decode()
    assert f"{line}\n" in body
    for value in values:
        changed = body.replace(line, f"{line.partition('=')[0]}={value}")
        with pytest.raises(ProtocolError, match="bad line"):
            read(KEY, signed(changed.encode()))


@given(st.lists(st.text(max_size=300), max_size=200))
def test_any_reasons_fit_into_one_datagram_that_can_be_read(why):
    datagram = protocol.answer(KEY, dataclasses.replace(REPLY, why=tuple(why)))
    assert len(datagram) <= protocol.MAX_BYTES
    said = protocol.read_answer(KEY, datagram)
    assert bool(said.why) == bool(why)
    assert all(line.isprintable() for line in said.why)


def test_reasons_that_do_not_fit_are_counted():
    why = tuple(f"reason {i} " + "x" * 90 for i in range(20))
    said = protocol.read_answer(KEY, protocol.answer(KEY, dataclasses.replace(REPLY, why=why)))
    assert said.why[-1] == f"and {20 - (len(said.why) - 1)} more"


def test_a_reason_cannot_add_a_line():
    why = ("x\nverdict=yes\x1b[2J",)
    said = protocol.read_answer(KEY, protocol.answer(KEY, dataclasses.replace(REPLY, why=why)))
    assert said.verdict == NO
    assert said.why == ("x verdict=yes [2J",)


@given(st.binary(max_size=1400), st.booleans())
def test_garbage_is_refused_even_if_it_is_signed(said, with_key):
    datagram = signed(said) if with_key else said
    for read in READERS.values():
        with pytest.raises(ProtocolError):
            read(KEY, datagram)


@given(st.integers(min_value=0), st.integers(min_value=1, max_value=255))
def test_one_changed_byte_is_a_forgery(place, change):
    datagram = bytearray(protocol.request(KEY, ORDER))
    datagram[place % len(datagram)] ^= change
    with pytest.raises(ForgedError):
        protocol.read_request(KEY, bytes(datagram))


def test_a_cut_datagram_or_another_key_is_a_forgery():
    datagram = protocol.request(KEY, ORDER)
    for length in range(len(datagram)):
        with pytest.raises(ForgedError):
            protocol.read_request(KEY, datagram[:length])
    with pytest.raises(ForgedError):
        protocol.read_request(bytes(32), datagram)


def test_a_huge_one_is_refused_unread():
    with pytest.raises(ProtocolError, match="too long"):
        protocol.read_request(KEY, signed(b"x" * protocol.MAX_BYTES))


def test_a_signed_but_odd_request_is_refused():
    body = unsigned(protocol.request(KEY, HELLO)).decode()
    for old, new, words in (
        ("naproxy-agent 1", "naproxy-agent 2", "begin with"),
        ("kind=hello", "kind=sleep", "lines"),
        ("kind=hello", "kind=reboot", "bad line"),
        ("kind=hello\n", "", "lines"),
        ("server=web", "server=", "bad line"),
        ("server=web", "server=../web", "bad line"),
        ("state=mem", "state=mem\nstate=off", "lines"),
        ("state=mem", "state=standby", "bad line"),
        ("state=mem", "mem", "bad line"),
        ("time=1", "time=-1", "bad line"),
        ("state=mem\n", "state=mem", "not ended"),
        ("state=mem\n", "state=mem\n\n", "bad line"),
        ("state=mem\n", "state=mem\nwhy=x\n", "no request"),
        ("kind=hello\n", "kind=hello\nwhy=x\n", "lines"),
        (NONCE, NONCE.upper(), "bad line"),
        (NONCE, NONCE[:-1], "bad line"),
        (NONCE, "\N{ARABIC-INDIC DIGIT ONE}" * 32, "bad line"),
    ):
        assert old in body
        with pytest.raises(ProtocolError, match=words):
            protocol.read_request(KEY, signed(body.replace(old, new).encode()))


def test_a_key_is_64_hex_digits_and_may_end_with_a_newline():
    assert protocol.parse_key(KEY.hex() + "\n") == KEY
    for text in ("", "00", "zz" * 32, "00" * 33, "é" * 64):
        with pytest.raises(ProtocolError):
            protocol.parse_key(text)


class Peer:
    """An agent as the box sees it: answers by script, counts what it was sent."""

    def __init__(self, *script, key=KEY):
        self.script = list(script)
        self.key = key
        self.sent = []
        self.waiting = []
        self.clock_s = 1000.0

    def send(self, datagram):
        self.sent.append(datagram)
        if self.script and (act := self.script.pop(0)):
            asked = protocol.read_request(KEY, datagram)
            answers = act(asked)
            for said in answers if isinstance(answers, list) else [answers]:
                self.waiting.append(protocol.answer(self.key, said))

    def receive(self, wait_s):
        if self.waiting:
            return self.waiting.pop(0)
        self.clock_s += wait_s
        return None

    def converse(self, question):
        return protocol.converse(
            question,
            send=self.send,
            receive=self.receive,
            now_s=lambda: self.clock_s,
            monotonic_s=lambda: self.clock_s,
            timeout_s=5.0,
            resend_s=1.0,
        )


def question(*, order=True):
    counter = iter(range(1000))
    return protocol.Question(KEY, "web", "mem", order=order, nonce=lambda: f"{next(counter):032x}")


def says(verdict, *why, **changes):
    def answer(asked):
        said = protocol.Answer("web", OTHER, 1000, asked.nonce, verdict, ("mem",), why)
        return dataclasses.replace(said, **changes)

    return answer


def test_an_order_follows_a_yes_and_names_its_challenge():
    peer = Peer(says(YES), says(YES))
    outcome = peer.converse(question())
    assert outcome == protocol.Outcome(True, (), ("mem",), 0)
    hello, order = (protocol.read_request(KEY, sent) for sent in peer.sent)
    assert hello.challenge == ""
    assert order.challenge == OTHER
    assert order.nonce != hello.nonce


def test_a_mere_question_orders_nothing():
    peer = Peer(says(YES))
    assert peer.converse(question(order=False)).accepted
    assert len(peer.sent) == 1


def test_a_no_ends_it_with_its_reasons_before_the_order_or_at_it():
    for before in ((), (says(YES),)):
        peer = Peer(*before, says(NO, "logged in: anna"))
        outcome = peer.converse(question())
        assert (outcome.accepted, outcome.why) == (False, ("logged in: anna",))
        assert len(peer.sent) == len(before) + 1


def test_a_restarted_agent_gets_the_order_again_with_its_new_challenge():
    peer = Peer(says(YES), says(AGAIN, nonce="a" * 32), says(YES))
    assert peer.converse(question()).accepted
    assert protocol.read_request(KEY, peer.sent[2]).challenge == "a" * 32


def test_an_agent_that_forgets_for_ever_is_given_up():
    peer = Peer(says(YES), *[says(AGAIN)] * 10)
    outcome = peer.converse(question())
    assert not outcome.accepted
    assert outcome.why == ("it does not take its own challenges",)
    assert len(peer.sent) == 4


def test_what_is_lost_is_sent_again_unchanged():
    peer = Peer(None, None, says(YES), None, says(YES))
    assert peer.converse(question()).accepted
    assert len(set(peer.sent[:3])) == 1
    assert len(set(peer.sent[3:])) == 1


def old(asked):
    return says(YES)(dataclasses.replace(asked, nonce="9" * 32))


@pytest.mark.parametrize(
    ("peer", "ordered", "forged"),
    [
        pytest.param(Peer(), False, False, id="silence before the order is certain"),
        pytest.param(Peer(says(YES)), True, False, id="silence after it may be sleep"),
        pytest.param(Peer(says(YES), key=bytes(32)), False, True, id="another key is named"),
        pytest.param(Peer(old, old), False, False, id="an old answer is not taken for this one"),
        pytest.param(Peer(says(YES, server="db")), False, False, id="nor another server's yes"),
    ],
)
def test_what_is_no_answer_is_none(peer, ordered, forged):
    with pytest.raises(NoAnswerError) as error:
        peer.converse(question())
    assert (error.value.ordered, bool(error.value.forged)) == (ordered, forged)


def test_another_server_s_no_is_told():
    no = "this is the agent of db, not of web"
    assert Peer(says(NO, no, server="db")).converse(question()).why == (no,)


def test_a_flood_of_forgeries_does_not_keep_it_beyond_its_time():
    peer = Peer()

    def receive(_wait_s):
        peer.clock_s += 0.01
        return b"x" * 300

    peer.receive = receive
    with pytest.raises(NoAnswerError):
        peer.converse(question())
    assert peer.clock_s == pytest.approx(1005.0, abs=0.2)
    assert len(peer.sent) <= 6


def test_a_wrong_clock_is_named_and_does_no_harm():
    for server_s, differs in ((1000, False), (1060, False), (4601, True), (10, True)):
        outcome = Peer(*[says(YES, time_s=server_s)] * 2).converse(question())
        assert outcome.accepted
        assert (outcome.clock_differs, outcome.clock_ahead_s) == (differs, server_s - 1000)
