"""An application as offices have them: an API with keys, events, a camera, by FastAPI."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException, Response
from fastapi.responses import HTMLResponse, StreamingResponse
from fastapi.security import APIKeyHeader
from sse_starlette import EventSourceResponse

PEOPLE = {"key-a": "alice", "key-b": "bob"}
PIECE = b"x" * 65536

app = FastAPI()
key = APIKeyHeader(name="X-API-Key", auto_error=False)
visits: dict[str, int] = {}


@app.get("/users/me")
def me(given: Annotated[str | None, Depends(key)]) -> dict[str, object]:
    """Say who has this key. The response says nothing of caches."""
    if given not in PEOPLE:
        raise HTTPException(401, "Invalid API key")
    return {"username": PEOPLE[given], "salary": 1}


@app.get("/page")
def page() -> HTMLResponse:
    """Return a page that says nothing of caches either."""
    return HTMLResponse(f"<p>{visit('/page')}</p>")


@app.get("/kind")
def kind(content_type: str) -> Response:
    """Return content of this type."""
    # Not as media_type: Starlette would add a charset.
    return Response(str(visit(content_type)), headers={"Content-Type": content_type})


@app.get("/events")
async def events() -> EventSourceResponse:
    """Count, for ever, by the usual library."""
    return EventSourceResponse({"data": text} async for text in counted("/events"))


@app.get("/stream/{name}")
async def stream(name: str, content_type: str) -> StreamingResponse:
    """Count, for ever, in this type; as one who wants everything cached."""
    headers = {"Cache-Control": "public, max-age=60", "Content-Type": content_type}
    return StreamingResponse((line(text) async for text in counted(name)), headers=headers)


@app.get("/camera")
async def camera(pictures: int) -> StreamingResponse:
    """Send so many pictures; then nothing moves any more."""
    content_type = "multipart/x-mixed-replace; boundary=frame"
    return StreamingResponse(taken(pictures), media_type=content_type)


def visit(name: str) -> int:
    """Return which visit this is."""
    visits[name] = visits.get(name, 0) + 1
    return visits[name]


def line(text: str) -> str:
    return text + "\n"


async def counted(name: str) -> AsyncIterator[str]:
    number, message = visit(name), 0
    while True:
        yield f"visit {number} message {message}"
        message += 1
        await asyncio.sleep(0.2)


async def taken(pictures: int) -> AsyncIterator[bytes]:
    head = b"--frame\r\nContent-Type: image/jpeg\r\nContent-Length: %d\r\n\r\n" % len(PIECE)
    for _ in range(pictures):
        yield head + PIECE + b"\r\n"
        await asyncio.sleep(0)
    await asyncio.sleep(3600)
