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
from naproxy.drivers.agent_protocol import (
    AGAIN,
    NO,
    YES,
    Answer,
    Ask,
    Count,
    Counted,
    ForgedError,
    Listen,
    Listening,
    NoAnswerError,
    Outcome,
    ProtocolError,
    Question,
    Request,
    Told,
    converse,
)

KEY = bytes(range(32))
NONCE = "00112233445566778899aabbccddeeff"
OTHER = "f" * 32
HELLO = Request("web", NONCE, 1_700_000_000, "mem")
ORDER = dataclasses.replace(HELLO, nonce="1" * 32, challenge=OTHER)
REPLY = Answer("web", OTHER, 1_700_000_001, NONCE, NO, ("mem", "off"), ("logged in: anna",))
COUNT = Count("web", NONCE, 1_700_000_000, (80, 443))
COUNTED = Counted("web", 1_700_000_001, NONCE, "3" * 32, 41, 2)
ALARM = dataclasses.replace(ORDER, alarm_s=35000)
ASK = Ask("web", NONCE, 1_700_000_000)
TOLD = Told(
    "web",
    1_700_000_001,
    NONCE,
    ((36000, False, "backup.timer"), (120, True, "www-data: php")),
)
LISTEN = Listen("web", NONCE, 1_700_000_000, (51820,), (8080, 8443))
LISTENING = Listening("web", 1_700_000_001, NONCE, ("flows", "22/tcp/sshd", "51820/udp"))
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
            Answer(
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


@pytest.mark.parametrize("message", [HELLO, ORDER, ALARM])
def test_a_request_is_read_as_it_was_written(message):
    assert protocol.read_request(KEY, protocol.request(KEY, message)) == message


def test_a_question_for_visits_is_read_as_it_was_written():
    assert protocol.read_request(KEY, protocol.count(KEY, COUNT)) == COUNT


def test_the_answer_to_it_is_read_as_it_was_written():
    assert protocol.read_counted(KEY, protocol.counted(KEY, COUNTED)) == COUNTED


def test_a_question_for_appointments_is_read_as_it_was_written():
    assert protocol.read_request(KEY, protocol.ask(KEY, ASK)) == ASK


@pytest.mark.parametrize(
    "message", [TOLD, dataclasses.replace(TOLD, jobs=(), why=("cannot be read",))]
)
def test_the_appointments_are_read_as_they_were_written(message):
    assert protocol.read_told(KEY, protocol.told(KEY, message)) == message


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


@pytest.mark.parametrize(
    "job", ["", "-1 other x", "1 never x", "1 other ", "999999999 other x", f"1 other {'x' * 81}"]
)
def test_an_appointment_in_bad_form_is_refused(job):
    body = protocol.told(KEY, dataclasses.replace(TOLD, jobs=())).rpartition(b"mac=")[0]
    with pytest.raises(ProtocolError, match="bad line"):
        protocol.read_told(KEY, signed(body + f"job={job}\n".encode()))


def test_more_visits_than_a_line_holds_are_the_most():
    many = dataclasses.replace(COUNTED, visits=10**12, here=10**12)
    said = protocol.read_counted(KEY, protocol.counted(KEY, many))
    assert (said.visits, said.here) == (protocol.MOST_VISITS, protocol.MOST_HERE)


@pytest.mark.parametrize(
    "ports", ["", "0", "080", "80  443", "80 ", "1 2 3 4 5 6 7 8 9", "100000", "x"]
)
def test_ports_in_bad_form_are_refused(ports):
    body = protocol.count(KEY, COUNT).rpartition(b"mac=")[0]
    with pytest.raises(ProtocolError, match="bad line"):
        protocol.read_request(KEY, signed(body.replace(b"80 443", ports.encode())))


def test_an_answer_is_no_answer_to_another_question():
    with pytest.raises(ProtocolError, match="no answer"):
        protocol.read_counted(KEY, protocol.answer(KEY, REPLY))
    with pytest.raises(ProtocolError, match="no answer"):
        protocol.read_answer(KEY, protocol.counted(KEY, COUNTED))
    with pytest.raises(ProtocolError, match="no request"):
        protocol.read_request(KEY, protocol.counted(KEY, COUNTED))
    with pytest.raises(ProtocolError, match="no answer"):
        protocol.read_told(KEY, protocol.counted(KEY, COUNTED))
    with pytest.raises(ProtocolError, match="no request"):
        protocol.read_request(KEY, protocol.told(KEY, TOLD))


@pytest.mark.parametrize("why", [(), ("a",), ("logged in: Zoë", "a = b")])
def test_an_answer_is_read_as_it_was_written(why):
    message = dataclasses.replace(REPLY, why=why)
    assert protocol.read_answer(KEY, protocol.answer(KEY, message)) == message


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


@given(st.binary(max_size=1400))
def test_garbage_is_refused(datagram):
    with pytest.raises(ProtocolError):
        protocol.read_request(KEY, datagram)
    with pytest.raises(ProtocolError):
        protocol.read_answer(KEY, datagram)
    with pytest.raises(ProtocolError):
        protocol.read_counted(KEY, datagram)


@given(st.binary(max_size=200))
def test_signed_garbage_is_refused_too(body):
    with pytest.raises(ProtocolError):
        protocol.read_request(KEY, signed(body))
    with pytest.raises(ProtocolError):
        protocol.read_answer(KEY, signed(body))
    with pytest.raises(ProtocolError):
        protocol.read_counted(KEY, signed(body))


@given(st.integers(min_value=0), st.integers(min_value=1, max_value=255))
def test_one_changed_byte_is_a_forgery(place, change):
    datagram = bytearray(protocol.request(KEY, ORDER))
    datagram[place % len(datagram)] ^= change
    with pytest.raises(ForgedError):
        protocol.read_request(KEY, bytes(datagram))


def test_every_cut_is_a_forgery():
    datagram = protocol.request(KEY, ORDER)
    for length in range(len(datagram)):
        with pytest.raises(ForgedError):
            protocol.read_request(KEY, datagram[:length])


def test_another_key_is_a_forgery():
    with pytest.raises(ForgedError):
        protocol.read_request(bytes(32), protocol.request(KEY, ORDER))


def test_a_huge_one_is_refused_unread():
    with pytest.raises(ProtocolError, match="too long"):
        protocol.read_request(KEY, signed(b"x" * protocol.MAX_BYTES))


def test_an_answer_is_no_request_and_a_request_no_answer():
    with pytest.raises(ProtocolError, match="no request"):
        protocol.read_request(KEY, protocol.answer(KEY, REPLY))
    with pytest.raises(ProtocolError, match="no answer"):
        protocol.read_answer(KEY, protocol.request(KEY, HELLO))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
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
    ],
)
def test_a_signed_but_odd_request_is_refused(old, new, words):
    body = protocol.request(KEY, HELLO).rpartition(b"mac=")[0].decode()
    assert old in body
    with pytest.raises(ProtocolError, match=words):
        protocol.read_request(KEY, signed(body.replace(old, new).encode()))


