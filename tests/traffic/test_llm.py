"""The recipe for a machine that runs a language model: OpenAI's client, a double of llama.cpp."""

import json
import os
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.clients import ask
from tests.e2e.test_services import refusal, script
from tests.patience import wait_for
from tests.simulator.office import Office, Settings
from tests.simulator.office.box import ADDRESS, toml
from tests.simulator.office.namespace import ROOT
from tests.traffic.conftest import PROGRAMS

__all__ = ["script"]

RECIPE = ROOT / "docs/recipes/llm.md"
PORT = 18080
"""The office's own programs have 8080 and 8081."""
KEY = {"Authorization": "Bearer sk-office"}
POLLED = ("/health", "/v1/models")
CLIENT = """
import sys
import openai

client = openai.OpenAI(base_url=sys.argv[1], api_key="sk-office", max_retries=0)
for line in sys.stdin:
    stream = client.chat.completions.create(
        model="qwen3-0.6b", messages=[{"role": "user", "content": line.strip()}], stream=True
    )
    for chunk in stream:
        if chunk.choices[0].delta.content:
            print(chunk.choices[0].delta.content, flush=True)
    print("END", flush=True)
"""


def recipe() -> dict[str, Any]:
    """Return the page's configuration, for the office's server."""
    _, _, text = RECIPE.read_text().partition("```toml\n")
    said = tomllib.loads(text.partition("```")[0])
    [server] = said["server"]
    assert server["port"] == 8080
    ours = {name: server[name] for name in ("ready", "hold")} | {"port": PORT}
    rules = [{**rule, "server": "web"} for rule in said["rule"]]
    return {"server": ours, "rule": rules}


@pytest.fixture(scope="module")
def server() -> Iterator[Office]:
    config = recipe()
    with Office(keep=ROOT / "build/traffic/llm", board=Settings(sleep_s=0.2, wake_s=0.2)) as office:
        program: list[str | Path] = [sys.executable, PROGRAMS / "llm_app.py", str(PORT)]
        office.server.popen_inside(program, log="llm")
        wait_for(lambda: office.server.listens(PORT), "the double")
        office.box.start(**config)
        office.box.await_state("awake")
        yield office


@pytest.fixture
def client(server: Office) -> Iterator[subprocess.Popen[str]]:
    """OpenAI's, which keeps its connection from one question to the next."""
    argv = [sys.executable, "-c", CLIENT, f"http://{ADDRESS}/v1"]
    with subprocess.Popen(
        server.client.argv(argv),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "build/traffic/python")},
    ) as process:
        yield process
        process.terminate()


def next_word(office: Office) -> None:
    assert ask(office.client, "/next").status == 200


def conversation(office: Office, client: subprocess.Popen[str]) -> None:
    """Ask, and see each word before the next is made."""
    assert client.stdin
    assert client.stdout
    client.stdin.write("one two three\n")
    client.stdin.flush()
    assert client.stdout.readline() == "one \n"
    for word in ("two", "three"):
        next_word(office)
        assert client.stdout.readline() == f"{word} \n"
    assert client.stdout.readline() == "END\n"


def test_a_question_wakes_the_machine_and_the_reply_arrives_word_by_word(
    server: Office, client: subprocess.Popen[str]
) -> None:
    conversation(server, client)
    for _ in range(3):
        server.box.sleep()
        conversation(server, client)
        wake = server.box.wakes()[0]
        assert (wake["class"], wake["path"]) == ("api", "/v1/chat/completions")
    answer = ask(
        server.client,
        "/v1/chat/completions",
        method="POST",
        headers={**KEY, "Content-Type": "application/json"},
        body=json.dumps({"messages": [{"role": "user", "content": "Hi"}]}).encode(),
    )
    assert json.loads(answer.body)["choices"][0]["message"]["content"] == "Hi"


def test_looks_at_health_and_models_neither_keep_it_awake_nor_wake_it(server: Office) -> None:
    server.box.wake()
    for path in POLLED:
        assert ask(server.client, path, headers=KEY).status == 200, path
    config = server.box.default_config(**recipe())
    config["server"][0]["policy"] = {"name": "timeout", "idle_s": 2}
    server.box.api("PUT", "/v1/config", toml(config).encode())

    def asleep() -> bool:
        for path in POLLED:
            for headers in (KEY, {}):
                ask(server.client, path, headers=headers)
        return str(server.box.status()["state"]) == "asleep"

    wait_for(asleep, "sleep, whoever looks")
    wakes = len(server.box.wakes())
    until_s = time.monotonic() + 2
    while time.monotonic() < until_s:
        assert asleep()
    answer = ask(server.client, "/v1/models", headers=KEY)
    assert (answer.status, answer.headers["x-naproxy"]) == (503, "refused")
    assert len(server.box.wakes()) == wakes
    server.box.reconfigure(**recipe())
    server.box.wake()


def test_a_busy_graphics_processor_keeps_it_awake(server: Office, script: Path) -> None:
    tool = script / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho '0, 97'\n")
    tool.chmod(0o755)
    assert "sleep.busy_gpu" in refusal(server)
    tool.write_text("#!/bin/sh\necho '0, 3'\n")
    server.box.sleep()
    server.box.wake()
