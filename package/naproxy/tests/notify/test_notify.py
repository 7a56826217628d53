"""Notifications: what is told and when, and each way before a real receiver."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hmac
import json
import socket
import sqlite3
import ssl
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from email import message_from_bytes
from email.message import Message
from email.policy import default
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import history_box as past
import pytest
from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword
from certificates import Authority
from history_box import three_hours
from naproxy.api.calls import ApiError
from naproxy.cli import notify as command
from naproxy.config import document as config
from naproxy.config import places
from naproxy.core.processes import Printed
from naproxy.core.reason import Reason, own_words
from naproxy.core.schema import ConfigError
from naproxy.history.tables import FILE
from naproxy.notify import bars, figures, sender
from naproxy.notify.channels import telegram
from naproxy.notify.events import METER_S, Condition, Notice, Watch, aftermath, conditions
from naproxy.notify.letter import letter, report
from naproxy.notify.notifier import Notifier
from naproxy.notify.outbox import GIVE_UP_S, Outbox
from web_server import WebServer, serving

NIGHT = "mon-sun 23:00-01:00 0.2"
NO_UPDATE: dict[str, Any] = {"supported": False}
PLENTY = 1 << 30


def status(**server: Any) -> dict[str, Any]:
    one = {"id": "web", "state": "awake", "alert": None, "reason": own_words("up").plain()}
    return {
        "servers": [{**one, **server}],
        "meters": [{"id": "plug", "problem": None}],
        "box": {"edge": {"certificates": []}},
    }


def codes(told: Iterable[Notice | Condition]) -> list[str]:
    return [each.reason.code for each in told]


def seen(now_s: float = 0.0, free: int = PLENTY, update: Any = None, **server: Any) -> list[str]:
    return codes(conditions(status(**server), now_s, free, update or NO_UPDATE))


# What is worth telling


def test_a_server_in_trouble_is_told_with_its_reason() -> None:
    why = Reason("server.kept_awake")
    found = list(conditions(status(state="trouble", alert=why.plain()), 0, PLENTY, NO_UPDATE))
    assert [(each.reason.code, each.more) for each in found] == [("notify.not_woken", why)]


def test_a_disk_with_little_room_is_told_and_a_box_in_order_is_not() -> None:
    assert seen() == []
    assert seen(free=1 << 20) == ["notify.disk"]


def test_a_certificate_is_told_two_weeks_before_it_ends() -> None:
    for days, told in (
        (13, ["notify.certificate_ends"]),
        (15, []),
        (-1, ["notify.certificate_ended"]),
    ):
        said = status()
        ends_s = days * 86400.0 + 1
        ends = {"id": "a", "names": ["a.example"], "not_after_s": ends_s, "problem": None}
        said["box"]["edge"]["certificates"] = [ends]
        assert codes(conditions(said, 0.0, PLENTY, NO_UPDATE)) == told, days


def test_a_short_lived_certificate_is_told_in_the_last_part_of_its_life() -> None:
    for life_days, left_days, told in (
        (6, 5.9, False),
        (6, 2.0, False),  # it is renewed then
        (6, 0.9, True),
        (1, 0.3, False),
        (1, 0.1, True),
        (47, 13.0, False),
        (47, 7.0, True),
        (90, 13.9, True),
        (365, 13.9, True),
    ):
        said, ends_s = status(), left_days * 86400.0
        ends = {"id": "a", "names": ["a.example"], "not_after_s": ends_s, "problem": None}
        said["box"]["edge"]["certificates"] = [{**ends, "not_before_s": ends_s - life_days * 86400}]
        found = codes(conditions(said, 0.0, PLENTY, NO_UPDATE))
        assert found == ["notify.certificate_ends"] * told, (life_days, left_days)


def test_an_update_that_was_left_is_told() -> None:
    slots = [
        {"booted": True, "good": True, "version": "1.0"},
        {"booted": False, "good": False, "version": "1.1"},
    ]
    update = {"supported": True, "version": "1.0", "job": {"phase": "none"}, "slots": slots}
    assert seen(update=update) == ["notify.update_back"]


TROUBLE = Condition("not_woken:web", "not_woken", Reason("notify.not_woken", server="web"))


def test_what_goes_on_is_told_once_and_its_end_once() -> None:
    watch = Watch()
    assert codes(watch.look(0, [TROUBLE])) == ["notify.not_woken"]
    assert watch.look(10, [TROUBLE]) == []
    assert codes(watch.look(20, [])) == ["notify.back"]
    assert watch.look(30, []) == []
    assert codes(watch.look(40, [TROUBLE])) == ["notify.not_woken"]


def test_a_server_that_is_back_and_stays_awake_is_said_to_do_so() -> None:
    why = Reason("server.tripped", why=Reason("server.cut_off"), server="web").plain()
    for not_armed, more in ((why, "naproxy arm web"), (None, "")):
        watch = Watch()
        watch.look(0, [TROUBLE])
        [notice] = watch.look(20, [], aftermath(status(not_armed=not_armed)))
        assert notice.reason.code == "notify.back"
        assert more in str(notice.more or ""), not_armed


def test_a_letter_has_the_boxs_address_beside_a_name_that_may_not_resolve(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for address, page in (
        ("192.0.2.1", "https://192.0.2.1:8443, https://n.local:8443"),
        ("2001:db8::1", "https://[2001:db8::1]:8443, https://n.local:8443"),
        ("", "https://n.local:8443"),
    ):
        monkeypatch.setattr(places, "own_address", lambda _, own=address: own)
        monkeypatch.setattr(socket, "gethostname", lambda: "n.office.example")
        made = Notifier._letter(Notice("test", Reason("notify.test")), 0, config.parse(""))
        assert made["text"].rstrip().endswith(f": {page}"), address


def test_what_was_told_is_not_told_again_after_a_restart_unless_its_memory_is_lost() -> None:
    watch = Watch()
    watch.look(0, [TROUBLE])
    again = Watch(json.loads(json.dumps(watch.kept())))
    assert again.look(10, [TROUBLE]) == []
    assert codes(again.look(20, [])) == ["notify.back"]
    for kept in (None, {"a": 1}, {"a": {}}, {"a": {"since_s": 0}}):
        assert codes(Watch(kept).look(0, [TROUBLE])) == ["notify.not_woken"], kept


def test_a_meter_that_is_silent_for_a_moment_is_not_told() -> None:
    watch = Watch()
    silent = Condition("meter:plug", "meter", Reason("notify.meter", meter="plug"), None, METER_S)
    assert watch.look(0, [silent]) == watch.look(10, []) == watch.look(20, [silent]) == []
    assert codes(watch.look(20 + METER_S, [silent])) == ["notify.meter"]


# When it is sent

LETTER = {"t_s": 0.0, "event": "not_woken", "title": "T", "text": "t", "picture": "", "reason": {}}


def test_what_fails_is_tried_again_later_and_given_up_after_a_day() -> None:
    box, ways = Outbox(), ("mail",)
    box.put(LETTER, ways)
    tries, now_s = [], 0.0
    while now_s < 2 * GIVE_UP_S:
        for each, way in list(box.due(now_s, ways)):
            tries.append(now_s)
            box.failed(each, way, now_s, own_words("no"))
        now_s += 60
    assert tries[:6] == [0, 60, 360, 1260, 4860, 8460]
    assert max(tries) < GIVE_UP_S
    assert box.told()[0]["to"][0]["problem"] == own_words("no").plain()


def test_each_way_is_on_its_own() -> None:
    box, ways = Outbox(), ("mail", "ntfy")
    box.put(LETTER, ways)
    (first, _), (_, second) = list(box.due(0, ways))
    box.sent(first, "mail", 1.0)
    assert [way for _, way in box.due(2, ways)] == [second] == ["ntfy"]


# In words


def test_a_letter_is_in_the_offices_language_and_time() -> None:
    notice = Notice("not_woken", Reason("notify.not_woken", server="web"), own_words("no answer"))
    where = ZoneInfo("Europe/Zurich")
    made = letter(
        notice, 1.7e9, office="Müller", language="de", where=where, page="https://n.local:8443"
    )
    assert made["title"] == "Müller: Der Server web ist nicht aufgewacht"
    assert made["text"].splitlines() == [
        "Der Server web ist nicht aufgewacht.",
        "No answer.",
        "",
        "2023-11-14 23:13. Die Seiten der Box: https://n.local:8443",
    ]


SUMS = {"used_j": 0, "box_j": 0, "net_j": 0, "asleep_s": 0, "switches": 0}


def reported(money: str = "", **found: Any) -> dict[str, Any]:
    """The letter with the report on a month."""
    notice = report({**SUMS, "requests": 0, "delayed": 0, "co2_g": None, **found}, "2026-10", money)
    return letter(notice, 0, office="O", language="en", where=ZoneInfo("UTC"), page="p")


def test_a_report_says_what_a_month_was_like() -> None:
    sums = {"used_j": 7.2e6, "box_j": 3.6e6, "net_j": 36e6, "asleep_s": 7200, "switches": 3}
    wakers = [{"path": "/a", "wakes": 2}]
    made = reported("3.10 EUR", **sums, requests=10, delayed=1, wakers=wakers, co2_g=4321.0)
    assert made["title"] == "O: Report for 2026-10"
    for words in ("10 kWh were saved", "worth 3.10 EUR", "avoided 4.3 kg of CO₂", "/a (2)"):
        assert words in made["text"]


def test_a_path_that_a_visitor_chose_is_no_link_in_a_report() -> None:
    for path, shown in (
        ("/wp/index.php", "/wp/index.php"),
        ("/.well-known/v1.2/feed.xml", "/.well-known/v1.2/feed.xml"),
        ("/https://evil.example/pay", "/https%3A//evil%2Eexample/pay"),
        ("//www.evil.php.com", "//www%2Eevil%2Ephp%2Ecom"),
        ("javascript:alert(1)", "javascript%3Aalert%281%29"),
        ("/a@evil.org", "/a%40evil%2Eorg"),
        ("/evil.php-x.com", "/evil%2Ephp-x%2Ecom"),
        ('/<a href="//x.y">x</a>', "/%3Ca%20href=%22//x%2Ey%22%3Ex%3C/a%3E"),
        ("/a (900), /b\r\nBcc: x\0\x1b[2J", "/a%20%28900%29%2C%20/b%0D%0ABcc%3A%20x%00%1B%5B2J"),
        ("/\u202efdp\u05d0", "/%E2%80%AEfdp%D7%90"),
        ("/" + "a.com" * 9999, "/" + ("a%2Ecom" * 12)[:79] + "…"),
    ):
        made = reported(wakers=[{"path": path, "wakes": 2}])
        assert f": {shown} (2).\n" in made["text"], path


def test_the_picture_is_a_png_with_a_bar_a_day() -> None:
    made = bars.png([(1.0, 2.0), (2.0, 2.0)])
    assert made.startswith(b"\x89PNG\r\n\x1a\n")
    assert len(made) < 3000
    assert bars.png([]) != made


# The ways, before real receivers


class Mailbox:
    """What an SMTP server keeps of each mail."""

    def __init__(self) -> None:
        self.mails: list[Message] = []

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        self.mails.append(message_from_bytes(envelope.content, policy=default))
        return "250 kept"


def _login(_server: Any, _session: Any, _envelope: Any, _kind: str, data: Any) -> AuthResult:
    ok = isinstance(data, LoginPassword) and data.password == b"secret"
    return AuthResult(success=ok, handled=False)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def context(authority: Authority) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    issued = authority.issue("localhost")
    chain = issued.file.with_suffix(".chain")
    chain.write_bytes(authority.chain(issued))
    made.load_cert_chain(chain, issued.key_file)
    return made


@contextlib.contextmanager
def smtp(
    box: Mailbox, tls: ssl.SSLContext | None = None, kind: type[SMTP] = SMTP, **options: Any
) -> Iterator[int]:
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(
        loop.create_server(lambda: kind(box, hostname="here", **options), "127.0.0.1", 0, ssl=tls)
    )
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        server.close()
        loop.close()


def mail(port: int, **more: Any) -> dict[str, Any]:
    said = {"mail_to": ["anna@example.org"], "smtp_host": "localhost", "smtp_port": port, **more}
    text = "\n".join(f"{key} = {json.dumps(value)}" for key, value in said.items())
    return asdict(config.look(f"[notify]\n{text}\n").config.notify)


def sent(channel: str, settings: Mapping[str, Any], **more: Any) -> Reason | None:
    return sender.send({"channel": channel, "settings": settings, "letter": {**LETTER, **more}})


def test_a_mail_goes_by_starttls_with_a_login(
    context: ssl.SSLContext, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.root.file))
    box = Mailbox()
    options = {"tls_context": context, "require_starttls": True, "authenticator": _login}
    picture = base64.b64encode(bars.png([(1, 2)])).decode()
    with smtp(box, auth_require_tls=True, **options) as port:
        settings = mail(port, smtp_user="u", smtp_password="secret")
        assert sent("mail", settings, title="Büro: web\nBcc: x@y", picture=picture) is None
        wrong = mail(port, smtp_user="u", smtp_password="guess")
        assert sent("mail", wrong) == Reason("notify.login", server="localhost")
    (kept,) = box.mails
    assert (kept["To"], kept["Subject"]) == ("anna@example.org", "Büro: web Bcc: x@y")
    assert [part.get_content_type() for part in kept.walk()][1:] == ["text/plain", "image/png"]


class Login:
    """An authenticator that keeps what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[bytes, bytes]] = []

    def __call__(self, _server: Any, _session: Any, _envelope: Any, _kind: str, data: Any) -> Any:
        self.told.append((data.login, data.password))
        return AuthResult(success=data.password == "größe€ 🔑".encode(), handled=False)


