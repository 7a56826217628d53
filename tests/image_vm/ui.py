"""The box's web interface as a browser and as a program use it: HTTPS, a certificate of its own."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import io
import json
import re
import ssl
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from tests.simulator.office.namespace import Namespace, OfficeError

PORT: Final = 8443
_PIECE_BYTES: Final = 1 << 20
_CSRF: Final = re.compile(r'<meta name="csrf-token" content="([^"]+)">')
_COOKIE: Final = re.compile(r"(__Host-naproxy=[^;]+)")


class RefusedError(OfficeError):
    """The web interface refused; `status` and its words."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(f"{status}: {words}")
        self.status = status


class Ui:
    """Asks from `client`'s place. Its certificate is not checked but shown: `fingerprint`."""

    def __init__(self, client: Namespace, address: str) -> None:
        self._client = client
        self._address = address
        self._token = ""

    def claim(self, code: str, name: str, password: str) -> None:
        """Make the first user, and a token for all that follows."""
        form = {"code": code, "name": name, "password": password, "password_again": password}
        status, headers, body = self._ask(
            "POST",
            "/claim",
            urlencode(form).encode(),
            {"Content-Type": "application/x-www-form-urlencoded", "Origin": self._origin()},
        )
        cookie = _COOKIE.search(headers.get("set-cookie", ""))
        if status != 303 or cookie is None:
            raise RefusedError(status, body.decode(errors="replace")[:300])
        session = {"Cookie": cookie[1], "Origin": self._origin()}
        # The guide's first page: it has the token against forged requests, as every page.
        _, _, page = self._ask("GET", "/account", b"", session)
        csrf = _CSRF.search(page.decode())
        if csrf is None:
            raise OfficeError("/account has no csrf-token")
        made = self._json(
            "POST",
            "/api/account/tokens",
            {"name": "image test", "scope": "change"},
            {**session, "X-CSRF-Token": csrf[1]},
        )
        self._token = made["secret"]

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Ask the API as a program with its token; RefusedError if it refuses."""
        return self._json(method, path, body, {"Authorization": f"Bearer {self._token}"})

    def answers(self) -> bool:
        """Whether it answers, and its controller."""
        with contextlib.suppress(OSError, http.client.HTTPException):
            status, _, body = self._ask("GET", "/api/health", b"", {}, timeout_s=10.0)
            return status == 200 and bool(json.loads(body)["controller"])
        return False

    def upload(self, file: Path) -> str:
        """Send an image in pieces; return the upload's id."""
        size = file.stat().st_size
        begun = {"name": file.name, "size": size, "kind": "image"}
        upload = self.call("POST", "/api/uploads", begun)
        headers = {
            "Authorization": f"Bearer {self._token}",
            "Content-Type": "application/octet-stream",
        }
        with file.open("rb") as data, contextlib.closing(self._connected()) as connection:
            while not upload["complete"]:
                data.seek(upload["offset"])
                path = f"/api/uploads/{upload['id']}?offset={upload['offset']}"
                piece = data.read(min(_PIECE_BYTES, upload["piece_bytes"]))
                upload = _understood(*_asked(connection, "PUT", path, piece, headers))
        return str(upload["id"])

    def diagnostics(self) -> dict[str, str]:
        """Return the texts of the box's diagnostics by name."""
        self.call("POST", "/api/box/diagnostics", {})
        headers = {"Authorization": f"Bearer {self._token}"}
        status, _, data = self._ask("GET", "/api/box/diagnostics/file", b"", headers)
        if status != 200:
            raise RefusedError(status, data.decode(errors="replace")[:300])
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as tar:
            return {
                Path(member.name).name: file.read().decode()
                for member in tar
                if (file := tar.extractfile(member))
            }

    def fingerprint(self) -> str:
        """Return the SHA-256 of the certificate that is shown, in hexadecimal digits."""
        with contextlib.closing(self._connected()) as connection:
            assert isinstance(connection.sock, ssl.SSLSocket)
            shown = connection.sock.getpeercert(binary_form=True)
        assert shown
        return hashlib.sha256(shown).hexdigest()

    def _json(self, method: str, path: str, body: object, headers: Mapping[str, str]) -> Any:
        data = b"" if body is None else json.dumps(body).encode()
        kind = {"Content-Type": "application/json"} if data else {}
        return _understood(*self._ask(method, path, data, {**headers, **kind}))

    def _ask(
        self,
        method: str,
        path: str,
        body: bytes,
        headers: Mapping[str, str],
        timeout_s: float = 120.0,
    ) -> tuple[int, dict[str, str], bytes]:
        with contextlib.closing(self._connected(timeout_s)) as connection:
            return _asked(connection, method, path, body, headers)

    def _origin(self) -> str:
        return f"https://{self._address}:{PORT}"

    def _connected(self, timeout_s: float = 120.0) -> http.client.HTTPConnection:
        trusting = ssl.create_default_context()
        trusting.check_hostname = False
        trusting.verify_mode = ssl.CERT_NONE
        connection = http.client.HTTPConnection(self._address, PORT, timeout=timeout_s)
        raw = self._client.connect(self._address, PORT, timeout_s=timeout_s)
        raw.settimeout(timeout_s)
        connection.sock = trusting.wrap_socket(raw)
        return connection


def _asked(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: bytes,
    headers: Mapping[str, str],
) -> tuple[int, dict[str, str], bytes]:
    connection.request(method, path, body or None, dict(headers))
    answer = connection.getresponse()
    said = {name.lower(): value for name, value in answer.getheaders()}
    return answer.status, said, answer.read()


def _understood(status: int, headers: Mapping[str, str], body: bytes) -> Any:
    del headers
    try:
        said = json.loads(body or b"{}")
    except ValueError:
        said = {"error": body.decode(errors="replace")[:300]}
    if status >= 400:
        raise RefusedError(status, str(said.get("error", said)))
    return said
