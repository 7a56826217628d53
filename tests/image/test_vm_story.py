"""The image test's own steps, with a box of this machine's programs in place of an image.

What it asks of the web interface, and what it sees of visitors and magic packets, is here before a
real controller, Varnish, web interface and lighttpd. Start, updates and power are not: those
are the image's.
"""

import os
import re
import subprocess
from collections.abc import Iterator

import pytest

from tests.image_vm import by_https, cases, setup
from tests.image_vm.place import Visited
from tests.image_vm.report import memory
from tests.image_vm.ui import PORT, Ui
from tests.patience import wait_for
from tests.simulator.office import Settings
from tests.simulator.office.box import ADDRESS
from tests.simulator.office.namespace import ROOT
from tests.webui.first_run import CODE, NewBox

# The image test takes the same steps; this tells within a minute whether they can be taken.
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(os.geteuid() != 0, reason="an office needs root"),
]

OVERLAY = ROOT / "overlay"


class Box(NewBox):
    """A new box with lighttpd and TLS, as in the image."""

    def start_webui(self) -> None:
        box, directory = self.box, self.box.directory
        tls = directory / "tls"
        subprocess.run([OVERLAY / "usr/sbin/naproxy-certificate", tls], check=True)
        box.start_webui(f"unix:{directory / 'ui.sock'}", "--fingerprint", tls / "fingerprint")
        wait_for(lambda: CODE.search(self.said("webui")), "the claim code")
        for name in ("cache", "uploads"):
            (directory / name).mkdir()
        modules = re.search(
            r"server\.modules = \([^)]*\)", (OVERLAY / "etc/lighttpd/lighttpd.conf").read_text()
        )
        assert modules
        file = directory / "lighttpd.conf"
        file.write_text(f"""
{modules[0]}
server.errorlog = "{self.office.logs}/lighttpd-error.log"
server.upload-dirs = ("{directory}/uploads")
var.ui_conf = "{OVERLAY}/etc/lighttpd"
var.ui_port = {PORT}
var.ui_redirect_port = 8080
var.ui_static = "{ROOT}/webui/src/naproxy_webui/static"
var.ui_socket = "{directory}/ui.sock"
var.ui_certificate = "{tls}/naproxy.pem"
var.ui_cache = "{directory}/cache"
include "{OVERLAY}/etc/lighttpd/naproxy-ui.conf"
""")
        box.popen(["/usr/sbin/lighttpd", "-D", "-f", file], log="lighttpd")
        wait_for(lambda: box.listens(PORT), "lighttpd")


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    quick = Settings(sleep_s=0.5, wake_s=0.5)
    with Visited(keep=ROOT / "build/image/story", board=quick) as office, Box(office) as made:
        yield made


@pytest.fixture(scope="module")
def place(box: Box) -> Visited:
    assert isinstance(box.office, Visited)
    return box.office


@pytest.fixture(scope="module")
def ui(box: Box) -> Ui:
    """The web interface, the box claimed and set up by the test's own steps."""
    found = Ui(box.office.client, ADDRESS)
    setup.wait(found.answers, "the web interface", 20)
    setup.claim(found, box.claim_code())
    setup.set_up(found, box.office.server)
    return found


def test_set_up_by_its_steps_the_box_may_put_the_server_to_sleep(box: Box, ui: Ui) -> None:
    [server] = ui.call("GET", "/api/settings")["server"]
    assert server["hosts"] == ["www.office.example"]
    assert box.box.status()["armed"]
    assert ui.call("GET", "/api/setup")["done"]


def test_the_server_sleeps_is_woken_for_a_page_and_kept_awake(place: Visited, ui: Ui) -> None:
    words = cases.wake(place, ui, place.served)
    found = re.match(r"(\d+) magic packets", words)
    assert found
    assert int(found[1]) >= 1
    assert place.server.board.state == "on"


@pytest.fixture(scope="module")
def https(box: Box, ui: Ui) -> None:
    """Start haproxy and naproxy-through as the image's supervisor does."""
    box.box.start_edge()
    box.box.start_through()


def test_by_https_the_server_is_asked_and_woken(https: None, place: Visited, ui: Ui) -> None:
    words = by_https.served(place, ui, cases.wake)
    assert re.fullmatch(r"HTTP/1.1: .*magic packets.*; HTTP/2: .*magic packets.*", words)


def test_passed_on_the_server_is_asked_and_woken(https: None, place: Visited, ui: Ui) -> None:
    words = by_https.passed_on(place, ui, cases.wake)
    assert re.fullmatch(r"HTTP/1.1: .*magic packets.*; HTTP/2: .*magic packets.*", words)


def test_the_certificate_is_the_one_that_is_announced(box: Box, ui: Ui) -> None:
    said = re.search(cases.FINGERPRINT, box.said("webui"))
    assert said
    assert said[1].replace(":", "").lower() == ui.fingerprint()


def test_the_box_tells_its_memory(ui: Ui) -> None:
    texts = ui.diagnostics()
    assert memory(texts["memory.txt"])["in_use_mb"] > 0
    assert "varnishd" in texts["processes.txt"]