@pytest.mark.parametrize("without", [(), ("PLAIN",)], ids=["plain", "login"])
def test_a_user_and_a_password_with_umlauts_log_in(without: tuple[str, ...]) -> None:
    box, login = Mailbox(), Login()
    options = {"auth_require_tls": False, "auth_exclude_mechanism": without}
    with smtp(box, authenticator=login, **options) as port:
        umlauts = {"smtp_user": "jürgen", "smtp_password": "größe€ 🔑"}
        settings = {**mail(port, smtp_security="none"), **umlauts}
        assert sent("mail", settings) is None
        wrong = {**settings, "smtp_password": "größe"}
        assert sent("mail", wrong) == Reason("notify.login", server="localhost")
    assert login.told[0] == ("jürgen".encode(), "größe€ 🔑".encode())
    assert len(box.mails) == 1


def test_cram_md5_takes_umlauts() -> None:
    secret, told = "größe", []

    class Cram(SMTP):
        async def auth_CRAM__MD5(self, _server: Any, _args: list[str]) -> AuthResult:  # noqa: N802
            answer = await self.challenge_auth(b"<1@here>")
            told.append(answer)
            digest = hmac.new(secret.encode(), b"<1@here>", "md5").hexdigest()
            ok = answer == f"jürgen {digest}".encode()
            return AuthResult(success=ok, handled=False)

    box = Mailbox()
    exclude = ("PLAIN", "LOGIN")
    options = {"auth_require_tls": False, "auth_exclude_mechanism": exclude}
    with smtp(box, kind=Cram, authenticator=_login, **options) as port:
        umlauts = {"smtp_user": "jürgen", "smtp_password": secret}
        assert sent("mail", {**mail(port, smtp_security="none"), **umlauts}) is None, told


