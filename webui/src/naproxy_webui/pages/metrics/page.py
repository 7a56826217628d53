"""/metrics: the figures of now in Prometheus' form, for a token of scope `metrics`."""

from __future__ import annotations

from flask import Blueprint, Response
from naproxy.api.shapes import string

from naproxy_webui.http.api import route
from naproxy_webui.http.control import control

blueprint = Blueprint("metrics", __name__)


@route(blueprint, "GET", "/metrics", answer=string(), media="text/plain", scope="metrics")
def metrics() -> Response:
    """The figures of now, for Prometheus."""
    text = control().get("/v1/metrics")["text"]
    return Response(text, content_type="text/plain; version=0.0.4; charset=utf-8")
