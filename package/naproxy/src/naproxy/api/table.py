"""Every route of the control API, by its name: what it takes, what it answers, who may use it.

Whoever answers gives a function for each name; the web interface mounts what it only passes on.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from naproxy.api.routes import Access, Route
from naproxy.api.shapes import (
    ANY_OBJECT,
    array,
    boolean,
    choice,
    integer,
    nullable,
    number,
    obj,
    string,
)

STEPS: Final = ("welcome", "office", "server", "names", "sleep", "meter", "proof", "done")
"""Of the guide of the first run."""
SLOW_S: Final = 120.0
"""Longest time for an answer that a program has to be run for."""
PART_BYTES: Final = 1 << 19
FACTS_BYTES: Final = 65536

_NOTHING: Final = obj({})
_ADMIN: Final = Access(role="admin")
_PEOPLE: Final = Access(scope="session")
_BEGUN: Final = HTTPStatus.ACCEPTED
_TEXT: Final = string(maxLength=253)
_OFFSET: Final = integer(minimum=0)

_STATE: Final = obj({"done": boolean(), "step": choice(*STEPS), "server": nullable(string())})
_JOB: Final = obj(
    {
        "state": choice("never", "running", "done", "failed"),
        "progress": obj({"done": integer(), "of": integer(), "part": string()}),
        "began_s": nullable(number()),
        "ended_s": nullable(number()),
        "result": nullable(ANY_OBJECT),
        "error": nullable(obj({"error": string(), "code": string(), "params": ANY_OBJECT})),
    }
)
_MADE: Final = obj({"bytes": integer(), "name": string()})
_PART: Final = obj({"data": string(description="base64"), "bytes": integer()})

_REASON: Final = obj({"code": string(), "params": ANY_OBJECT})
_SLOT: Final = obj(
    {
        "name": string(),
        "booted": boolean(description="it runs now"),
        "boots_next": boolean(description="it runs after a restart"),
        "good": boolean(description="the boot loader may start it"),
        "version": string(description="empty: not written by an update"),
        "installed": string(description="ISO 8601, or empty"),
    }
)
_BUNDLE: Final = obj(
    {
        "board": string(),
        "version": string(),
        "description": string(),
        "build": string(),
        "signed_by": string(),
        "image_bytes": integer(),
    }
)
_UPDATE_JOB: Final = obj(
    {
        "phase": choice("none", "checking", "ready", "refused", "writing", "written", "failed"),
        "percent": integer(minimum=0, maximum=100),
        "step": string(),
        "bundle": nullable(_BUNDLE),
        "order": choice("newer", "same", "older", "unknown"),
        "error": string(description="why it was refused or failed, in words"),
        "error_reason": nullable(_REASON),
        "why": choice("", "signature", "format", "board", "file", "rauc"),
    }
)
_UPDATE: Final = obj(
    {
        "supported": boolean(),
        "problem": nullable(string(description="why nothing is known of the slots, in words")),
        "problem_reason": nullable(_REASON),
        "board": string(),
        "version": string(description="what runs"),
        "slots": array(_SLOT),
        "confirmed": nullable(boolean(description="what runs was found to be in order")),
        "job": _UPDATE_JOB,
    }
)
_CHANGE: Final = obj(
    {
        "op": choice("set", "add", "remove"),
        "where": string(minLength=1, maxLength=200, description="as server.web.port or rule.3"),
        "value": {"description": "not for remove"},
    },
    optional=("value",),
)


def _rows(table: str, summary: str) -> Route:
    """Return the route of a table of the journal."""
    query = {"server": string(), "since_s": number(minimum=0), "limit": _OFFSET}
    return Route("GET", f"/v1/{table}", summary=summary, query=query)


def _server(method: str, what: str, summary: str, **more: Any) -> Route:
    """Return a route of one server: to let it in and to prove it, administrators may."""
    said = {"access": _ADMIN, "refusals": (HTTPStatus.CONFLICT,), **more}
    return Route(method, f"/v1/servers/<server>/{what}", summary=summary, **said)


def _job(path: str, summary: str, progress: str, body: Any = _NOTHING) -> tuple[Route, ...]:
    """Return the routes of what takes a while: to begin it, to look at it, to call it off."""
    said: dict[str, Any] = {
        "answer": _JOB,
        "access": _ADMIN,
        "refusals": (HTTPStatus.CONFLICT,),
    }
    return (
        Route("POST", path, summary=summary, body=body, status=_BEGUN, **said),
        Route("GET", path, summary=f"{progress}: progress and result", **said),
        Route("DELETE", path, summary=f"{progress}: call it off", **said),
    )


def _box(method: str, what: str, summary: str, *refusals: int, **more: Any) -> Route:
    return Route(
        method, f"/v1/box{what}", summary=summary, refusals=refusals, timeout_s=SLOW_S, **more
    )


def _update(method: str, what: str, summary: str, **more: Any) -> Route:
    """Return a route of the updates: RAUC takes its time on a small box."""
    refusals = () if method == "GET" else (HTTPStatus.CONFLICT, HTTPStatus.BAD_GATEWAY)
    said = {"answer": _UPDATE, "timeout_s": SLOW_S, "refusals": refusals, **more}
    return Route(method, f"/v1/update{what}", summary=summary, **said)


_OF_ALL: Final = {
    "status": Route("GET", "/v1/status", summary="What the box and each server do now, and why"),
    "health": Route(
        "GET",
        "/v1/health",
        summary="Whether the controller's loop turns",
        answer=obj({"ok": boolean()}),
    ),
    "metrics": Route(
        "GET",
        "/v1/metrics",
        summary="The figures of now, for Prometheus",
        answer=obj({"text": string()}),
        access=Access(scope="metrics"),
    ),
    "meters": Route(
        "GET",
        "/v1/meters",
        summary="What the meters say, and their seconds since a time",
        query={"since_s": number(minimum=0)},
    ),
    "transitions": _rows("transitions", "Changes of state, newest first"),
    "wakes": _rows("wakes", "Who woke a server, newest first"),
    "decisions": _rows("decisions", "What was decided, newest first"),
}

_CONFIG: Final = {
    "config": Route(
        "GET",
        "/v1/config",
        summary="The configuration in force, without secrets; `version` is for changing it",
    ),
    "config.put": Route(
        "PUT",
        "/v1/config",
        summary="Use another file as a whole",
        body=string(description="TOML"),
        body_media="application/toml",
    ),
    "config.change": Route(
        "PATCH",
        "/v1/config",
        summary="Change single settings: all of the changes, or none",
        body=obj({"version": string(maxLength=64), "changes": array(_CHANGE, maxItems=200)}),
    ),
    "config.keys": Route(
        "GET",
        "/v1/config/keys",
        summary="All keys of the configuration: types, ranges, choices, what they mean",
        timeout_s=60.0,
    ),
    "config.reload": Route(
        "POST",
        "/v1/config/reload",
        summary="Use the file as it is now, after it was changed by hand",
        body=_NOTHING,
    ),
}

_SERVERS: Final = {
    "server.wake": Route(
        "POST",
        "/v1/servers/<server>/wake",
        summary="Wake a server up",
        body=_NOTHING,
        status=_BEGUN,
    ),
    "server.sleep": Route(
        "POST",
        "/v1/servers/<server>/sleep",
        summary="Put a server to sleep",
        body=_NOTHING,
        status=_BEGUN,
    ),
    "server.mode": Route(
        "POST",
        "/v1/servers/<server>/mode",
        summary="Keep a server awake, or let Naproxy decide again",
        body=obj(
            {"mode": choice("auto", "awake"), "until_s": nullable(number(minimum=0))},
            optional=("until_s",),
        ),
    ),
    "server.arm": Route(
        "POST",
        "/v1/servers/<server>/arm",
        summary="Let a server that did not wake once sleep by itself again",
        body=_NOTHING,
    ),
    "server.commission": _server(
        "POST",
        "commission",
        "Begin the proof: the server is put to sleep and woken several times",
        body=obj(
            {
                "cycles": integer(minimum=1, maximum=1000),
                "awake_s": number(minimum=0, maximum=86400),
                "asleep_s": number(minimum=0, maximum=86400),
            },
            optional=("cycles", "awake_s", "asleep_s"),
        ),
        status=_BEGUN,
    ),
    "server.commissioned": _server("GET", "commission", "The proof: progress or the last result"),
    "server.cancel": _server("DELETE", "commission", "End the proof; the server ends awake"),
    "server.power": _server(
        "GET", "power", "The powers that were measured, that are in force, that the file names"
    ),
    "server.use_power": _server(
        "POST",
        "power",
        "Reckon with the powers that the proof measured",
        body=obj({"replace": boolean()}, optional=("replace",)),
    ),
    "server.key": _server(
        "POST",
        "key",
        "Make the box's key if there is none; what to paste on the server",
        body=_NOTHING,
    ),
    "server.pin": _server(
        "PUT",
        "host-key",
        "Pin the server's host key, its fingerprint compared",
        body=obj(
            {"fingerprint": string(minLength=10, maxLength=100), "replace": boolean()},
            optional=("replace",),
        ),
    ),
    "server.facts_script": _server(
        "GET",
        "facts-script",
        "A script that looks at the server itself; what it prints belongs into the check",
        answer=obj({"script": string()}),
        timeout_s=30.0,
    ),
}


def _jobs() -> dict[str, Route]:
    """Return the routes of all jobs: `NAME.begin`, `NAME`, `NAME.end`."""
    address = string(
        minLength=1, maxLength=253, pattern=r"\S", description="a host name or an address"
    )
    look = obj({"address": address, "port": integer(minimum=1, maximum=65535)}, optional=("port",))
    facts = obj({"facts": string(maxLength=FACTS_BYTES)}, optional=("facts",))
    made = {
        "scan": _job(
            "/v1/scan",
            "Look for machines on the box's own networks",
            "The scan of the box's own networks",
        ),
        "look": _job(
            "/v1/look",
            "Look at one address: its network card and its web server",
            "The look at a typed address",
            look,
        ),
        "meter_search": _job(
            "/v1/meter-search",
            "Look for meters: USB, this box's chips, plugs of the last scan",
            "The search for meters",
        ),
        "server.host_key": _job(
            "/v1/servers/<server>/host-key",
            "Ask the server for its host key",
            "The host key that the server shows",
        ),
        "server.doctor": _job(
            "/v1/servers/<server>/doctor",
            "Look at the way from the box to the server",
            "What is wrong with the way to the server",
            facts,
        ),
    }
    return {
        name + what: route
        for name, three in made.items()
        for what, route in zip((".begin", "", ".end"), three, strict=True)
    }


_SETUP: Final = {
    "setup": Route(
        "GET",
        "/v1/setup",
        summary="Where the first run is",
        answer=_STATE,
        access=_ADMIN,
        refusals=(HTTPStatus.CONFLICT,),
    ),
    "setup.go": Route(
        "PUT",
        "/v1/setup",
        summary="Go to a step of the first run, or end it",
        body=obj(dict(_STATE["properties"]), optional=tuple(_STATE["properties"])),
        answer=_STATE,
        access=_ADMIN,
    ),
    "typical": Route(
        "GET",
        "/v1/typical-servers",
        summary="What servers were measured to draw, with sources",
        access=_ADMIN,
        refusals=(HTTPStatus.CONFLICT,),
    ),
}

_BOX: Final = {
    "box": _box("GET", "", "The box: whose machine it is, network, clock, name"),
    "box.network": _box(
        "PUT",
        "/network",
        "Try network settings: they go back in two minutes unless they are kept",
        HTTPStatus.BAD_GATEWAY,
        body=obj(
            {
                "method": choice("dhcp", "static"),
                "address": _TEXT,
                "gateway": _TEXT,
                "dns": array(_TEXT, maxItems=3),
            },
            optional=("address", "gateway", "dns"),
        ),
        status=_BEGUN,
    ),
    "box.network.keep": _box(
        "POST",
        "/network/keep",
        "Keep the network settings that are tried",
        HTTPStatus.BAD_GATEWAY,
        body=_NOTHING,
    ),
    "box.network.back": _box(
        "POST",
        "/network/back",
        "Go back to the network settings before the trial",
        HTTPStatus.BAD_GATEWAY,
        body=_NOTHING,
    ),
    "box.time": _box(
        "PUT",
        "/time",
        "Set the time zone, and who tells the time",
        HTTPStatus.BAD_GATEWAY,
        body=obj({"time_zone": _TEXT, "ntp": array(_TEXT, maxItems=4)}, optional=("ntp",)),
    ),
    "box.name": _box(
        "PUT", "/name", "Name the box", HTTPStatus.BAD_GATEWAY, body=obj({"name": _TEXT})
    ),
    "box.restart": _box(
        "POST",
        "/restart",
        "Restart one of the box's programs",
        HTTPStatus.BAD_GATEWAY,
        body=obj({"service": choice("naproxy", "varnish", "webui", "lighttpd")}),
        status=_BEGUN,
    ),
    "box.reboot": _box(
        "POST",
        "/reboot",
        "Restart the machine",
        HTTPStatus.BAD_GATEWAY,
        body=_NOTHING,
        status=_BEGUN,
    ),
    "box.reset": _box(
        "POST",
        "/reset",
        "Forget everything; the box's name confirms it",
        HTTPStatus.BAD_GATEWAY,
        body=obj({"confirm": _TEXT}),
        status=_BEGUN,
        access=_PEOPLE,
    ),
    "box.empty": _box(
        "POST",
        "/cache/empty",
        "Use nothing any more that is in the cache",
        HTTPStatus.BAD_GATEWAY,
        body=_NOTHING,
    ),
    "box.logs": _box(
        "GET",
        "/logs",
        "The last lines of a log, as text",
        HTTPStatus.BAD_GATEWAY,
        query={
            "source": choice("naproxy", "system"),
            "contains": string(maxLength=200),
            "limit": integer(minimum=1, maximum=1000),
        },
        answer=obj({"lines": array(string()), "of": integer()}),
        access=_ADMIN,
    ),
    "box.backup": _box(
        "POST",
        "/backup",
        "Make a backup; `secrets` are passwords, keys and users",
        HTTPStatus.INSUFFICIENT_STORAGE,
        body=obj(
            {"history": boolean(), "secrets": boolean(), "users": array({})},
            optional=("history", "secrets", "users"),
        ),
        answer=_MADE,
        access=_PEOPLE,
    ),
    "box.backup.part": _box(
        "GET", "/backup/part", "The backup that was made", query={"offset": _OFFSET}, answer=_PART
    ),
    "box.diagnostics": _box(
        "POST",
        "/diagnostics",
        "Gather what somebody who helps needs to see; no secrets, no visitors",
        body=_NOTHING,
        answer=_MADE,
    ),
    "box.diagnostics.part": _box(
        "GET",
        "/diagnostics/part",
        "The diagnostics that were gathered",
        query={"offset": _OFFSET},
        answer=_PART,
    ),
    "box.restore.part": _box(
        "PUT",
        "/restore/part",
        "Send a backup in parts, the first at offset 0",
        HTTPStatus.INSUFFICIENT_STORAGE,
        query={"offset": _OFFSET},
        needed=("offset",),
        body=string(maxLength=PART_BYTES),
        body_media="application/octet-stream",
        answer=obj({"bytes": integer()}),
        access=_PEOPLE,
    ),
    "box.restore.check": _box(
        "POST",
        "/restore/check",
        "What is in the backup that was sent; nothing changes",
        body=_NOTHING,
        access=_PEOPLE,
    ),
    "box.restore": _box(
        "POST",
        "/restore",
        "Restore the backup that was sent: the controller begins anew",
        body=obj({"history": boolean(), "secrets": boolean()}, optional=("history", "secrets")),
        status=_BEGUN,
        access=_PEOPLE,
    ),
}

_UPDATES: Final = {
    "update": _update("GET", "", "Which image runs, and how far an update is"),
    "update.forget": _update("DELETE", "", "Forget what was looked at"),
    "update.check": _update(
        "POST",
        "/check",
        "Look at an image; nothing is written",
        body=obj({"file": string(pattern="^/[^\\x00]*$", description="an absolute path")}),
        status=_BEGUN,
    ),
    "update.install": _update(
        "POST",
        "/install",
        "Write what was looked at; `older`: also if it is not newer than what runs",
        body=obj({"older": boolean()}, optional=("older",)),
        status=_BEGUN,
    ),
    "update.activate": _update(
        "POST",
        "/activate",
        "Have the other image run after a restart, or the one that runs now after all",
        body=obj({"slot": choice("other", "booted")}),
    ),
    "update.confirm": _update(
        "POST", "/confirm", "Take that what runs now is in order", body=_NOTHING
    ),
}

ROUTES: Final[dict[str, Route]] = {
    **_OF_ALL,
    **_CONFIG,
    **_SERVERS,
    **_jobs(),
    **_SETUP,
    **_BOX,
    **_UPDATES,
}
