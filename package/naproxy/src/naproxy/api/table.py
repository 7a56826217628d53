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
    mapping,
    nullable,
    number,
    obj,
    open_obj,
    string,
)
from naproxy.core.state import STATES
from naproxy.notify import channels
from naproxy.policy.verified import WHY

STEPS: Final = (
    *("welcome", "office", "server", "names", "https", "cache", "sleep", "meter", "live", "proof"),
    *("waiting", "done"),
)
"""Of the guide of the first run."""
SLOW_S: Final = 120.0
"""Longest time for an answer that a program has to be run for."""
PART_BYTES: Final = 1 << 19
MOST_PATH: Final = 255
"""Of a path that the cache is emptied below, each byte that is no letter counting three."""
FACTS_BYTES: Final = 65536

_NOTHING: Final = obj({})
_ADMIN: Final = Access(role="admin")
_PEOPLE: Final = Access(scope="session")
_ADMIN_ONLY: Final = Access(role="admin", scope="session")
_BEGUN: Final = HTTPStatus.ACCEPTED
_TEXT: Final = string(maxLength=253)
_OFFSET: Final = integer(minimum=0)
_FLAG: Final = boolean()
_BELOW: Final = string(
    minLength=1,
    maxLength=MOST_PATH,
    pattern=r"^/[^?#\x00-\x1f\x7f]*\Z",
    description="a path that begins with a slash, without a query",
)
_TAG: Final = string(
    minLength=1,
    maxLength=128,
    pattern=r"^[A-Za-z0-9_:./@=-]+\Z",
    description="a tag of letters, digits and _ : . / @ = -",
)
_FAILED: Final = (HTTPStatus.BAD_GATEWAY,)
_CHANNEL: Final = choice(*channels.names())
_FULL: Final = (HTTPStatus.INSUFFICIENT_STORAGE,)

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
_CHECKLIST: Final = obj(
    {
        "lines": array(
            obj(
                {
                    "name": string(),
                    "done": boolean(),
                    "how": _REASON,
                    "server": nullable(string(description="the first that it is to do for")),
                    "dismissed": boolean(),
                }
            )
        )
    }
)
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
        "command": string(description="with which packages are updated; empty: not known"),
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


_ROWS: Final = {"server": string(), "since_s": number(minimum=0), "limit": _OFFSET}
_MODE: Final = obj(
    {"mode": choice("auto", "awake"), "until_s": nullable(number(minimum=0))},
    optional=("until_s",),
)
_PLAN: Final = {
    "cycles": integer(minimum=1, maximum=1000),
    "awake_s": number(minimum=0, maximum=86400),
    "asleep_s": number(minimum=0, maximum=86400),
}
_PIN: Final = {"fingerprint": string(minLength=10, maxLength=100), "replace": _FLAG}
_ADDRESS: Final = string(
    minLength=1, maxLength=253, pattern=r"\S", description="a host name or an address"
)
_NETWORK: Final = {
    "method": choice("dhcp", "static"),
    "address": _TEXT,
    "gateway": _TEXT,
    "ipv6": choice("auto", "static", "off"),
    "address6": _TEXT,
    "gateway6": _TEXT,
    "vlan": nullable(integer(minimum=1, maximum=4094)),
    "dns": array(_TEXT, maxItems=3),
}
_LOGS: Final = {
    "source": choice("naproxy", "system"),
    "contains": string(maxLength=200),
    "limit": integer(minimum=1, maximum=1000),
}
_CODE: Final = obj(
    {
        "state": choice("none", "waiting", "used", "over"),
        "left_s": number(description="how long the code is still good"),
        "address": nullable(string(description="the box's in the server's network")),
    }
)
_LOOK_S: Final = 20.0
"""Longer than a look takes."""
_FILE: Final = string(pattern="^/[^\\x00]*$", description="an absolute path")


def _may(shapes: dict[str, Any], *needed: str) -> dict[str, Any]:
    """Return the shape of an object of whose keys only those named are needed."""
    return obj(shapes, optional=tuple(name for name in shapes if name not in needed))


def _route(line: str, summary: str, **more: Any) -> Route:
    """Return a route; what is posted has no keys unless its shape is given."""
    method, path = line.split(" ")
    if method == "POST":
        more.setdefault("body", _NOTHING)
    return Route(method, path, summary=summary, **more)