@pytest.mark.parametrize("text", ["", "00", "zz" * 32, "00" * 33, "é" * 64])
def test_a_key_that_is_none_is_refused(text):
    with pytest.raises(ProtocolError):
        protocol.parse_key(text)


def test_a_key_may_end_with_a_newline():
    assert protocol.parse_key(KEY.hex() + "\n") == KEY


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
        return converse(
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
    return Question(KEY, "web", "mem", order=order, nonce=lambda: f"{next(counter):032x}")


def says(verdict, *why, **changes):
    def answer(asked):
        said = Answer("web", OTHER, 1000, asked.nonce, verdict, ("mem",), why)
        return dataclasses.replace(said, **changes)

    return answer


def test_an_order_follows_a_yes_and_names_its_challenge():
    peer = Peer(says(YES), says(YES))
    outcome = peer.converse(question())
    assert outcome == Outcome(True, (), ("mem",), 0)
    hello, order = (protocol.read_request(KEY, sent) for sent in peer.sent)
    assert hello.challenge == ""
    assert order.challenge == OTHER
    assert order.nonce != hello.nonce


def test_a_mere_question_orders_nothing():
    peer = Peer(says(YES))
    assert peer.converse(question(order=False)).accepted
    assert len(peer.sent) == 1


def test_a_no_ends_it_with_its_reasons():
    peer = Peer(says(NO, "logged in: anna"))
    outcome = peer.converse(question())
    assert not outcome.accepted
    assert outcome.why == ("logged in: anna",)
    assert len(peer.sent) == 1


def test_it_may_change_its_mind_before_the_order():
    outcome = Peer(says(YES), says(NO, "rsync is running")).converse(question())
    assert not outcome.accepted
    assert outcome.why == ("rsync is running",)


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


def test_silence_before_the_order_is_certain():
    with pytest.raises(NoAnswerError) as error:
        Peer().converse(question())
    assert not error.value.ordered
    assert not error.value.forged


def test_silence_after_the_order_may_be_sleep():
    with pytest.raises(NoAnswerError) as error:
        Peer(says(YES)).converse(question())
    assert error.value.ordered


def test_an_answer_with_another_key_is_named():
    with pytest.raises(NoAnswerError) as error:
        Peer(says(YES), key=bytes(32)).converse(question())
    assert error.value.forged


def test_an_old_answer_is_not_taken_for_this_one():
    def old(asked):
        return says(YES)(dataclasses.replace(asked, nonce="9" * 32))

    with pytest.raises(NoAnswerError) as error:
        Peer(old, old).converse(question())
    assert not error.value.ordered


def test_another_server_s_yes_is_not_taken():
    with pytest.raises(NoAnswerError):
        Peer(says(YES, server="db")).converse(question())


def test_another_server_s_no_is_told():
    outcome = Peer(says(NO, "this is the agent of db, not of web", server="db")).converse(
        question()
    )
    assert outcome.why == ("this is the agent of db, not of web",)


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


@pytest.mark.parametrize(
    ("server_s", "differs"), [(1000, False), (1060, False), (4601, True), (10, True)]
)
def test_a_wrong_clock_is_named_and_does_no_harm(server_s, differs):
    outcome = Peer(says(YES, time_s=server_s), says(YES, time_s=server_s)).converse(question())
    assert outcome.accepted
    assert outcome.clock_differs == differs
    assert outcome.clock_ahead_s == server_s - 1000
