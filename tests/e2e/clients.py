"""The box's clients: single requests, and many at once."""

import contextlib
import dataclasses
import json
import socket
import ssl
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException
from pathlib import Path
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
"""A subresource of a person's page: held, not answered with the waiting page."""

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
    """The response. Without one, `error` is set instead of a status."""

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


def half_closed(client: Namespace, path: str, context: ssl.SSLContext | None = None) -> bytes:
    """Ask, say that no more is to come, and return all that comes; with a context over HTTPS."""
    head = f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\nUser-Agent: curl/8\r\n"
    request = f"{head}Connection: close\r\n\r\n".encode()
    with client.connect(ADDRESS, 443 if context else 80, timeout_s=40) as line:
        if context:
            return _half_closed(line, request, context)
        line.sendall(request)
        line.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: line.recv(65536), b""))


def _half_closed(line: socket.socket, request: bytes, context: ssl.SSLContext) -> bytes:
    """Over HTTPS.

    OpenSSL's shutdown() reads once, too, and throws away the bytes that have come by then. So
    they are held back from it.
    """
    come, goes = ssl.MemoryBIO(), ssl.MemoryBIO()
    stream = context.wrap_bio(come, goes, server_hostname=HOST)
    while True:
        try:
            stream.do_handshake()
            break
        except ssl.SSLWantReadError:
            line.sendall(goes.read())
            come.write(line.recv(65536))
    stream.write(request)
    with contextlib.suppress(ssl.SSLWantReadError):
        stream.unwrap()
    line.sendall(goes.read())
    line.shutdown(socket.SHUT_WR)
    received = b""
    with contextlib.suppress(ssl.SSLZeroReturnError):
        while data := line.recv(65536):
            come.write(data)
            with contextlib.suppress(ssl.SSLWantReadError):
                while text := stream.read(65536):
                    received += text
    return received


def visitor(number: int) -> str:
    """Return an address; the next is of another network: one may not come as often as all do."""
    return f"198.18.{number % 250}.{number // 250 % 250 + 1}"


def fresh(path: str = "/") -> str:
    """Return this path with a query that nothing has asked for: it is not in the cache."""
    return f"{path}?{uuid.uuid4().hex}"


class _Connection(HTTPConnection):
    def __init__(
        self,
        client: Namespace,
        timeout_s: float,
        source: str | None,
        https: ssl.SSLContext | None,
        host: str,
    ):
        super().__init__(ADDRESS, timeout=timeout_s)
        self._client = client
        self._timeout_s = timeout_s
        self._source = source
        self._https = https
        self._host = host

    def connect(self) -> None:
        port = 443 if self._https else 80
        self.sock = self._client.connect(
            ADDRESS, port, timeout_s=self._timeout_s, source=self._source
        )
        if self._https:
            self.sock = self._https.wrap_socket(self.sock, server_hostname=self._host)


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
    https: ssl.SSLContext | None = None,
    after_s: float | None = None,
) -> Answer:
    """Ask the box once, on a connection of its own, with an X-Request-Id of its own.

    Over HTTPS if `https` has a context (`pki.context`). With `after_s`, the connection carried
    another request that long before.
    """
    request_id = uuid.uuid4().hex
    sent = {"Host": host, **PROGRAM, **(headers or {}), "X-Request-Id": request_id}
    began_s, unanswered = time.monotonic(), False
    with contextlib.closing(_Connection(client, timeout_s, source, https, host)) as connection:
        try:
            connection.connect()
            if after_s is not None:
                connection.request("GET", fresh("/images/001.png"), headers={"Host": host})
                connection.getresponse().read()
                used = connection.sock
                time.sleep(after_s)
            try:
                connection.request(method, path, body, sent)
                # TLS lets nobody look ahead.
                unanswered = not https and not connection.sock.recv(1, MSG_PEEK)
            except ConnectionError:
                unanswered = True
                raise
            answer = connection.getresponse()
            content = answer.read()
            assert after_s is None or connection.sock is used
        except (OSError, HTTPException) as error:
            words, ended_s = f"{type(error).__name__}: {error}", time.monotonic()
            return Answer(request_id, 0, {}, b"", began_s, ended_s, words, unanswered)
        received = {name.lower(): value for name, value in answer.getheaders()}
    return Answer(request_id, answer.status, received, content, began_s, time.monotonic())


@dataclasses.dataclass(frozen=True, slots=True)
class Curled:
    """curl's result for one URL."""

    status: int
    version: str
    """Of HTTP: "1.1" or "2"."""
    headers: dict[str, str]
    body: bytes = dataclasses.field(repr=False)
    connections: int
    """New ones that it made for this."""
    error: str


def curl(
    client: Namespace,
    root: Path,
    *paths: str,
    http: str = "2",
    more: Iterable[str | Path] = (),
    host: str = HOST,
    address: str = ADDRESS,
    timeout_s: float = 60.0,
) -> list[Curled]:
    """Request all paths at once from the box over HTTPS with curl; trusts the authority `root`.

    HTTP/2 uses one connection for all of them, HTTP/1.1 several.
    """
    with tempfile.TemporaryDirectory(prefix="naproxy-curl-") as folder:
        bodies = [Path(folder, str(n)) for n in range(len(paths))]
        for body in bodies:
            body.touch()
        at = f"[{address}]" if ":" in address else address
        done = client.run(
            [
                *("curl", "-sS", f"--http{http}", "--cacert", root, "--max-time", str(timeout_s)),
                *("--parallel", "--parallel-max", str(min(300, len(paths)))),
                *("--resolve", f"{host}:443:{at}", "-w", "%{json}\n%{header_json}\n\n", *more),
                *(word for body in bodies for word in ("-o", body)),
                *(f"https://{host}{path}" for path in paths),
            ],
            check=False,
            timeout_s=timeout_s + 10,
        )
        found = {}
        for one in filter(None, done.stdout.split("\n\n")):
            said, _, headers = one.strip().partition("\n")
            told = json.loads(said)
            found[told["urlnum"]] = Curled(
                told["http_code"],
                told["http_version"],
                {name: ", ".join(values) for name, values in json.loads(headers or "{}").items()},
                bodies[told["urlnum"]].read_bytes(),
                told["num_connects"],
                told["errormsg"] or "",
            )
        return [found[n] for n in range(len(paths))]


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