def test_a_relay_without_a_login_that_the_box_has_is_said() -> None:
    box = Mailbox()
    login = {"smtp_user": "u", "smtp_password": "secret"}
    with smtp(box) as port:
        settings = {**mail(port, smtp_security="none"), **login}
        assert sent("mail", settings) == Reason("notify.no_auth", server="localhost")
    none = {"auth_require_tls": False, "auth_exclude_mechanism": ("PLAIN", "LOGIN")}

    class Oauth(SMTP):
        async def auth_XOAUTH2(self, _server: Any, _args: list[str]) -> AuthResult:  # noqa: N802
            raise AssertionError("nobody logs in by it")

    with smtp(box, kind=Oauth, authenticator=_login, **none) as port:
        settings = {**mail(port, smtp_security="none"), **login}
        said = Reason("notify.other_auth", server="localhost", names=("XOAUTH2",))
        assert sent("mail", settings) == said
    assert box.mails == []


def test_a_relay_that_takes_no_umlauts_in_addresses_is_said() -> None:
    box = Mailbox()
    with smtp(box, enable_SMTPUTF8=False) as port:
        settings = {**mail(port, smtp_security="none"), "mail_to": ["jürgen@example.org"]}
        assert sent("mail", settings) == Reason("notify.no_smtputf8", server="localhost")