def _server(line: str, summary: str, **more: Any) -> Route:
    """Return a route that lets a server in or proves it: for administrators."""
    said = {"access": _ADMIN, "refusals": (HTTPStatus.CONFLICT,), **more}
    return _route(line.replace(" ", " /v1/servers/<server>"), summary, **said)


def _job(name: str, path: str, begin: str, look: str, **more: Any) -> dict[str, Route]:
    """Return the routes of what takes a while: to begin it, to look at it, to call it off."""
    said: dict[str, Any] = {"answer": _JOB, "access": _ADMIN, "refusals": (HTTPStatus.CONFLICT,)}
    return {
        f"{name}.begin": _route(f"POST /v1{path}", begin, status=_BEGUN, **said, **more),
        name: _route(f"GET /v1{path}", f"{look}: progress and result", **said),
        f"{name}.end": _route(f"DELETE /v1{path}", f"{look}: call it off", **said),
    }


def _box(line: str, summary: str, refusals: tuple[int, ...] = (), **more: Any) -> Route:
    line = line.replace(" ", " /v1/box")
    return _route(line, summary, refusals=refusals, timeout_s=SLOW_S, **more)


def _update(line: str, summary: str, **more: Any) -> Route:
    """Return a route of the updates: RAUC takes its time on a small box."""
    refusals = () if line.startswith("GET") else (HTTPStatus.CONFLICT, HTTPStatus.BAD_GATEWAY)
    said = {"answer": _UPDATE, "timeout_s": SLOW_S, "refusals": refusals, **more}
    return _route(line.replace(" ", " /v1/update"), summary, **said)


_SERVER: Final = open_obj(
    {
        "id": string(minLength=1),
        "state": choice(*STATES.values()),
        "since_s": number(),
        "reason": _REASON,
        "mode": choice("auto", "awake"),
        "mode_until_s": nullable(number()),
        "held": integer(minimum=0, description="requests that wait for it"),
        "eta_s": nullable(number(description="seconds until it is expected up")),
        "inhibitors": array(_REASON),
        "appointments": array(open_obj({"t_s": number(), "name": string()})),
        "alert": nullable(_REASON),
        "armed": boolean(),
        "not_armed": nullable(_REASON),
        "rungs": array(open_obj({"name": string(), "works": boolean()})),
        "commissioning": nullable(
            open_obj(
                {
                    "phase": string(),
                    "cycle": integer(),
                    "cycles": integer(),
                    "reason": nullable(_REASON),
                }
            )
        ),
        "live": open_obj({"waits": nullable(_REASON), "silent": boolean()}),
        "https": open_obj(
            {
                "mode": string(),
                "sight": nullable(_REASON),
                "around": nullable(
                    open_obj({"today": integer(), "yesterday": integer(), "total": integer()})
                ),
                "through": nullable(open_obj({"accepted": integer()})),
            }
        ),
        "decision": open_obj(
            {"sleep": boolean(), "reason": _REASON, "next_check_s": nullable(number())}
        ),
        "over_share": open_obj(
            {"addresses": integer(), "networks": integer(), "robots": boolean()}
        ),
        "counters": open_obj(
            {
                "requests": mapping(mapping(integer())),
                "wakes": mapping(integer()),
                "delayed": integer(),
                "magic_packets": integer(),
            }
        ),
        "engines": array(
            open_obj(
                {
                    "name": string(),
                    "crawls": boolean(),
                    "refused_since_s": nullable(number()),
                    "served_s": nullable(number()),
                    "let_in_s": nullable(number()),
                }
            )
        ),
        "warming": open_obj(
            {
                "fetches": integer(),
                "took_s": number(),
                "since_s": nullable(number()),
                "wakes_avoided": integer(),
            }
        ),
        "pages": open_obj(
            {
                "on": boolean(),
                "verified": integer(),
                "settling": integer(),
                "answered": integer(),
                "old": integer(),
            }
        ),
        "calendar": nullable(
            open_obj(
                {
                    "events": array(
                        open_obj({"t_s": number(), "end_s": number(), "name": string()})
                    ),
                    "problem": nullable(_REASON),
                }
            )
        ),
        "sleeps_itself": nullable(_REASON),
    }
)
_METER: Final = open_obj(
    {
        "id": string(),
        "of": string(),
        "driver": string(),
        "power_w": nullable(number()),
        "age_s": nullable(number()),
        "measures": string(),
        "estimated": boolean(),
        "problem": nullable(_REASON),
        "notes": array(string()),
    }
)
_FILL: Final = obj(
    {
        "t_s": number(description="when it was seen"),
        "used_bytes": integer(),
        "room_bytes": integer(),
        "answers": integer(),
        "pushed_out": integer(description="to make room for others"),
        "ran_out": integer(),
        "no_room": integer(description="cut off: to make room would have taken too much"),
        "seen_s": number(description="of the last day, so much is known"),
    }
)
_WARMING: Final = obj(
    {
        "server": string(),
        "on": boolean(description="does the box ask before each sleep"),
        "known": integer(description="addresses that it has learned of"),
        "since_s": nullable(number(description="since its first sleep that was counted")),
        "fetches": integer(description="answers that it asked after before sleeps"),
        "bytes": integer(description="their sizes; most of it need not come again"),
        "took_s": number(description="for that long the server stayed awake for it"),
        "took_j": number(description="what that cost, by the server's powers"),
        "wakes_avoided": integer(description="visits that would have woken it otherwise"),
        "avoided_j": number(description="what those wakes would have cost"),
    }
)
_PAGES: Final = obj(
    {
        "server": string(),
        "on": boolean(description="are its pages checked"),
        "since_s": nullable(number(description="since its first sleep that was counted")),
        "verified": integer(description="pages that may be answered while it sleeps, now"),
        "settling": integer(description="pages that are still being checked"),
        "answered": integer(description="requests for pages answered while it slept"),
        "compared": integer(description="pages answered asleep, compared after the wake"),
        "edited": integer(description="of these, those that had been edited"),
        "differed": integer(description="of these, those that had changed by themselves"),
        "old": integer(description="of answered, those with a page that had changed by itself"),
        "excluded": integer(description="pages that are not answered, whatever comes"),
        "excluded_pages": array(
            obj(
                {
                    "url": string(description="an address, or a pattern with a *"),
                    "why": choice(*WHY),
                }
            ),
            description="some of these, those that had changed first",
        ),
    }
)

