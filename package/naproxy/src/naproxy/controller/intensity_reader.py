"""A process for each question to the office's API for carbon dioxide: it prints the answer as JSON.

A foreign answer may be large, slow, or deeply nested: this process has limits, and the controller
does not wait. The job is in the environment, since it contains the key.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Mapping
from typing import Any, Final

import urllib3
from urllib3.exceptions import HTTPError
from urllib3.util import Timeout

from naproxy import __version__
from naproxy.controller.intensity import JOB
from naproxy.controller.outside import TooLongError, at_most, cause_of
from naproxy.core.intensity import MOST_BYTES, grams
from naproxy.core.reason import Reason, WrongError

_FETCH_S: Final = 20.0
_MOST_MEMORY: Final = 128 << 20
_PLAIN: Final = "identity"


def ask(job: Mapping[str, str]) -> dict[str, Any]:
    """Return `co2_g` of a kilowatt-hour, or the problem: as JSON."""
    try:
        with at_most(_FETCH_S, signal.ITIMER_REAL):
            return {"co2_g": grams(_fetched(job), job["value"], time.time()), "problem": None}
    except WrongError as error:
        problem = error.reason
    except TooLongError:
        late = TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
        problem = Reason("co2.unreachable", why=cause_of(late))
    except (OSError, HTTPError, ValueError, MemoryError) as error:
        problem = Reason("co2.unreachable", why=cause_of(error))
    return {"co2_g": None, "problem": problem.plain()}


def _fetched(job: Mapping[str, str]) -> bytes:
    headers = {
        "User-Agent": f"naproxy/{__version__}",
        "Accept": "application/json",
        "Accept-Encoding": _PLAIN,  # compressed data may be a zip bomb
    }
    if job["key"]:
        headers[job["header"]] = job["key"]
    # A redirect would take the key along.
    with urllib3.PoolManager(timeout=Timeout(connect=10, read=10)).request(
        "GET",
        job["url"],
        headers=headers,
        retries=False,
        redirect=False,
        preload_content=False,
        decode_content=False,
    ) as answer:
        if answer.status != 200:
            raise WrongError("co2.status", status=answer.status)
        if answer.headers.get("Content-Encoding", _PLAIN) != _PLAIN:
            raise WrongError("co2.no_json")
        return answer.read(MOST_BYTES + 1)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_DATA, (_MOST_MEMORY, _MOST_MEMORY))
    json.dump(ask(json.loads(os.environ[JOB])), sys.stdout)