def test_a_mail_goes_by_tls_to_a_server_that_somebody_vouches_for(
    context: ssl.SSLContext, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = Mailbox()
    with smtp(box, context) as port:
        problem = sent("mail", mail(port, smtp_security="tls"))
        assert problem is not None
        assert problem.code == "notify.not_sent"
        assert box.mails == []
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.root.file))
        assert sent("mail", mail(port, smtp_security="tls")) is None
    assert len(box.mails) == 1


def test_without_starttls_nothing_is_sent_in_clear() -> None:
    box = Mailbox()
    with smtp(box) as port:
        assert sent("mail", mail(port)) == Reason("notify.no_starttls", server="localhost")
        assert sent("mail", mail(port, smtp_security="none")) is None
    assert len(box.mails) == 1


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[WebServer]:
    server = WebServer()
    monkeypatch.setattr(telegram, "SERVER", server.url)
    with serving(server):
        yield server


def test_ntfy_gets_a_topic_a_title_and_a_priority(receiver: WebServer) -> None:
    settings = {"ntfy": f"{receiver.url}/base/naproxy", "ntfy_token": "tk"}
    assert sent("ntfy", settings) is None
    [(path, head)], [(_, body)] = receiver.asked, receiver.sent
    assert (path, head["authorization"]) == ("/base/", "Bearer tk")
    said = {"topic": "naproxy", "title": "T", "message": "t", "priority": 4}
    assert json.loads(body) == said