_CO2: Final = obj(
    {
        "co2_g_per_kwh": nullable(number(description="the last that was read")),
        "read_s": nullable(number()),
        "problem": nullable(_REASON),
        "failed_since_s": nullable(number()),
    }
)

_OF_ALL: Final = {
    "health": _route(
        "GET /v1/health", "Whether the loop turns", answer=obj({"ok": _FLAG}), reader=True
    ),
    "metrics": _route("GET /v1/metrics", "Prometheus' figures", answer=obj({"text": string()})),
    "meters": _route(
        "GET /v1/meters",
        "What the meters say, and their seconds since a time",
        query={"since_s": number(minimum=0)},
    ),
    "cache": _route(
        "GET /v1/cache",
        "How full the cache is, and what it let go in the last day, null if Varnish does not say;"
        " and what asking before sleeps has cost and brought",
        answer=obj({"cache": nullable(_FILL), "warming": array(_WARMING), "pages": array(_PAGES)}),
    ),
    "cache.empty": _route(
        "POST /v1/cache/empty",
        "Use nothing any more of what the cache has of a server, below a path, or with a tag that"
        " the server gave it; of all, if nothing is named",
        body=_may({"server": _TEXT, "path": _BELOW, "tag": _TAG}),
        answer=obj({}),
        refusals=(HTTPStatus.NOT_FOUND, *_FAILED),
    ),
    "notify": _route(
        "GET /v1/notify",
        "Who is told what is wrong, and what was told, newest first; `in_clear`: whom a token is"
        " sent to without encryption",
        answer=obj(
            {
                "channels": array(_CHANNEL),
                "in_clear": array(_CHANNEL),
                "told": array(
                    obj(
                        {
                            "t_s": number(),
                            "event": string(),
                            "title": string(),
                            "to": array(
                                obj(
                                    {
                                        "channel": _CHANNEL,
                                        "sent_s": nullable(number()),
                                        "problem": nullable(_REASON),
                                    }
                                )
                            ),
                        }
                    )
                ),
            }
        ),
    ),
    "notify.test": _route(
        "POST /v1/notify/test",
        "Send a notification by each way that is set up, and say what became of it",
        body=_NOTHING,
        answer=obj({"results": array(obj({"channel": _CHANNEL, "problem": nullable(_REASON)}))}),
        access=_ADMIN,
        refusals=(HTTPStatus.CONFLICT,),
        timeout_s=SLOW_S,
    ),
    "co2.look": _route(
        "POST /v1/co2/look",
        "Ask the office's API for carbon dioxide now, and say what became of it",
        answer=obj({"co2": nullable(_CO2)}),
        access=_ADMIN,
        refusals=(HTTPStatus.CONFLICT,),
        timeout_s=SLOW_S,
    ),
    "checklist": _route(
        "GET /v1/checklist", "What is still to do until the box is set up", answer=_CHECKLIST
    ),
    "checklist.dismiss": _route(
        "POST /v1/checklist/<line>",
        "Take a line as one that does not apply here, or no longer",
        body=obj({"dismissed": _FLAG}),
        answer=_CHECKLIST,
        access=_ADMIN,
        refusals=(HTTPStatus.NOT_FOUND,),
    ),
    "log": _route(
        "GET /v1/log",
        "What happened since a time: changes of state, wakes, decisions, and what the controller"
        " noted in its log; at most 200 of each",
        query={"since_s": number(minimum=0)},
        answer=obj(
            {
                "transitions": array(ANY_OBJECT),
                "wakes": array(ANY_OBJECT),
                "decisions": array(ANY_OBJECT),
                "system": array(obj({"t_s": number(), "line": string()})),
            }
        ),
        access=_ADMIN,
    ),
    "transitions": _route("GET /v1/transitions", "Changes of state, newest first", query=_ROWS),
    "wakes": _route("GET /v1/wakes", "Who woke a server, newest first", query=_ROWS),
    "decisions": _route("GET /v1/decisions", "What was decided, newest first", query=_ROWS),
}

