"""/update with a real controller on a machine that is not updated by images."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

pytestmark = pytest.mark.usefixtures("box")

WHOLE = b"no bundle at all"


def test_a_machine_without_rauc_says_so(client: FlaskClient) -> None:
    told = client.get("/api/update").json
    assert told is not None
    assert (told["supported"], told["job"]["phase"]) == (False, "none")
    assert "not updated by images" in told["problem"]


def test_an_upload_that_is_not_whole_is_not_looked_at(client: FlaskClient) -> None:
    made: Any = client.post("/api/uploads", json={"name": "x", "size": 9, "kind": "image"}).json
    answer = client.post("/api/update/check", json={"upload": made["id"]})
    assert answer.status_code == HTTPStatus.CONFLICT


def test_a_file_for_another_purpose_is_not_looked_at(client: FlaskClient) -> None:
    asked = {"name": "x", "size": len(WHOLE), "kind": "log"}
    made: Any = client.post("/api/uploads", json=asked).json
    client.put(
        f"/api/uploads/{made['id']}?offset=0",
        data=WHOLE,
        content_type="application/octet-stream",
    )
    answer = client.post("/api/update/check", json={"upload": made["id"]})
    assert answer.status_code == HTTPStatus.CONFLICT


def test_only_an_upload_can_be_looked_at(client: FlaskClient) -> None:
    for upload in ("../../etc/shadow", "/etc/shadow", "x" * 22, "%00"):
        answer = client.post("/api/update/check", json={"upload": upload})
        assert answer.status_code == HTTPStatus.NOT_FOUND, upload


def test_what_needs_an_image_is_refused_in_words(client: FlaskClient) -> None:
    for path, body in (
        ("install", {"older": True}),
        ("activate", {"slot": "other"}),
        ("restart", {}),
    ):
        answer = client.post(f"/api/update/{path}", json=body)
        assert answer.status_code == HTTPStatus.CONFLICT, path
        assert answer.json, path
        assert answer.json["error"], path


def test_why_it_is_not_updated_is_said_in_the_users_language(
    app: Flask, client: FlaskClient
) -> None:
    users = app.extensions["naproxy_keys"].users
    for language, words in (("en", "is not updated by images"), ("de", "wird nicht durch Images")):
        users.set_language(users.all()[0], language)
        told = client.get("/api/update").json
        assert told is not None
        assert words in told["problem"]
        assert told["problem_reason"]["code"] == "update.not_by_images"