def post(address: str) -> Reason | None:
    return sent("webhook", {"webhook": address, "webhook_token": ""})


def test_a_webhook_gets_all_that_is_known(receiver: WebServer) -> None:
    assert post(f"{receiver.url}/hook") is None
    [(path, head)], [(method, body)] = receiver.asked, receiver.sent
    assert (method, path, "authorization" in head) == ("POST", "/hook", False)
    assert json.loads(body).keys() == {"box", "event", "t_s", "title", "text", "reason"}


@pytest.mark.parametrize(
    ("login", "sent_as"),
    [("box:secret", "box:secret"), ("b%C3%BCro:a%40b%3Ac:d", "büro:a@b:c:d"), ("box", "box:")],
)
def test_a_user_and_a_password_in_an_address_are_sent_as_basic(
    receiver: WebServer, login: str, sent_as: str
) -> None:
    address = receiver.url.replace("://", f"://{login}@")
    assert post(f"{address}/hook") is None
    assert sent("ntfy", {"ntfy": f"{address}/naproxy", "ntfy_token": ""}) is None
    expected = "Basic " + base64.b64encode(sent_as.encode()).decode()
    assert [(path, head["authorization"]) for path, head in receiver.asked] == [
        ("/hook", expected),
        ("/", expected),
    ]
    assert all(login not in head["host"] for _, head in receiver.asked)


def test_a_token_goes_before_a_password_in_the_address(receiver: WebServer) -> None:
    address = receiver.url.replace("://", "://box:secret@")
    assert sent("webhook", {"webhook": address, "webhook_token": "tk"}) is None
    assert receiver.asked[0][1]["authorization"] == "Bearer tk"


def test_a_webhook_that_refuses_or_leads_elsewhere_has_not_arrived(receiver: WebServer) -> None:
    receiver.headers = {"Location": "/elsewhere"}
    for code in (302, 403, 500):
        receiver.status = code
        assert post(receiver.url) == Reason("notify.status", status=code)
    assert len(receiver.asked) == 3
    problem = post("http://127.0.0.1:9/secret")
    assert problem is not None
    assert "secret" not in str(problem), "nobody there is said without the address"


# Telegram and Matrix were made from the services' documentation; docs/notify.md says what was
# tried with real ones.

TOKEN = "123456:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw"
TELEGRAM = {"telegram_chat": "-100123", "telegram_token": TOKEN}


