"""Work that takes a while and is looked at meanwhile: one at a time of each name."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from http import HTTPStatus
from typing import Any, Final

from naproxy.api.calls import ApiError, told
from naproxy.core.reason import Reason

_LOG: Final = logging.getLogger(__name__)
MOST_JOBS: Final = 32


class JobError(ApiError):
    """Why it came to nothing."""

    def __init__(self, code: str, /, **params: Any) -> None:
        """Take what `Reason` takes."""
        super().__init__(HTTPStatus.CONFLICT, Reason(code, **params))


class BusyError(ApiError):
    """It is under way already, or was a moment ago."""

    def __init__(self, code: str, /, **params: Any) -> None:
        """Take what `Reason` takes."""
        super().__init__(HTTPStatus.TOO_MANY_REQUESTS, Reason(code, **params))


@dataclass(slots=True)
class Progress:
    """How far it is: `done` of `of`, 0 where that is not known, and a word for the part."""

    done: int = 0
    of: int = 0
    part: str = ""


@dataclass(slots=True)
class Job:
    """One run of it."""

    began_s: float
    progress: Progress = field(default_factory=Progress)
    ended_s: float | None = None
    result: Any = None
    error: dict[str, Any] | None = None
    task: asyncio.Task[None] | None = None

    def status(self) -> dict[str, Any]:
        """Return it as JSON."""
        ended = "failed" if self.error else "done"
        return {
            "state": "running" if self.ended_s is None else ended,
            "progress": asdict(self.progress),
            "began_s": self.began_s,
            "ended_s": self.ended_s,
            "result": self.result,
            "error": self.error,
        }


NEVER: Final = {**Job(0.0).status(), "state": "never", "began_s": None}

Work = Callable[[Progress], Awaitable[Any]]


class Jobs:
    """The last run of each name. What an older one found is forgotten."""

    def __init__(
        self,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`clock` is what people read, `monotonic` what the pause is counted by."""
        self._clock = clock
        self._monotonic = monotonic
        self._jobs: dict[str, Job] = {}
        self._started: dict[str, float] = {}

    def start(self, name: str, work: Work, pause_s: float) -> dict[str, Any]:
        """Begin; BusyError if it runs, or began less than `pause_s` ago."""
        last = self._jobs.get(name)
        if last and last.ended_s is None:
            raise BusyError("setup.under_way")
        left_s = self._started.get(name, -pause_s) + pause_s - self._monotonic()
        if left_s > 0:
            raise BusyError("setup.just_done", left_s=round(left_s))
        if len(self._jobs) >= MOST_JOBS and name not in self._jobs:
            self._forget_oldest()
        job = self._jobs[name] = Job(self._clock())
        self._started[name] = self._monotonic()
        job.task = asyncio.get_running_loop().create_task(self._run(job, work))
        return job.status()

    async def _run(self, job: Job, work: Work) -> None:
        try:
            job.result = await work(job.progress)
        except JobError as error:
            job.error = told(error.reason)
        except asyncio.CancelledError:
            job.error = told(Reason("setup.cancelled"))
        except Exception as error:
            _LOG.error("set-up: %r", error)
            job.error = told(Reason("setup.fault"))
        finally:
            job.ended_s = self._clock()

    def status(self, name: str) -> dict[str, Any]:
        """Return how far it is, or what came of it."""
        job = self._jobs.get(name)
        return job.status() if job else dict(NEVER)

    def cancel(self, name: str) -> dict[str, Any]:
        """Call it off if it runs."""
        job = self._jobs.get(name)
        if job and job.task and job.ended_s is None:
            job.task.cancel()
        return self.status(name)

    def stop(self) -> None:
        """Call everything off."""
        for name in self._jobs:
            self.cancel(name)

    def _forget_oldest(self) -> None:
        ended = [name for name, job in self._jobs.items() if job.ended_s is not None]
        if not ended:
            raise BusyError("setup.too_much")
        oldest = min(ended, key=lambda name: self._jobs[name].began_s)
        del self._jobs[oldest]
        self._started.pop(oldest, None)