_CONFIG: Final = {
    "config": _route(
        "GET /v1/config",
        "The configuration in force, without secrets; `version` is for changing it",
    ),
    "config.put": _route(
        "PUT /v1/config",
        "Use another file as a whole",
        body=string(description="TOML"),
        body_media="application/toml",
    ),
    "config.change": _route(
        "PATCH /v1/config",
        "Change single settings: all of the changes, or none",
        body=obj({"version": string(maxLength=64), "changes": array(_CHANGE, maxItems=200)}),
    ),
    "config.refused": _route(
        "GET /v1/config/refused",
        "The file whose settings are not used: why, and its text, without lines that may hold a"
        " secret; null if it cannot be shown, or is used",
        answer=obj(
            {"reason": nullable(_REASON), "text": nullable(string()), "version": string()},
        ),
        access=Access(role="admin", scope="session"),
    ),
    "config.mend": _route(
        "PUT /v1/config/refused",
        "Use that text, mended, with the lines that were left out",
        body=obj({"version": string(maxLength=64), "text": string(maxLength=1 << 16)}),
        access=Access(role="admin", scope="session"),
    ),
    "config.keys": _route(
        "GET /v1/config/keys",
        "All keys of the configuration: types, ranges, choices, what they mean",
    ),
    "config.reload": _route(
        "POST /v1/config/reload", "Use the file as it is now, after it was changed by hand"
    ),
}

