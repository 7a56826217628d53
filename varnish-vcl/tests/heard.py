"""A web server that answers each connection's first request and writes down what it heard.

heard.py FOLDER: its port is in FOLDER/port, the requests are in FOLDER/heard. VTC's own
server shows only the first header of a name.
"""

import socket
import sys
from pathlib import Path

ANSWER = (
    b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n"
    b"Cache-Control: max-age=60\r\n\r\na"
)

folder = Path(sys.argv[1])
with socket.create_server(("127.0.0.1", 0)) as listener:
    (folder / "port.new").write_text(str(listener.getsockname()[1]))
    (folder / "port.new").rename(folder / "port")
    while True:
        connection, _ = listener.accept()
        with connection, (folder / "heard").open("ab") as heard:
            head = b""
            while b"\r\n\r\n" not in head:
                head += connection.recv(4096)
            heard.write(head)
            heard.flush()
            connection.sendall(ANSWER)
