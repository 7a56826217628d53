"""The box's varnishd, started as on the image, before programs that others wrote."""

import importlib.util
import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE_S, wait_for
from tests.simulator.office.box import arguments
from tests.simulator.office.namespace import ROOT

PROGRAMS = Path(__file__).parent / "programs"
FLAGS = "flags=default,waiting_page,defer,frozen"

_spec = importlib.util.spec_from_file_location("vcl_box", ROOT / "varnish-vcl/tests/conftest.py")
assert _spec
assert _spec.loader
_vcl_box = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_vcl_box)


class Behind:
    """The box before one program."""

    def __init__(self, box: Any, port: int):
        """`port`: the program's own."""
        self.box, self.port = box, port

    def ask(
        self, path: str, method: str = "GET", protocol: str = "HTTP/1.1", **headers: str
    ) -> tuple[HTTPResponse, bytes]:
        """Ask with these headers and Host; `_` in a name is a hyphen."""
        with closing(HTTPConnection("127.0.0.1", self.box.port, timeout=PATIENCE_S)) as visitor:
            visitor._http_vsn_str = protocol  # type: ignore[attr-defined] # it has no argument
            visitor.putrequest(method, path, skip_accept_encoding=True)
            for name, value in headers.items():
                visitor.putheader(name.replace("_", "-"), value)
            visitor.endheaders()
            response = visitor.getresponse()
            return response, response.read()

    @contextmanager
    def reading(self, path: str) -> Iterator[HTTPResponse]:
        """Ask, and give what comes while it comes."""
        with closing(HTTPConnection("127.0.0.1", self.box.port, timeout=PATIENCE_S)) as visitor:
            visitor.request("GET", path)
            yield visitor.getresponse()

    def each_event_in_time(self) -> None:
        """Look whether the first of /events arrives before /go has the next one made."""
        with self.reading("/events") as stream:
            assert stream.status == 200
            assert stream.read(9) == b"data: 1\n\n"
            assert self.ask("/go")[1].strip(b'"') == b"gone"
            assert stream.read() == b"data: 2\n\n"


def _parameters() -> list[str]:
    """Those of varnishd.args; a test has its own memory and user."""
    words = arguments()
    return [
        word for name, value in itertools.pairwise(words) if name == "-p" for word in (name, value)
    ]


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Any]:
    """A box with room for eight requests."""
    box = _vcl_box.Box(tmp_path, 9, *_parameters(), most=8)
    yield box
    assert "not panicked" in box.adm("panic.show")
    box.stop()


@pytest.fixture(scope="session")
def varnish(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    box = _vcl_box.Box(tmp_path_factory.mktemp("box"), 9, *_parameters())
    yield box
    assert "not panicked" in box.adm("panic.show")
    box.stop()


@pytest.fixture(scope="module")
def serve(varnish: Any) -> Iterator[Callable[..., Behind]]:
    """Put a program behind the box: its words, with {port} where its port belongs."""
    running = []

    def start(*command: str | Path, cwd: Path = PROGRAMS) -> Behind:
        port = _vcl_box.free_port()
        words = [str(word).replace("{port}", str(port)) for word in command]
        process = subprocess.Popen(words, cwd=cwd)
        running.append(process)
        wait_for(lambda: _answers(port) or process.poll() is not None, words[0])
        assert process.poll() is None
        varnish.set("state=awake", f"address=127.0.0.1:{port}", FLAGS)
        varnish.adm("ban", "req.url", "~", ".")
        return Behind(varnish, port)

    yield start
    for process in running:
        process.terminate()
        process.wait(PATIENCE_S)


def _answers(port: int) -> bool:
    try:
        with closing(HTTPConnection("127.0.0.1", port, timeout=10)) as visitor:
            visitor.request("GET", "/first")
            return visitor.getresponse().status == 200
    except OSError:
        return False


@pytest.fixture(scope="module")
def fastapi(serve: Callable[..., Behind]) -> Behind:
    arguments = ["--port", "{port}", "--log-level", "warning"]
    path = f"PYTHONPATH={ROOT / 'build/traffic/python'}"
    return serve("env", path, sys.executable, "-m", "uvicorn", "fastapi_app:app", *arguments)