def test_telegram_gets_the_text_for_the_chat(receiver: WebServer) -> None:
    assert sent("telegram", TELEGRAM, text="Why.\n") is None
    [(path, head)], [(method, body)] = receiver.asked, receiver.sent
    assert (method, path) == ("POST", f"/bot{TOKEN}/sendMessage")
    assert "authorization" not in head
    assert json.loads(body) == {"chat_id": "-100123", "text": "T\n\nWhy.\n"}


def test_telegram_gets_no_more_than_a_message_may_have(receiver: WebServer) -> None:
    assert sent("telegram", TELEGRAM, text="x" * 5000) is None
    assert len(json.loads(receiver.sent[0][1])["text"]) == 4096


def test_a_telegram_that_is_not_there_is_said_without_the_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(telegram, "SERVER", "http://127.0.0.1:9")
    problem = sent("telegram", TELEGRAM)
    assert problem is not None
    assert TOKEN not in str(problem)


def matrix(server: WebServer, text: str) -> None:
    settings = {"matrix_server": f"{server.url}/", "matrix_room": "!abc/ö:example.org"}
    assert sent("matrix", settings | {"matrix_token": "syt_x"}, text=text) is None


def test_matrix_gets_the_text_for_the_room_with_the_token(receiver: WebServer) -> None:
    matrix(receiver, "Why.\n")
    [(path, head)], [(method, body)] = receiver.asked, receiver.sent
    room = "/_matrix/client/v3/rooms/%21abc%2F%C3%B6%3Aexample.org/send/m.room.message/"
    assert (method, path[: len(room)]) == ("PUT", room)
    assert head["authorization"] == "Bearer syt_x"
    assert json.loads(body) == {"msgtype": "m.text", "body": "T\n\nWhy.\n"}


def test_matrix_takes_a_letter_that_is_sent_again_for_the_same(receiver: WebServer) -> None:
    for text in ("one", "one", "two"):
        matrix(receiver, text)
    first, again, other = (path for path, _ in receiver.asked)
    assert first == again != other


# All of it


class Ran:
    """Stands in for the processes: says of each channel what went wrong, if anything."""

    def __init__(self) -> None:
        self.jobs: list[dict[str, Any]] = []
        self.problem: Reason | None = None
        self.figures: Any = []

    async def __call__(
        self, argv: Sequence[str], _s: float, environment: Mapping[str, str], _most: int
    ) -> Printed:
        (said,) = environment.values()
        self.jobs.append(json.loads(said))
        if argv[-1] == sender.__name__:
            answer = {"problem": self.problem.plain() if self.problem else None}
        else:
            answer = self.figures
        return Printed(0, json.dumps(answer).encode(), b"")


class Box:
    def __init__(self, folder: Path, text: str) -> None:
        self.now_s = 1_760_000_000.0
        self.said = status()
        self.ran = Ran()
        self.config = config.look(text).config
        self.folder = folder
        self.begin()

    def begin(self) -> None:
        async def update() -> dict[str, Any]:
            return NO_UPDATE

        self.notifier = Notifier(
            self.folder,
            lambda: self.config,
            lambda: self.said,
            update,
            lambda _: {},
            run=self.ran,
            now=lambda: self.now_s,
        )

    def step(self, later_s: float = 10.0) -> list[dict[str, Any]]:
        """The letters that are sent by then."""
        self.now_s += later_s
        before = len(self.ran.jobs)
        asyncio.run(self.notifier.step())
        return [job["letter"] for job in self.ran.jobs[before:] if "letter" in job]

    def tells(self, later_s: float = 10.0) -> list[str]:
        return [each["event"] for each in self.step(later_s)]


SERVER = '[[server]]\nid = "web"\naddress = "192.0.2.10"\nmac = "02:00:5e:10:00:02"\n'
HOOK = '[notify]\nwebhook = "http://127.0.0.1:9/"\nwebhook_token = "t"\n'
ZONE = '[office]\ntime_zone = "UTC"\n'