_SERVERS: Final = {
    "server.wake": _route(
        "POST /v1/servers/<server>/wake", "Wake a server up", answer=_SERVER, status=_BEGUN
    ),
    "server.sleep": _route(
        "POST /v1/servers/<server>/sleep", "Put it to sleep", answer=_SERVER, status=_BEGUN
    ),
    "server.mode": _route(
        "POST /v1/servers/<server>/mode",
        "Keep a server awake, or let Naproxy decide again",
        body=_MODE,
        answer=_SERVER,
    ),
    "server.arm": _route(
        "POST /v1/servers/<server>/arm",
        "Let a server that did not wake once sleep by itself again",
        answer=_SERVER,
    ),
    "server.live": _route(
        "POST /v1/servers/<server>/live",
        "Confirm that visitors come through the box: it waits for none before the server may sleep",
        answer=_SERVER,
    ),
    "server.leave": _server(
        "POST /leave",
        "Leave it to the server when to sleep: its way to sleep is `itself` from now on",
        answer=_SERVER,
    ),
    "server.adopt": _server(
        "POST /adopt",
        "Take this address and card for the server's own, as its `moved` has them",
        body=obj({"address": string(), "mac": string()}),
    ),
    "server.commission": _server(
        "POST /commission",
        "Begin the proof: the server is put to sleep and woken several times",
        body=_may(_PLAN),
        status=_BEGUN,
        timeout_s=_LOOK_S,
    ),
    "server.commissioned": _server("GET /commission", "The proof: progress or the last result"),
    "server.cancel": _server("DELETE /commission", "End the proof; the server ends awake"),
    "server.look": _server(
        "POST /look", "Look whether visitors come past the box", timeout_s=_LOOK_S
    ),
    "server.looked": _server(
        "GET /look", "Whether visitors come past the box: the last look at the server", refusals=()
    ),
    "server.power": _server("GET /power", "The powers measured, in force, and given in the file"),
    "server.use_power": _server(
        "POST /power",
        "Reckon with the powers that the proof measured",
        body=_may({"replace": _FLAG}),
    ),
    "server.key": _server(
        "POST /key", "Make the box's key if there is none; what to paste on the server"
    ),
    "server.pin": _server(
        "PUT /host-key",
        "Pin the server's host key, its fingerprint compared",
        body=_may(_PIN, "fingerprint"),
    ),
    "server.agent": _server(
        "GET /agent",
        "Whether the server has fetched its agent's key with its last code",
        answer=_CODE,
    ),
    "server.agent.code": _server(
        "POST /agent/code",
        "Make a code: with it the server fetches a new key for its agent, once",
        answer=obj({**_CODE["properties"], "code": string()}),
        access=_ADMIN_ONLY,
        secret=True,
    ),
    "server.agent.key": _server(
        "POST /agent/key",
        "Make a new key for the server's agent; it is shown this once",
        answer=obj({"key": string(description="64 hex digits")}),
        access=_ADMIN_ONLY,
        secret=True,
    ),
    "agent.key": _route(
        "POST /v1/agent-key",
        "Fetch a new key for an agent with the code that its server was given",
        body=obj({"code": string(minLength=1, maxLength=64)}),
        answer=obj({"server": string(), "key": string(description="64 hex digits")}),
        refusals=(HTTPStatus.FORBIDDEN, HTTPStatus.CONFLICT),
        secret=True,
    ),
    "server.facts_script": _server(
        "GET /facts-script",
        "A script that looks at the server itself; what it prints belongs into the check",
        answer=obj({"script": string()}),
        timeout_s=30.0,
    ),
}

_JOBS: Final = {
    **_job(
        "scan",
        "/scan",
        "Look for machines on the box's own networks",
        "The scan of the box's own networks",
    ),
    **_job(
        "look",
        "/look",
        "Look at one address: its network card and its web server",
        "The look at a typed address",
        body=_may({"address": _ADDRESS, "port": integer(minimum=1, maximum=65535)}, "address"),
    ),
    **_job(
        "meter_search",
        "/meter-search",
        "Look for meters: USB, this box's chips, plugs of the last scan",
        "The search for meters",
    ),
    **_job(
        "pico.install",
        "/pico/install",
        "Put on a Pico what it lacks of MicroPython and of our firmware; `replace`: also where"
        " another program is on it",
        "The installation on a Pico",
        body=_may({"place": string(minLength=1, maxLength=64), "replace": _FLAG}, "place"),
    ),
    **_job(
        "pico.calibrate",
        "/pico/calibrate",
        "Calibrate our USB meter: without `load_w` what it shows becomes nothing, with it that",
        "The calibration of our USB meter",
        body=_may({"meter": _TEXT, "load_w": number(minimum=0.01, maximum=10000)}, "meter"),
    ),
    **_job(
        "server.host_key",
        "/servers/<server>/host-key",
        "Ask the server for its host key",
        "The host key that the server shows",
    ),
    **_job(
        "server.doctor",
        "/servers/<server>/doctor",
        "Look at the way from the box to the server",
        "What is wrong with the way to the server",
        body=_may({"facts": string(maxLength=FACTS_BYTES)}),
    ),
    **_job(
        "server.site",
        "/servers/<server>/site",
        "Look at some pages of the server's website: what the cache could answer",
        "What the cache could answer of the website",
    ),
}

