"""An application as FastAPI users write them. None of its responses has Vary."""

from typing import Annotated

from fastapi import FastAPI, Header, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse

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
