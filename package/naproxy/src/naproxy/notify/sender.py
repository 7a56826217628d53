"""A process for each letter and channel: it sends, and prints what went wrong as JSON.

The job comes by the environment, since it has passwords in it.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Mapping
from typing import Any, Final

from urllib3.exceptions import HTTPError, MaxRetryError

from naproxy.core.processes import why
from naproxy.core.reason import Reason, WrongError
from naproxy.notify import channels, http_send, smtp_send

JOB: Final = "NAPROXY_NOTIFY"
_MOST_MEMORY: Final = 128 << 20
_BY: Final = channels.SendBy(http=http_send.send, mail=smtp_send.send)


def send(job: Mapping[str, Any]) -> Reason | None:
    """Send; return why not."""
    try:
        channels.module(job["channel"]).send(job["settings"], job["letter"], _BY)
    except WrongError as error:
        return error.reason
    except MaxRetryError as error:
        return _unreached(error.reason or error)
    except (OSError, HTTPError, ValueError) as error:
        return _unreached(error)
    return None


def _unreached(error: BaseException) -> Reason:
    """Say why; a library's own words may have an address with a password in them."""
    cause = error
    while not isinstance(cause, OSError) and (cause.__cause__ or cause.__context__):
        cause = cause.__cause__ or cause.__context__ or cause
    said = why(cause) if isinstance(cause, OSError) else type(cause).__name__
    return Reason("notify.not_sent", why=said)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_DATA, (_MOST_MEMORY, _MOST_MEMORY))
    problem = send(json.loads(os.environ[JOB]))
    json.dump({"problem": problem.plain() if problem else None}, sys.stdout)