_SETUP: Final = {
    "setup": _route("GET /v1/setup", "Where the first run is", answer=_STATE, access=_ADMIN),
    "setup.go": _route(
        "PUT /v1/setup",
        "Go to a step of the first run, or end it",
        body=_may(_STATE["properties"]),
        answer=_STATE,
        access=_ADMIN,
    ),
    "typical": _route(
        "GET /v1/typical-servers",
        "What servers were measured to draw, with sources",
        access=_ADMIN,
        refusals=(HTTPStatus.CONFLICT,),
    ),
}

_PICO: Final = {
    "pico": _route(
        "GET /v1/pico",
        "The Raspberry Pi Picos on the box's USB, and what the box has to put on them",
        answer=obj(
            {
                "newest": string(description="version of our firmware that is here"),
                "micropython": nullable(string(description="version that is here")),
                "picos": array(
                    obj(
                        {
                            "place": string(description="its socket, by the kernel's name"),
                            "kind": choice("boot", "serial", "boot2350"),
                            "port": string(),
                            "meter": nullable(string(description="the meter that is set up there")),
                            "version": nullable(string(description="as that meter says")),
                        }
                    )
                ),
            }
        ),
        access=_ADMIN,
    ),
    "pico.micropython": _route(
        "PUT /v1/pico/micropython",
        "Keep a UF2 file, if it is MicroPython for a Pico",
        body=obj({"file": _FILE}),
        answer=obj({"micropython": string()}),
        access=_ADMIN_ONLY,  # nobody has signed it, as an update is
        refusals=(HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY),
    ),
}

_BOX: Final = {
    "box": _box("GET ", "The box: whose machine it is, network, clock, name"),
    "box.network": _box(
        "PUT /network",
        "Try network settings: they go back in two minutes unless they are kept",
        _FAILED,
        body=_may(_NETWORK, "method"),
        status=_BEGUN,
    ),
    "box.network.keep": _box("POST /network/keep", "Keep what is tried", _FAILED),
    "box.network.back": _box("POST /network/back", "Go back to what was before", _FAILED),
    "box.time": _box(
        "PUT /time",
        "Set the time zone, and who tells the time",
        _FAILED,
        body=_may({"time_zone": _TEXT, "ntp": array(_TEXT, maxItems=4)}, "time_zone"),
    ),
    "box.name": _box("PUT /name", "Name the box", _FAILED, body=obj({"name": _TEXT})),
    "box.restart": _box(
        "POST /restart",
        "Restart one of the box's programs",
        _FAILED,
        body=obj({"service": choice("naproxy", "varnish", "edge", "webui", "lighttpd")}),
        status=_BEGUN,
    ),
    "box.reboot": _box("POST /reboot", "Restart the machine", _FAILED, status=_BEGUN),
    "box.reset": _box(
        "POST /reset",
        "Forget everything; the box's name confirms it",
        _FAILED,
        body=obj({"confirm": _TEXT}),
        status=_BEGUN,
        access=_PEOPLE,
    ),
    "box.empty": _box("POST /cache/empty", "Use nothing any more that is in the cache", _FAILED),
    "box.logs": _box(
        "GET /logs",
        "The last lines of a log, as text",
        _FAILED,
        query=_LOGS,
        answer=obj({"lines": array(string()), "of": integer()}),
        access=_ADMIN,
    ),
    "box.backup": _box(
        "POST /backup",
        "Make a backup; `secrets` are passwords, keys and users",
        _FULL,
        body=_may(
            {
                "history": _FLAG,
                "secrets": _FLAG,
                "users": array({}),
                "password": string(minLength=8, maxLength=200, description="encrypts the file"),
            }
        ),
        answer=_MADE,
        access=_PEOPLE,
        secret=True,
    ),
    "box.backup.part": _box(
        "GET /backup/part",
        "The backup that was made",
        query={"offset": _OFFSET},
        answer=_PART,
        secret=True,
    ),
    "box.diagnostics": _box(
        "POST /diagnostics",
        "Gather what somebody who helps needs to see; no secrets, no visitors",
        answer=_MADE,
    ),
    "box.diagnostics.part": _box(
        "GET /diagnostics/part", "What was gathered", query={"offset": _OFFSET}, answer=_PART
    ),
    "box.restore.part": _box(
        "PUT /restore/part",
        "Send a backup in parts, the first at offset 0",
        _FULL,
        query={"offset": _OFFSET},
        needed=("offset",),
        body=string(maxLength=PART_BYTES),
        body_media="application/octet-stream",
        answer=obj({"bytes": integer()}),
        access=_PEOPLE,
        secret=True,
    ),
    "box.restore.check": _box(
        "POST /restore/check",
        "What is in the backup that was sent; nothing changes",
        body=_may({"password": string(maxLength=200, description="of an encrypted one")}),
        access=_PEOPLE,
        secret=True,
    ),
    "box.restore": _box(
        "POST /restore",
        "Restore the backup that was sent: the controller begins anew",
        body=_may({"history": _FLAG, "secrets": _FLAG}),
        status=_BEGUN,
        access=_PEOPLE,
        secret=True,
    ),
}

