"""Who asks the box: single requests, and many at once."""

import contextlib
import dataclasses
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException
from socket import MSG_PEEK

from tests.simulator.office import Namespace
from tests.simulator.office.box import ADDRESS, HOST

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"
PERSON = {
    "User-Agent": FIREFOX,
    "Accept": "text/html,application/xhtml+xml,*/*;q=0.8",
    "Sec-Fetch-Mode": "navigate",
}
"""A person's page load."""

ASSET = {"User-Agent": FIREFOX, "Accept": "image/*", "Sec-Fetch-Mode": "no-cors"}
"""What a person's page asks for: held, not shown the waiting page."""

PROGRAM = {"User-Agent": "curl/7.88.1", "Accept": "*/*"}
CRAWLER = {
    "User-Agent": "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
    "Accept": "text/html",
}
MONITOR = {
    "User-Agent": "Mozilla/5.0+(compatible; UptimeRobot/2.0; http://www.uptimerobot.com/)",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """What came back. `error` is set instead of a status if nothing did."""

    request_id: str
    status: int
    headers: dict[str, str]
    body: bytes = dataclasses.field(repr=False)
    began_s: float
    ended_s: float
    error: str = ""
    unanswered: bool = False
    """The connection was made, and was closed before any byte of an answer came."""

    @property
    def took_s(self) -> float:
        """From the connection's start to the last byte."""
        return self.ended_s - self.began_s


def fresh(path: str = "/") -> str:
    """Return this path with a query that nothing has asked for: it is not in the cache."""
    return f"{path}?{uuid.uuid4().hex}"


class _Connection(HTTPConnection):
    def __init__(self, client: Namespace, timeout_s: float, source: str | None):
        super().__init__(ADDRESS, timeout=timeout_s)
        self._client = client
        self._timeout_s = timeout_s
        self._source = source

    def connect(self) -> None:
        self.sock = self._client.connect(
            ADDRESS, 80, timeout_s=self._timeout_s, source=self._source
        )


def ask(
    client: Namespace,
    path: str,
    *,
    method: str = "GET",
    headers: dict[str, str] | None = None,
    body: bytes | None = None,
    timeout_s: float = 40.0,
    source: str | None = None,
    host: str = HOST,
) -> Answer:
    """Ask the box once, on a connection of its own, with an X-Request-Id of its own."""
    request_id = uuid.uuid4().hex
    sent = {"Host": host, **PROGRAM, **(headers or {}), "X-Request-Id": request_id}
    began_s, unanswered = time.monotonic(), False
    with contextlib.closing(_Connection(client, timeout_s, source)) as connection:
        try:
            connection.connect()
            try:
                connection.request(method, path, body, sent)
                unanswered = not connection.sock.recv(1, MSG_PEEK)
            except ConnectionError:
                unanswered = True
                raise
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, HTTPException) as error:
            words, ended_s = f"{type(error).__name__}: {error}", time.monotonic()
            return Answer(request_id, 0, {}, b"", began_s, ended_s, words, unanswered)
        received = {name.lower(): value for name, value in answer.getheaders()}
    return Answer(request_id, answer.status, received, content, began_s, time.monotonic())


@contextlib.contextmanager
def at_once(calls: Iterable[Callable[[], Answer]]) -> Iterator[list[Future[Answer]]]:
    """Begin all calls together; leaving the block waits for them."""
    listed = list(calls)
    with ThreadPoolExecutor(max_workers=max(1, len(listed))) as pool:
        yield [pool.submit(call) for call in listed]


class Load:
    """Requests one after the other on several threads, until told to stop."""

    def __init__(self, call: Callable[[int], Answer], threads: int):
        self.answers: list[Answer] = []
        self._call = call
        self._stop = False
        self._pool = ThreadPoolExecutor(max_workers=threads)
        self._threads = threads

    def __enter__(self) -> "Load":
        self._running = [self._pool.submit(self._loop, n) for n in range(self._threads)]
        return self

    def __exit__(self, *_: object) -> None:
        self._stop = True
        self._pool.shutdown()
        for thread in self._running:
            thread.result()

    def _loop(self, thread: int) -> None:
        n = thread
        while not self._stop:
            self.answers.append(self._call(n))
            n += self._threads
