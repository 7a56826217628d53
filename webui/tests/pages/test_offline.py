"""The files that make the web interface an app: they need no login, and are complete."""

from __future__ import annotations

import struct

from flask.testing import FlaskClient


def test_a_browser_gets_it_before_anybody_has_logged_in(visitor: FlaskClient) -> None:
    for path in ("/manifest.webmanifest", "/worker.js", "/offline"):
        answer = visitor.get(path)
        assert answer.status_code == 200, path
        assert answer.headers["Cache-Control"] in ("no-cache", "no-store"), path


def test_each_icon_of_the_manifest_has_the_size_that_it_says(visitor: FlaskClient) -> None:
    icons = visitor.get("/manifest.webmanifest").get_json(force=True)["icons"]
    assert {(each["sizes"], each["purpose"]) for each in icons} == {
        (size, purpose) for size in ("192x192", "512x512") for purpose in ("any", "maskable")
    }
    for each in icons:
        answer = visitor.get(each["src"])
        width, height = struct.unpack(">II", answer.data[16:24])
        assert (answer.mimetype, f"{width}x{height}") == ("image/png", each["sizes"])