_EDGE: Final = {
    "wanted": boolean(description="haproxy has something to do"),
    "running": boolean(),
    "version": nullable(string(description="haproxy's")),
    "problem": nullable(_REASON),
    "applied_s": nullable(number()),
    "connections": nullable(integer(description="that are open")),
    "handshakes": nullable(integer(description="since it took its present configuration")),
    "visited": boolean(description="somebody has come by HTTPS since it is served"),
    "uncovered": array(
        string(),
        description="names that it serves without a certificate, as the settings have them",
    ),
    "ended": array(
        obj({"name": string(), "day": string()}),
        description="names that it serves with a certificate that has ended",
    ),
    "serves": boolean(description="a server has mode box"),
    "passes": array(string(), description="names whose connections are passed on unopened"),
    "to_server": array(
        obj({"server": string(), "problem": nullable(_REASON)}),
        description="servers that are asked by HTTPS",
    ),
}
_ABOUT: Final = {
    "names": array(string()),
    "not_before_s": nullable(number()),
    "not_after_s": nullable(number(description="of the first in its chain that ends")),
    "ends_in_days": nullable(integer(description="null: the clock is not set")),
    "issuer": nullable(string()),
    "fingerprint": nullable(string(description="SHA-256")),
    "kind": nullable(choice("ecdsa", "rsa")),
    "bits": nullable(integer()),
    "trusted": boolean(description="by browsers"),
    "in_use_by": array(string(description="a server")),
    "notes": array(_REASON),
}
_CERTIFICATE: Final = obj(
    {
        "id": string(),
        "source": nullable(string()),
        "problem": nullable(_REASON),
        "asked": nullable(array(string(), description="names it is to be for; null: one is there")),
        "next_try_s": nullable(number(description="when the box renews it; null: never")),
        **_ABOUT,
    }
)
_CERTIFICATES: Final = obj({"certificates": array(_CERTIFICATE), "edge": obj(_EDGE)})
_PEM: Final = string(maxLength=1 << 18, description="PEM")
_SENT: Final = _may(
    {
        "pem": _PEM,
        "key": _PEM,
        "pkcs12": string(maxLength=1 << 19, description="base64"),
        "password": string(maxLength=256),
    }
)


def _https(line: str, summary: str, *refusals: int, **more: Any) -> Route:
    """Return a route of HTTPS: openssl and haproxy take their time on a small box."""
    said = {"access": _ADMIN, "timeout_s": SLOW_S, "refusals": refusals, **more}
    return _route(line.replace(" ", " /v1"), summary, **said)


