"""/update with a real controller on a machine that is not updated by images."""

from __future__ import annotations

from http import HTTPStatus

import pytest
from conftest import speak
from flask.testing import FlaskClient

pytestmark = pytest.mark.usefixtures("box")

WHOLE = b"no bundle at all"


def test_an_incomplete_upload_or_one_for_another_use_is_refused(
    client: FlaskClient,
) -> None:
    for size, kind in ((len(WHOLE) + 1, "image"), (len(WHOLE), "log")):
        asked = {"name": "x", "size": size, "kind": kind}
        upload = client.post("/api/uploads", json=asked).json["id"]  # type: ignore[index]
        client.put(f"/api/uploads/{upload}?offset=0", data=WHOLE)
        answer = client.post("/api/update/check", json={"upload": upload})
        assert answer.status_code == HTTPStatus.CONFLICT, kind


def test_only_an_upload_can_be_looked_at(client: FlaskClient) -> None:
    for upload in ("../../etc/shadow", "/etc/shadow", "x" * 22, "%00"):
        answer = client.post("/api/update/check", json={"upload": upload})
        assert answer.status_code == HTTPStatus.NOT_FOUND, upload


def test_why_it_is_not_updated_is_said_in_ones_language(client: FlaskClient) -> None:
    for language, words in (("en", "is not updated by images"), ("de", "wird nicht durch Images")):
        speak(client, language)
        told = client.get("/api/update").json
        assert told is not None
        assert (told["supported"], told["job"]["phase"]) == (False, "none")
        assert words in told["problem"]
        assert told["problem_reason"]["code"] == "update.not_by_images"