def test_trouble_is_told_and_that_the_server_is_back(tmp_path: Path) -> None:
    box = Box(tmp_path, HOOK)
    assert box.step() == []
    box.said = status(state="trouble")
    assert box.tells() == ["not_woken"]
    assert box.ran.jobs[-1]["settings"]["webhook_token"] == "t"
    box.begin()
    assert box.step() == []
    box.said = status()
    assert [each["reason"]["code"] for each in box.step()] == ["notify.back"]
    told = box.notifier.told()
    assert told["channels"] == ["webhook"]
    assert len(told["told"]) == 2
    assert (tmp_path / "notify.json").stat().st_mode & 0o777 == 0o600


def test_a_token_that_goes_unencrypted_is_warned_of(tmp_path: Path) -> None:
    ntfy = '[notify]\nntfy = "http://10.0.0.5/boxes"\nntfy_token = "t"\n'
    for text, ways in (
        (HOOK, ["webhook"]),
        (HOOK.replace("http:", "https:"), []),
        ('[notify]\nwebhook = "http://127.0.0.1:9/"\n', []),
        (ntfy, ["ntfy"]),
    ):
        said = Box(tmp_path, text).notifier.told()
        assert said["in_clear"] == ways, text
        warned = [each.where for each in config.look(text).warnings]
        assert warned == [f"notify.{way}_token" for way in ways]
        lines = [line for line in command.told(said) if "sent unencrypted" in line]
        assert [line.partition(":")[0] for line in lines] == ways


def test_a_password_in_an_address_that_goes_unencrypted_is_warned_of(tmp_path: Path) -> None:
    for scheme, warned in (("http", ["notify.webhook"]), ("https", [])):
        text = f'[notify]\nwebhook = "{scheme}://box:pw@10.0.0.5/a@b"\n'
        assert [each.where for each in config.look(text).warnings] == warned
    assert config.look('[notify]\nwebhook = "http://10.0.0.5/a@b"\n').warnings == []


def test_what_is_not_wanted_or_not_in_quiet_times_is_not_told(tmp_path: Path) -> None:
    # 2025-10-09 08:53 UTC
    quiet = HOOK + 'quiet = ["mon-sun 08:00-09:00"]\n' + ZONE
    for text, later in ((HOOK + 'events = ["disk"]\n', []), (quiet, ["not_woken"])):
        box = Box(tmp_path, text)
        box.said = status(state="trouble")
        assert box.tells() == []
        assert box.tells(600) == later
        (tmp_path / "notify.json").unlink(missing_ok=True)


def test_a_broken_promise_is_told_once_a_day_at_most_and_not_for_few_delays(
    tmp_path: Path,
) -> None:
    box = Box(tmp_path, HOOK + ZONE + SERVER)
    for delayed, requests, later_s, told in (
        (4, 4, 10, []),
        (50, 100, 86400, ["promise"]),
        (50, 100, 10, []),
        (0, 100, 86400, []),
        (0, 100, 86400, []),
    ):
        box.ran.figures = [{"server": "web", "requests": requests, "delayed": delayed}]
        assert box.tells(later_s) == told, (delayed, requests)


def test_the_report_comes_on_the_first_of_a_month(tmp_path: Path) -> None:
    box = Box(tmp_path, HOOK + ZONE + SERVER)
    box.step()
    sums = dict.fromkeys((*SUMS, "known_s", "requests"), 1)
    found = {"money": 4.056, "co2_g": None, "delayed": 0, "wakers": [], "picture": "UE5H"}
    box.ran.figures = {**sums, **found}
    box.config = config.look(HOOK + 'events = ["report"]\n' + ZONE + SERVER).config
    told = [each for _ in range(31) for each in box.step(86400)]
    assert [(each["event"], each["picture"]) for each in told] == [("report", "UE5H")]
    assert "2025-10" in told[0]["title"]
    assert "4.06 EUR" in told[0]["text"]
    assert "CO₂" not in told[0]["text"]
    job = next(job for job in box.ran.jobs if job.get("what") == "report")
    assert (job["from_s"], job["to_s"]) == (1_759_276_800, 1_761_955_200)


@pytest.fixture
def slept(box: past.Box) -> Iterator[sqlite3.Connection]:
    """A history of three hours: from 22:13 on awake for 70 minutes, then asleep."""
    box.history.watch(["web"])
    three_hours(box)
    box.history.flush()
    with contextlib.closing(sqlite3.connect(box.directory / FILE)) as db:
        yield db


