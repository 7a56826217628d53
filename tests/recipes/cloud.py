"""A double of Nextcloud's server, as far as its desktop client and WebDAV clients ask it.

No Nextcloud: Debian has none. It speaks what `nextcloudcmd` needs: status.php, the capabilities,
WebDAV with its properties, ETags that change up to the root, and uploads in chunks.
`python -m tests.recipes.cloud PORT FOLDER` serves FOLDER.
"""

import base64
import hashlib
import http.server
import json
import os
import shutil
import sys
import threading
from email.utils import formatdate
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit
from xml.sax.saxutils import escape

USER, PASSWORD = "ada", "analytical engine"
FILES = f"/remote.php/dav/files/{USER}"
UPLOADS = f"/remote.php/dav/uploads/{USER}"

_STATUS = {
    "installed": True,
    "maintenance": False,
    "needsDbUpgrade": False,
    "version": "28.0.14.1",
    "versionstring": "28.0.14",
    "edition": "",
    "productname": "Nextcloud",
    "extendedSupport": False,
}
_CAPABILITIES = {
    "version": {"major": 28, "minor": 0, "micro": 14, "string": "28.0.14", "edition": ""},
    "capabilities": {
        "core": {"pollinterval": 60, "webdav-root": "remote.php/webdav"},
        "dav": {"chunking": "1.0"},
        "files": {"bigfilechunking": True},
    },
}
_USER = {"id": USER, "display-name": "Ada", "displayname": "Ada", "email": "", "enabled": True}

_MULTISTATUS = (
    '<?xml version="1.0"?><d:multistatus xmlns:d="DAV:" xmlns:oc="http://owncloud.org/ns"'
    ' xmlns:nc="http://nextcloud.org/ns">{responses}</d:multistatus>'
)
_RESPONSE = (
    "<d:response><d:href>{href}</d:href><d:propstat><d:prop>"
    "<d:getlastmodified>{changed}</d:getlastmodified><d:getetag>&quot;{etag}&quot;</d:getetag>"
    "<oc:id>{id}</oc:id><oc:fileid>{id}</oc:fileid><oc:permissions>{rights}</oc:permissions>"
    "<oc:size>{size}</oc:size>{kind}</d:prop><d:status>HTTP/1.1 200 OK</d:status></d:propstat>"
    "</d:response>"
)
_PLACES = {FILES: "files", "/remote.php/webdav": "files", UPLOADS: "uploads"}


def etag(path: Path) -> str:
    """Return what changes when the file, or anything in the folder, does."""
    sort = hashlib.sha1(usedforsecurity=False)
    if path.is_dir():
        for each in sorted(path.iterdir()):
            sort.update(f"{each.name} {etag(each)}\n".encode())
    else:
        about = path.stat()
        sort.update(f"{about.st_ino} {about.st_size} {about.st_mtime_ns}".encode())
    return sort.hexdigest()


