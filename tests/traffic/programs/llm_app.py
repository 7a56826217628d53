"""A double of llama.cpp's server: the OpenAI API, as its README and its responses have it.

`llm_app.py PORT`. A model is loaded in half a second; until then each path says 503. The API key
is `sk-office`. The reply repeats the last message, a word at a time; each word but the first
waits for the next `GET /next`, so that a test sees which word came when.
"""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, StreamingResponse

MODEL = "qwen3-0.6b"
KEY = "sk-office"
PUBLIC = ("/health", "/v1/health", "/models", "/v1/models", "/next")
LOADED_S = time.monotonic() + 0.5

app = FastAPI()
words = asyncio.Semaphore(0)


def _error(status: int, message: str, kind: str) -> JSONResponse:
    return JSONResponse({"error": {"code": status, "message": message, "type": kind}}, status)


@app.middleware("http")
async def guard(request: Request, call_next: Any) -> Any:
    """Ask for the key where llama.cpp does."""
    if time.monotonic() < LOADED_S:
        return _error(503, "Loading model", "unavailable_error")
    given = request.headers.get("authorization")
    if request.url.path not in PUBLIC and given != f"Bearer {KEY}":
        return _error(401, "Invalid API Key", "authentication_error")
    return await call_next(request)


@app.get("/health")
def health() -> dict[str, str]:
    """Say that the model is loaded."""
    return {"status": "ok"}


@app.get("/v1/models")
def models() -> dict[str, Any]:
    """List the model."""
    model = {"id": MODEL, "object": "model", "created": int(time.time()), "owned_by": "llamacpp"}
    return {"object": "list", "data": [model]}


@app.get("/next")
async def give_word() -> str:
    """Let the next word go."""
    words.release()
    return "given"


@app.post("/v1/chat/completions")
async def chat(request: Request) -> Any:
    """Reply to the last message, in one piece or as a stream."""
    asked = await request.json()
    reply = asked["messages"][-1]["content"].split()
    if asked.get("stream"):
        return StreamingResponse(_stream(reply), media_type="text/event-stream")
    message = {"role": "assistant", "content": " ".join(reply)}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {**_head("chat.completion"), "choices": [choice]}


def _head(kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": kind, "created": int(time.time()), "model": MODEL}


async def _stream(reply: list[str]) -> AsyncIterator[str]:
    yield _event({"role": "assistant", "content": None})
    for number, word in enumerate(reply):
        if number:
            await words.acquire()
        yield _event({"content": f"{word} "})
    yield _event({}, "stop")
    yield "data: [DONE]\n\n"


def _event(delta: dict[str, Any], finished: str | None = None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finished}
    return f"data: {json.dumps({**_head('chat.completion.chunk'), 'choices': [choice]})}\n\n"


if __name__ == "__main__":
    uvicorn.run(app, host="0.0.0.0", port=int(sys.argv[1]), log_level="warning")