def month(office: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The job of a report on these hours."""
    server = {
        "id": "web",
        "power": {"on_w": 43.0, "off_w": 2.0, "switch_j": 0.0},
        "fit": {},
        "meter": "web",
        "box_meter": None,
    }
    return {
        "from_s": past.HOUR_S,
        "to_s": past.HOUR_S + 3 * 3600,
        "servers": [server],
        "proxy_w": 5.0,
        "time_zone": "UTC",
        "office": office,
        "now_s": past.HOUR_S + 3 * 3600,
        **more,
    }


def test_a_month_is_worth_what_each_of_its_hours_is(slept: sqlite3.Connection) -> None:
    """From 23:00 on power costs half as much."""
    tariff = {"since": "2000-01-01", "price_per_kwh": 0.4, "bands": [NIGHT]}
    found = figures.report(slept, month({"price_per_kwh": 0.0}, tariff=[tariff]))
    unpriced = figures.report(slept, month({"price_per_kwh": 0.0}, tariff=[]))
    before_j = -5.0 * (past.HOUR_S + 3600 - past.START_S)  # the box, while nothing was saved
    after_j = found["net_j"] - before_j
    assert after_j > 0
    assert found["money"] == pytest.approx((before_j * 0.4 + after_j * 0.2) / 3.6e6, rel=0.01)
    assert unpriced["money"] is None


def test_a_month_avoids_what_each_of_its_hours_emits(slept: sqlite3.Connection) -> None:
    job = month({"co2_g_per_kwh": 300.0})
    by_value = figures.report(slept, job)
    hours = [(past.HOUR_S + n * 3600, 4, 600.0) for n in range(3)]
    slept.executemany("INSERT INTO co2_hours (t_s, readings, mean_g) VALUES (?, ?, ?)", hours)
    by_hours = figures.report(slept, job)
    assert by_value["co2_g"] == pytest.approx(by_value["net_j"] / 3.6e6 * 300)
    assert by_hours["co2_g"] == pytest.approx(2 * by_value["co2_g"])


def test_a_test_says_what_became_of_each_way_and_is_refused_without_one(tmp_path: Path) -> None:
    box = Box(tmp_path, HOOK)
    box.ran.problem = own_words("no")
    results = asyncio.run(box.notifier._test())["results"]
    assert results == [{"channel": "webhook", "problem": own_words("no").plain()}]
    assert box.notifier.told()["told"] == []
    with pytest.raises(ApiError, match=r"nobody is set up"):
        asyncio.run(Box(tmp_path, "").notifier._test())


MATRIX = 'matrix_server = "https://matrix.org"\n'


def test_settings_that_cannot_be_meant_are_refused() -> None:
    for text, where in (
        ('mail_to = ["a@b.example"]', "notify.smtp_host"),
        ('mail_to = ["a@b\\r\\nBcc: c@d"]', "notify.mail_to"),
        ('mail_to = ["<a@b>"]', "notify.mail_to"),
        ('smtp_user = "u"\nsmtp_security = "none"', "notify.smtp_security"),
        ('webhook = "file:///etc/passwd"', "notify.webhook"),
        ('webhook = "http://a b/"', "notify.webhook"),
        ('ntfy = "https://ntfy.example.org"', "notify.ntfy"),
        ('quiet = ["night"]', "notify.quiet"),
        ('events = ["everything"]', "notify.events"),
        (f'telegram_chat = "Mona"\ntelegram_token = "{TOKEN}"', "notify.telegram_chat"),
        ('telegram_chat = "1"', "notify.telegram_token"),
        ('telegram_chat = "1"\ntelegram_token = "1/../x"', "notify.telegram_token"),
        ('matrix_server = "matrix.org"', "notify.matrix_server"),
        (f'{MATRIX}matrix_room = "#office:x"', "notify.matrix_room"),
        (f'{MATRIX}matrix_room = "!x:y"', "notify.matrix_token"),
        (f'{MATRIX}matrix_token = "x"', "notify.matrix_room"),
    ):
        with pytest.raises(ConfigError) as refused:
            config.look(f"[notify]\n{text}\n")
        places = [problem.where.split("[")[0] for problem in refused.value.problems]
        assert places == [where], text