class Cloud(http.server.BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    root: Path

    def do_GET(self) -> None:
        """Serve a file, or one of the pages beside them."""
        path = urlsplit(self.path).path
        pages: dict[str, Any] = {
            "/ocs/v1.php/cloud/capabilities": _CAPABILITIES,
            "/ocs/v2.php/cloud/capabilities": _CAPABILITIES,
            "/ocs/v1.php/cloud/user": _USER,
            "/ocs/v2.php/cloud/user": _USER,
        }
        if path == "/status.php":
            self._say(200, json.dumps(_STATUS).encode(), {"Content-Type": "application/json"})
        elif not self._known():
            pass
        elif path in pages:
            meta = {"status": "ok", "statuscode": 100, "message": "OK"}
            said = {"ocs": {"meta": meta, "data": pages[path]}}
            self._say(200, json.dumps(said).encode(), {"Content-Type": "application/json"})
        elif (file := self._file()) and file.is_file():
            self._say(200, file.read_bytes(), self._about(file))
        else:
            self._say(404)

    def do_HEAD(self) -> None:
        """Say what GET would, without a body."""
        self.do_GET()

    def do_OPTIONS(self) -> None:
        """Say what WebDAV there is."""
        verbs = ("GET", "HEAD", "PUT", "PROPFIND", "MKCOL", "DELETE", "MOVE")
        self._say(200, headers={"DAV": "1, 3", "Allow": ", ".join(verbs)})

    def do_PROPFIND(self) -> None:
        """List a folder."""
        self._body()
        if not self._known():
            return
        path = self._file()
        if not path or not path.exists():
            self._say(404)
            return
        listed = [path]
        if path.is_dir() and self.headers.get("Depth", "1") != "0":
            listed += sorted(path.iterdir())
        answer = _MULTISTATUS.format(responses="".join(map(self._response, listed)))
        self._say(207, answer.encode(), {"Content-Type": "application/xml; charset=utf-8"})

    def do_MKCOL(self) -> None:
        """Make a folder."""
        self._body()
        if self._known() and (path := self._file()):
            if path.exists():
                self._say(405)
                return
            path.mkdir()
            self._say(201, headers=self._about(path))

    def do_PUT(self) -> None:
        """Take a file, or a chunk of one; it is there when it has come whole."""
        body = self._body()
        if not self._known() or not (path := self._file()):
            return
        if not path.parent.is_dir():
            self._say(409)
            return
        if (wanted := self.headers.get("If-Match")) and not (
            path.exists() and wanted.strip('"') == etag(path)
        ):
            self._say(412)
            return
        new = not path.exists()
        part = self.root / f".part-{threading.get_ident()}"
        part.write_bytes(body)
        part.replace(path)
        self._say(201 if new else 204, headers={**self._mtime(path), **self._about(path)})

    def do_DELETE(self) -> None:
        """Remove a file or folder."""
        self._body()
        if self._known() and (path := self._file()):
            if path.is_dir():
                shutil.rmtree(path)
            elif path.exists():
                path.unlink()
            else:
                self._say(404)
                return
            self._say(204)

    def do_MOVE(self) -> None:
        """Rename; of the chunks' `.file`: put them together."""
        self._body()
        if not self._known() or not (path := self._file()):
            return
        target = self._file(urlsplit(self.headers["Destination"]).path)
        assert target
        new = not target.exists()
        if path.name == ".file":
            whole = self.root / f".part-{threading.get_ident()}"
            with whole.open("wb") as file:
                for chunk in sorted(path.parent.iterdir()):
                    file.write(chunk.read_bytes())
            whole.replace(target)
            shutil.rmtree(path.parent)
        else:
            path.replace(target)
        self._say(201 if new else 204, headers={**self._mtime(target), **self._about(target)})

    def _known(self) -> bool:
        token = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        if self.headers.get("Authorization") == f"Basic {token}":
            return True
        self._say(401, headers={"WWW-Authenticate": 'Basic realm="Nextcloud"'})
        return False

    def _file(self, path: str = "") -> Path | None:
        """Return what the path means; without one of ours it is answered with 404."""
        wanted = unquote(path or urlsplit(self.path).path).rstrip("/")
        for prefix, place in _PLACES.items():
            rest = wanted.removeprefix(prefix)
            if wanted.startswith(prefix) and ".." not in rest.split("/"):
                self._prefix = prefix
                return self.root / place / rest.strip("/")
        self._say(404)
        return None

    def _mtime(self, path: Path) -> dict[str, str]:
        if not (mtime := self.headers.get("X-OC-Mtime")):
            return {}
        os.utime(path, (int(mtime), int(mtime)))
        return {"X-OC-MTime": "accepted"}

    def _about(self, path: Path) -> dict[str, str]:
        tag = etag(path)
        return {"ETag": f'"{tag}"', "OC-ETag": f'"{tag}"', "OC-FileId": _id(path)}

    def _response(self, path: Path) -> str:
        place = self.root / "files"
        inner = path.relative_to(place).as_posix() if path.is_relative_to(place) else path.name
        href = f"{self._prefix}/{'' if inner == '.' else inner}"
        folder = path.is_dir()
        kind = f"<d:resourcetype/><d:getcontentlength>{path.stat().st_size}</d:getcontentlength>"
        return _RESPONSE.format(
            href=escape(quote(href.rstrip("/") + "/" * folder)),
            changed=formatdate(path.stat().st_mtime, usegmt=True),
            etag=etag(path),
            id=_id(path),
            rights="RGDNVCK" if folder else "RGDNVW",
            size=0 if folder else path.stat().st_size,
            kind="<d:resourcetype><d:collection/></d:resourcetype>" if folder else kind,
        )

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _say(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _id(path: Path) -> str:
    return f"{path.stat().st_ino:08d}office"


def main() -> None:
    """Serve until killed."""
    Cloud.root = Path(sys.argv[2])
    for place in ("files", "uploads"):
        (Cloud.root / place).mkdir(parents=True, exist_ok=True)
    http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Cloud).serve_forever()


if __name__ == "__main__":
    main()
