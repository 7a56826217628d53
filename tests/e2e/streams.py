"""As much of HTTP/2 (RFC 9113) as one WebSocket over one of its streams needs (RFC 8441)."""

import socket
import ssl
import struct

from tests.simulator.office import websocket

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RST, _SETTINGS, _GOAWAY = 0, 1, 3, 4, 7
_END_HEADERS, _ACK = 0x4, 0x1
_CONNECT_PROTOCOL = 8
"""SETTINGS_ENABLE_CONNECT_PROTOCOL."""
_STATUS_200 = 0x88
"""`:status: 200` as HPACK's static table has it (RFC 7541, appendix A)."""


class WebSocket:
    """A WebSocket on stream 1 of a connection that ALPN has made HTTP/2."""

    def __init__(self, sock: ssl.SSLSocket, host: str, path: str):
        assert sock.selected_alpn_protocol() == "h2"
        self._sock = sock
        self._read = sock.makefile("rb")
        self._bytes = b""
        sock.sendall(_PREFACE + _frame(_SETTINGS, 0, 0, b""))
        kind, flags, settings = self._next()
        while kind != _SETTINGS or flags & _ACK:
            kind, flags, settings = self._next()
        pairs = [struct.unpack_from("!HI", settings, at) for at in range(0, len(settings), 6)]
        self.offered = dict(pairs).get(_CONNECT_PROTOCOL) == 1
        """Whether the other side says that it can do this at all."""
        headers = [
            (":method", "CONNECT"),
            (":protocol", "websocket"),
            (":scheme", "https"),
            (":path", path),
            (":authority", host),
            ("sec-websocket-version", "13"),
        ]
        block = b"".join(_literal(name) + _literal(value, b"") for name, value in headers)
        sock.sendall(_frame(_SETTINGS, _ACK, 0, b"") + _frame(_HEADERS, _END_HEADERS, 1, block))

    def accepted(self) -> bool:
        """Wait for the answer; whether it is 200."""
        while True:
            kind, _, payload = self._next()
            if kind == _HEADERS:
                return payload[0] == _STATUS_200
            assert kind not in (_RST, _GOAWAY), (kind, payload)

    def echo(self, message: bytes) -> bytes:
        """Send a binary message and return the next one."""
        frame = websocket.frame(websocket.BINARY, message, client=True)
        self._sock.sendall(_frame(_DATA, 0, 1, frame))
        return websocket.read(self)[1]

    def read(self, size: int) -> bytes:
        """Return `size` bytes of the stream."""
        while len(self._bytes) < size:
            kind, _, payload = self._next()
            assert kind not in (_RST, _GOAWAY), (kind, payload)
            if kind == _DATA:
                self._bytes += payload
        found, self._bytes = self._bytes[:size], self._bytes[size:]
        return found

    def _next(self) -> tuple[int, int, bytes]:
        head = self._read.read(9)
        if len(head) < 9:
            raise EOFError("the other side hung up")
        high, low, kind, flags, _ = struct.unpack("!BHBBI", head)
        return kind, flags, self._read.read((high << 16) + low)


def connect(sock: socket.socket, host: str, cafile: str) -> ssl.SSLSocket:
    """Speak TLS on a connection, and only HTTP/2 in it."""
    context = ssl.create_default_context(cafile=cafile)
    context.set_alpn_protocols(["h2"])
    return context.wrap_socket(sock, server_hostname=host)


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack("!BHBBI", 0, len(payload), kind, flags, stream) + payload


def _literal(text: str, before: bytes = b"\0") -> bytes:
    """Write a string of HPACK, the first of a header field that is not to be indexed."""
    assert len(text) < 127
    return before + bytes([len(text)]) + text.encode()
