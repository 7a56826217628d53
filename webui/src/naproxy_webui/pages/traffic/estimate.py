"""/api/traffic/estimate: estimates the savings of a box in an office from a web server's log."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import asdict
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from flask import Blueprint, current_app
from naproxy.api.shapes import (
    ANY_OBJECT,
    array,
    choice,
    integer,
    nullable,
    number,
    obj,
    string,
)
from naproxy.core.reason import reason_of
from naproxy.core.words import words

from naproxy_webui.http.api import attachment, json_response, route
from naproxy_webui.http.child import CANCELLED, DONE, FAILED, NONE, RUNNING, WHY
from naproxy_webui.http.control import control
from naproxy_webui.http.errors import ApiError
from naproxy_webui.i18n.texts import language, t
from naproxy_webui.office.ranges import utc_offset
from naproxy_webui.options import Settings
from naproxy_webui.pages.traffic.estimates import Progress, Question, estimates
from naproxy_webui.pages.uploads.uploads import KINDS, LEAVE_FREE_BYTES, uploads

blueprint = Blueprint("traffic_estimate", __name__)

_SPACE: Final = 2
"""Free disk that is wanted for each byte of a log: a request takes 24 of them, a line more."""

_PROGRESS = obj(
    state=choice(NONE, RUNNING, DONE, FAILED, CANCELLED),
    stage=nullable(choice("reading", "comparing")),
    share=nullable(number(minimum=0, maximum=1, description="of the stage")),
    entries=integer(description="requests that were read"),
    log=string(),
    names=array(string()),
    begun_s=nullable(number()),
    ended_s=nullable(number()),
    why=nullable(choice(*WHY)),
    words=string(description="what the program said, if it failed"),
)
_WATTS: Final = {"minimum": 0, "maximum": 100_000}
_QUESTION = obj(
    uploads=array(string(maxLength=64), minItems=1, maxItems=KINDS["log"].most_files),
    on_w=number(description="watts of the server awake", **_WATTS),
    off_w=number(description="watts of the server asleep", **_WATTS),
    proxy_w=number(description="watts of the box", **_WATTS),
    wake_s=number(minimum=0, maximum=600, description="seconds the server takes to wake"),
    fraction=number(minimum=0.0001, maximum=1, description="of requests that may wait"),
    delta_s=number(minimum=0, maximum=60, description="longer than this is waiting"),
    price=nullable(number(minimum=0, maximum=100_000, description="of a kWh")),
)


@route(
    blueprint,
    "POST",
    "/api/traffic/estimate",
    body=_QUESTION,
    answer=_PROGRESS,
    status=HTTPStatus.ACCEPTED,
    refusals=(404, 409, 422, 507),
)
def start(body: dict[str, Any]) -> Any:
    """Estimate from uploaded logs what the box would save."""
    if body["on_w"] <= body["off_w"]:
        raise ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, t("traffic.error.watts"), "on_w")
    logs = _logs(body.pop("uploads"))
    offset = utc_offset(time.time())
    made = estimates().start(logs, Question(**body, utc_offset=offset, config=_config()))
    return _told(made)


def _config() -> dict[str, Any] | None:
    """Return what the box's cache is set to, among other things; None if it does not say."""
    try:
        said = control().get("/v1/config", timeout_s=5.0)
    except ApiError:
        return None
    return said if "cache_rule" in said and "server" in said else None


def _logs(ids: list[str]) -> list[tuple[str, Path]]:
    found, size = [], 0
    for upload_id in dict.fromkeys(ids):
        upload = uploads().get(upload_id)
        if upload.kind != "log" or not upload.complete:
            words = t("traffic.error.unfinished")
            raise ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, words, "uploads")
        uploads().touch(upload)
        size += upload.size
        found.append((upload.name, uploads().path(upload)))
    settings: Settings = current_app.extensions["naproxy_settings"]
    missing = _SPACE * size + LEAVE_FREE_BYTES - shutil.disk_usage(settings.state_dir).free
    if missing > 0:
        words = t("upload.no_space", missing=-(-missing // (1 << 20)))
        raise ApiError(HTTPStatus.INSUFFICIENT_STORAGE, words, "uploads")
    return found


@route(blueprint, "GET", "/api/traffic/estimate", answer=_PROGRESS)
def progress() -> Any:
    """How far the estimate is, or how the last one ended."""
    return _told(estimates().progress)


def _told(made: Progress) -> dict[str, Any]:
    told = asdict(made)
    told["names"] = list(made.names)
    return told


@route(blueprint, "DELETE", "/api/traffic/estimate", answer=obj({}))
def cancel() -> Any:
    """End the estimate that runs, or forget the result."""
    estimates().cancel()
    return {}


def _result(name: str) -> bytes:
    made = estimates()
    if made.progress.state == DONE:
        try:
            return made.file(name).read_bytes()
        except OSError:
            pass
    raise ApiError(HTTPStatus.NOT_FOUND, t("traffic.error.none"))


@route(
    blueprint,
    "GET",
    "/api/traffic/estimate/result",
    answer=obj(logs=array(ANY_OBJECT)),
    refusals=(404,),
)
def result() -> Any:
    """The conclusions, and the data of the figures: one object for each log.

    It is the command's output (docs/estimate.md), with words for its problems.
    """
    logs = json.loads(_result("summary.json"))
    for log in logs:
        # A result of an earlier version lacks some, and has words already.
        for reason in (*log["problems"], *log.get("doubts", ()), *log.get("understood", ())):
            if "code" in reason:
                reason["words"] = words(reason_of(reason), language())
    return json_response({"logs": logs})


@route(blueprint, "GET", "/api/traffic/estimate/report", media="text/html", refusals=(404,))
def report() -> Any:
    """The report, an HTML file that needs nothing else.

    It is a file to keep, never shown as a page of ours.
    """
    return attachment(_result("report.html"), "text/html", "naproxy-estimate.html")


@route(blueprint, "GET", "/api/traffic/estimate/rows", answer=array(ANY_OBJECT), refusals=(404,))
def rows() -> Any:
    """Every policy and bound that was compared, as naproxy estimate --json prints it."""
    return attachment(_result("rows.json"), "application/json", "naproxy-estimate.json")
