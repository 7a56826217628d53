"""An application as FastAPI users write them. None of its responses has Vary."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import FastAPI, Header, Request, Response, WebSocket
from fastapi.responses import HTMLResponse, JSONResponse, StreamingResponse

app = FastAPI()
KEPT = {"Cache-Control": "max-age=60"}


@app.get("/first")
def first() -> Response:
    """Say that it runs."""
    return Response("first")


@app.get("/contacts")
def contacts(request: Request, hx_request: Annotated[str | None, Header()] = None) -> HTMLResponse:
    """Return a page, or for htmx the list in it."""
    part = "<li>Ada</li>" if hx_request else "<html><ul><li>Ada</li></ul></html>"
    return HTMLResponse(part, headers=KEPT)


@app.get("/items")
def items(accept: Annotated[str, Header()] = "*/*") -> Response:
    """Return a page to browsers, data to others."""
    if accept.startswith("text/html"):
        return HTMLResponse("<html>items</html>", headers=KEPT)
    return JSONResponse(["items"], headers=KEPT)


@app.api_route("/heads", methods=["GET", "POST"])
def heads(request: Request, cookies: int = 0, size: int = 1) -> Response:
    """Say how large the head is that arrived; set so many cookies of this size."""
    head = sum(len(name) + len(value) + 4 for name, value in request.headers.raw)
    response = Response(str(head))
    for number in range(cookies):
        response.headers.append("Set-Cookie", f"c{number}={'v' * size}; Path=/")
    return response


go_on = asyncio.Event()
reports = 0


@app.get("/go")
async def go() -> str:
    """Have what is being sent go on."""
    go_on.set()
    return "gone"


async def _two(first: str, second: str) -> AsyncIterator[str]:
    go_on.clear()
    yield first
    await go_on.wait()
    yield second


@app.get("/events")
def events() -> StreamingResponse:
    """Send an event, and another when it is told to."""
    return StreamingResponse(_two("data: 1\n\n", "data: 2\n\n"), media_type="text/event-stream")


@app.get("/report")
def report() -> StreamingResponse:
    """Send a page that is made while it is read, and may be kept."""
    global reports  # noqa: PLW0603 one number for a program of one process
    reports += 1
    return StreamingResponse(
        _two(f"<p>{reports}</p>", "<p>end</p>"), headers=KEPT, media_type="text/html"
    )


@app.websocket("/chat")
async def chat(socket: WebSocket) -> None:
    """Send each message back."""
    await socket.accept()
    async for message in socket.iter_text():
        await socket.send_text(message)
