"""An application with a login, as Flask's users write them."""

import threading
from collections.abc import Iterator

from flask import Flask, Response, jsonify, make_response, request

app = Flask(__name__)


@app.get("/first")
def first() -> str:
    """Say that it runs."""
    return "first"


@app.get("/invoices/<name>.pdf")
def invoice(name: str) -> Response:
    """Return the customer's file, or the login page with 200."""
    if "session" not in request.cookies:
        response = make_response("<html>Log in</html>")
        response.headers["Cache-Control"] = "public, max-age=60"
        return response
    return Response(f"%PDF-1.4 {name} of {request.cookies['session']}", mimetype="application/pdf")


@app.get("/report")
def report() -> Response:
    """Choose by Accept, and say nothing of it."""
    best = request.accept_mimetypes.best_match(["application/json", "text/html"])
    made = (
        jsonify(kind="data") if best == "application/json" else make_response("<html>page</html>")
    )
    made.headers["Cache-Control"] = "public, max-age=60"
    return made


@app.get("/news")
def news() -> Response:
    """Return a page by a server that knows HTTP/1.0 best; each time another."""
    app.config["visits"] = app.config.get("visits", 0) + 1
    response = make_response(f"<html>{app.config['visits']}</html>")
    response.headers["Pragma"] = "no-cache"
    response.headers["Cache-Control"] = "no-transform"
    return response


go_on = threading.Event()


@app.get("/go")
def go() -> str:
    """Have the next event sent."""
    go_on.set()
    return "gone"


@app.get("/events")
def events() -> Response:
    """Send an event, and another when it is told to; over HTTP/1.0, as this server does."""
    go_on.clear()

    def two() -> Iterator[str]:
        yield "data: 1\n\n"
        go_on.wait()
        yield "data: 2\n\n"

    return Response(two(), mimetype="text/event-stream")
