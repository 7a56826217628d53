"""A web server that answers as each request says, and writes down what it heard.

site.py FOLDER: its port is in FOLDER/port when it returns; a child serves until the test and so
FOLDER is over. Requests are in FOLDER/heard. `UA-Answer: Status: 404 & Expires: 0` in a request are
status and headers of its answer; without it that may be kept for a minute. The body is
`answer 3.` for the third request.
"""

import socket
import sys
from pathlib import Path

from controller import TestOver, go_on_behind


def answer_to(head: str, number: int) -> bytes:
    """Return what the request's `UA-Answer` says."""
    asked = [
        line[11:].split(" & ") for line in head.split("\r\n") if line.startswith("UA-Answer: ")
    ]
    lines = asked[0] if asked else ["Cache-Control: max-age=60"]
    status = "".join(line[8:] for line in lines if line.startswith("Status: ")) or "200"
    lines = [line for line in lines if not line.startswith("Status: ")]
    text = f"answer {number}."
    body = f"Content-Length: {len(text)}\r\n\r\n{text}"
    if "Transfer-Encoding: chunked" in lines:
        body = f"\r\n3e8\r\n{'x' * 1000}\r\n0\r\n\r\n"
    first = f"HTTP/1.1 {status} Said"
    return ("\r\n".join([first, "Connection: close", *lines, ""]) + body).encode()


def main() -> None:
    """Listen, and serve in the background."""
    folder = Path(sys.argv[1])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        (folder / "port").write_text(str(listener.getsockname()[1]))
        go_on_behind()
        listener.settimeout(1)
        over, number = TestOver(folder), 0
        while not over():
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            with connection, (folder / "heard").open("ab") as heard:
                head = b""
                while b"\r\n\r\n" not in head and (data := connection.recv(4096)):
                    head += data
                heard.write(head)
                heard.flush()
                number += 1
                connection.sendall(answer_to(head.decode("latin-1"), number))


if __name__ == "__main__":
    main()
