"""The programs that ask the cloud and the calendar, and senders of webhooks."""

import hashlib
import hmac
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.e2e.clients import Answer, ask
from tests.patience import wait_for
from tests.recipes import cloud, wordpress
from tests.simulator.office import Office

CLOUD, CALENDAR = "cloud.office.example", "calendar.office.example"
_CLOUD_PORT, _CALENDAR_PORT = 8090, 5232

_SITE = """\
server {{
    listen 80;
    listen [::]:80;
    server_name {host};
    client_max_body_size 0;
    location / {{
        proxy_pass http://127.0.0.1:{port};
        proxy_set_header Host $http_host;
        proxy_set_header X-Script-Name "";
        proxy_request_buffering off;
    }}
}}
"""

_RADICALE = """\
[server]
hosts = 127.0.0.1:{port}
[auth]
type = none
[storage]
filesystem_folder = {folder}
"""

_VDIRSYNCER = """\
[general]
status_path = "{folder}/status"
[pair office]
a = "here"
b = "there"
collections = ["from b"]
[storage here]
type = "filesystem"
path = "{folder}/events"
fileext = ".ics"
[storage there]
type = "caldav"
url = "http://{host}/"
username = "ada"
password = "any"
"""

EVENT = """\
BEGIN:VCALENDAR\r
VERSION:2.0\r
PRODID:-//office//recipes//EN\r
BEGIN:VEVENT\r
UID:{uid}\r
DTSTAMP:20260101T000000Z\r
DTSTART:20260102T090000Z\r
SUMMARY:A meeting\r
END:VEVENT\r
END:VCALENDAR\r
"""


class Cloud:
    """The double of a Nextcloud on the server, and its clients at the client."""

    def __init__(self, office: Office):
        """Start it; the server must be awake."""
        self.office = office
        root = office.server.directory / "cloud"
        self.files = root / "files"
        program = (sys.executable, "-m", "tests.recipes.cloud")
        argv: list[str | Path] = [*program, str(_CLOUD_PORT), root]
        office.server.popen_inside(argv, log="cloud")
        wait_for(lambda: office.server.listens(_CLOUD_PORT), "the cloud")
        office.server.add_site("cloud", _SITE.format(host=CLOUD, port=_CLOUD_PORT))
        self.here = office.directory / "at-home"
        self.here.mkdir()

    def start_sync(self) -> subprocess.Popen[str]:
        """Start Nextcloud's desktop client for one sync of `here`."""
        argv: list[str | Path] = [
            *("nextcloudcmd", "--non-interactive", "--silent", "--max-sync-retries", "1"),
            *("-u", cloud.USER, "-p", cloud.PASSWORD, self.here, f"http://{CLOUD}"),
        ]
        return self._start(argv, "nextcloudcmd")

    def sync(self) -> None:
        """Run one sync to its end."""
        status = self.start_sync().wait(timeout=90)
        assert status == 0, f"nextcloudcmd: {status}"

    def rclone(self, *words: str | Path) -> str:
        """Run rclone; `office:` is the cloud."""
        hidden = self.office.client.run(["rclone", "obscure", cloud.PASSWORD]).stdout.strip()
        config = self.office.directory / "rclone.conf"
        config.write_text(
            f"[office]\ntype = webdav\nvendor = nextcloud\nurl = http://{CLOUD}{cloud.FILES}\n"
            f"user = {cloud.USER}\npass = {hidden}\n"
        )
        argv = ["rclone", "--config", config, "--retries", "1", "--low-level-retries", "1", *words]
        said = self.office.client.run(wordpress.naming(self.office.directory, argv), timeout_s=90)
        return said.stdout

    def _start(self, argv: Sequence[str | Path], log: str) -> subprocess.Popen[str]:
        home = {"HOME": str(self.office.directory / "home")}
        Path(home["HOME"]).mkdir(exist_ok=True)
        named = wordpress.naming(self.office.directory, argv)
        return self.office.client.popen(named, log=log, env=home)


class Calendar:
    """Radicale on the server, and vdirsyncer at the client."""

    def __init__(self, office: Office):
        """Start it with one calendar; the server must be awake."""
        self._office = office
        folder = office.server.directory / "calendar"
        folder.mkdir()
        config = folder / "config"
        config.write_text(_RADICALE.format(port=_CALENDAR_PORT, folder=folder / "kept"))
        office.server.popen_inside(["radicale", "--config", config], log="radicale")
        wait_for(lambda: office.server.listens(_CALENDAR_PORT), "Radicale")
        office.server.add_site("calendar", _SITE.format(host=CALENDAR, port=_CALENDAR_PORT))
        made = ("curl", "-sSf", "-X", "MKCALENDAR", "-u", "ada:any")
        office.server.run([*made, f"http://127.0.0.1:{_CALENDAR_PORT}/ada/meetings/"])
        self._here = office.directory / "calendar-at-home"
        self._here.mkdir()
        self.events = self._here / "events/meetings"
        config = self._here / "config"
        config.write_text(_VDIRSYNCER.format(folder=self._here, host=CALENDAR))
        self._run("discover")

    def sync(self) -> None:
        """Run one sync to its end."""
        self._run("sync")

    def kept(self) -> list[str]:
        """Return the events that the server has."""
        folder = self._office.server.directory / "calendar/kept"
        return sorted(path.stem for path in folder.glob("collection-root/ada/meetings/*.ics"))

    def _run(self, verb: str) -> None:
        argv: list[str | Path] = ["vdirsyncer", "--config", self._here / "config", verb]
        named = wordpress.naming(self._office.directory, argv)
        self._office.client.run(named, stdin="y\n" * 4, timeout_s=90)


def order(office: Office, reference: str, source: str | None = None) -> Answer:
    """Order in the shop, as a visitor's page does."""
    body = json.dumps({"reference": reference}).encode()
    return _post(office, "orders", body, {"User-Agent": "Mozilla/5.0"}, source)


def stripe(office: Office, event: str, secret: str = wordpress.STRIPE_SECRET) -> Answer:
    """Send an event as Stripe does: https://docs.stripe.com/webhooks#verify-manually."""
    body = json.dumps({"id": event, "object": "event", "type": "charge.succeeded"}).encode()
    sent_s = int(time.time())
    signed = hmac.new(secret.encode(), f"{sent_s}.".encode() + body, hashlib.sha256).hexdigest()
    headers = {
        "User-Agent": "Stripe/1.0 (+https://stripe.com/docs/webhooks)",
        "Stripe-Signature": f"t={sent_s},v1={signed}",
    }
    return _post(office, "stripe", body, headers)


def github(office: Office, delivery: str, secret: str = wordpress.GITHUB_SECRET) -> Answer:
    """Send a delivery as GitHub does: its docs, "Validating webhook deliveries"."""
    body = json.dumps({"zen": "Keep it logically awesome.", "hook_id": 1}).encode()
    signed = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    headers = {
        "User-Agent": "GitHub-Hookshot/044aadd",
        "X-GitHub-Event": "ping",
        "X-GitHub-Delivery": delivery,
        "X-Hub-Signature-256": f"sha256={signed}",
    }
    return _post(office, "github", body, headers)


def _post(
    office: Office, path: str, body: bytes, headers: dict[str, str], source: str | None = None
) -> Answer:
    headers = {"Accept": "*/*", "Content-Type": "application/json", **headers}
    return ask(
        office.client,
        f"/?rest_route=/shop/v1/{path}",
        method="POST",
        headers=headers,
        body=body,
        source=source,
        host=wordpress.HOST,
    )