_HTTPS: Final = {
    "edge": _https(
        "GET /edge",
        "What serves HTTPS, and what it was told; no key is in it",
        answer=obj(
            {
                **_EDGE,
                "certificates": array(obj({"id": string(), "not_after_s": number()})),
                "ending": array(_REASON, description="which certificates end soon, or have ended"),
                "configuration": string(description="haproxy's"),
            }
        ),
    ),
    "certificates": _https(
        "GET /certificates", "The certificates of HTTPS, and what shows them", answer=_CERTIFICATES
    ),
    "certificate.check": _https(
        "POST /certificates/check",
        "Judge a certificate and its key; nothing is kept",
        HTTPStatus.UNPROCESSABLE_ENTITY,
        body=_SENT,
        answer=obj(_ABOUT),
    ),
    "certificate.put": _https(
        "PUT /certificates/<certificate>",
        "Use a certificate and its key, new or in the place of the one of that name",
        *(HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.INSUFFICIENT_STORAGE),
        body=_SENT,
        answer=_CERTIFICATE,
    ),
    "certificate.remove": _https(
        "DELETE /certificates/<certificate>",
        "Forget a certificate and its key; `force`: also where visitors must come by HTTPS",
        *(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
        query={"force": _FLAG},
        answer=_CERTIFICATES,
    ),
    **_job(
        "certificate.renew",
        "/certificates/<certificate>/renew",
        "Have a certificate issued anew; `staging`: only try whether that would work; `changes`:"
        " try it with these changes of the configuration, which are not made",
        "The renewal of a certificate",
        body=_may({"staging": _FLAG, "changes": array(_CHANGE, maxItems=20)}),
    ),
    "certificate.key": _https(
        "POST /certificates/<certificate>/key",
        "Make the key to fetch it with from the server; what to paste there, where `folder` has it",
        *(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
        body=obj({"folder": string(maxLength=256)}),
        answer=obj(
            {
                "user": string(),
                "public_key": string(),
                "fingerprint": string(),
                "line": string(description="for authorized_keys"),
                "script": string(description="empty: the user is none that it could be for"),
            }
        ),
    ),
    "challenge.put": _route(
        "PUT /v1/challenges/<token>",
        "Answer who asks whether a name is ours, for at most ten minutes (RFC 8555, 8.3)",
        body=obj({"answer": string(maxLength=512)}),
        answer=_NOTHING,
        refusals=(HTTPStatus.FORBIDDEN, HTTPStatus.UNPROCESSABLE_ENTITY),
        own=True,
    ),
    "challenge.remove": _route(
        "DELETE /v1/challenges/<token>",
        "Answer no more",
        answer=_NOTHING,
        refusals=(HTTPStatus.FORBIDDEN,),
        own=True,
    ),
}

_UPDATES: Final = {
    "update": _update("GET ", "Which image runs, and how far an update is"),
    "update.forget": _update("DELETE ", "Forget what was looked at"),
    "update.check": _update(
        "POST /check",
        "Look at an image; nothing is written",
        body=obj({"file": _FILE}),
        status=_BEGUN,
    ),
    "update.install": _update(
        "POST /install",
        "Write what was looked at; `older`: also if it is not newer than what runs",
        body=_may({"older": _FLAG}),
        status=_BEGUN,
    ),
    "update.activate": _update(
        "POST /activate",
        "Have the other image run after a restart, or the one that runs now after all",
        body=obj({"slot": choice("other", "booted")}),
    ),
    "update.confirm": _update("POST /confirm", "Take that what runs now is in order"),
}

_STATUS: Final = {
    "status": _route(
        "GET /v1/status",
        "What the box and each server do now, and why",
        reader=True,
        answer=open_obj(
            {
                "box": open_obj(
                    {
                        "version": string(),
                        "started_s": number(),
                        "time_zone": string(),
                        "events_lost": integer(),
                        "history_error": nullable(string()),
                        "settings_refused": nullable(_REASON),
                        "energy_j": mapping(number()),
                        "co2": nullable(_CO2),
                        "front_door": open_obj(
                            {
                                "address": string(description="asked at; empty: not yet"),
                                "ports": array(
                                    open_obj({"port": integer(), "problem": nullable(_REASON)})
                                ),
                                "looked_s": nullable(number()),
                            }
                        ),
                        "edge": open_obj(
                            {
                                **_EDGE,
                                "certificates": array(
                                    open_obj(
                                        {
                                            "id": string(),
                                            "names": array(string()),
                                            "not_before_s": number(),
                                            "not_after_s": number(),
                                            "problem": nullable(_REASON),
                                        }
                                    )
                                ),
                                "ending": array(_REASON),
                            }
                        ),
                    }
                ),
                "servers": array(_SERVER),
                "meters": array(_METER),
            }
        ),
    )
}

ROUTES: Final[dict[str, Route]] = {
    **_STATUS,
    **_OF_ALL,
    **_CONFIG,
    **_SERVERS,
    **_JOBS,
    **_SETUP,
    **_PICO,
    **_BOX,
    **_HTTPS,
    **_UPDATES,
}
