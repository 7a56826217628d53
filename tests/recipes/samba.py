"""A Samba file server on the office's server, whose shares are used past the box."""

import subprocess
from pathlib import Path

from tests.patience import wait_for
from tests.simulator.office import Office
from tests.simulator.office.server import ADDRESS

PORT = 445

_CONFIG = """\
[global]
server role = standalone server
smb ports = {port}
disable netbios = yes
map to guest = bad user
guest account = nobody
load printers = no
printing = bsd
logging = file
log file = {directory}/smbd.log
private dir = {directory}/private
lock directory = {directory}/lock
state directory = {directory}/state
cache directory = {directory}/cache
pid directory = {directory}/pid
ncalrpc dir = {directory}/ncalrpc
[files]
path = {share}
guest ok = yes
read only = no
"""


class Samba:
    """A share named `files`, open to all."""

    def __init__(self, office: Office):
        """Start it; the server must be awake."""
        self.office = office
        directory = office.server.directory / "samba"
        self.share = directory / "share"
        for place in ("", "private", "lock", "state", "cache", "pid", "ncalrpc", "share"):
            (directory / place).mkdir()
        self.share.chmod(0o777)
        config = directory / "smb.conf"
        values = {"directory": directory, "share": self.share, "port": PORT}
        config.write_text(_CONFIG.format(**values))
        argv: list[str | Path] = ["smbd", "--foreground", "--no-process-group", "-s", config]
        office.server.popen_inside(argv, log="smbd")
        wait_for(lambda: office.server.listens(PORT), "Samba")

    def start(self, command: str) -> subprocess.Popen[str]:
        """Start smbclient at the client with these commands; the server must be awake."""
        argv = ["smbclient", f"//{ADDRESS}/files", "-N", "-s", "/dev/null", "-c", command]
        return self.office.client.popen(argv, log="smbclient")

    def run(self, command: str) -> None:
        """Run smbclient to its end."""
        status = self.start(command).wait(timeout=60)
        assert status == 0, f"smbclient: {status}"
