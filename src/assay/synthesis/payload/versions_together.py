"""Runs tests on several versions of a package in one process, one version after another.

To fork a process and to start a session in it costs about as much as the tests of a version. What one version left must
not decide about the next: all results count only if the tests that ran pass on the reference afterwards, in the same
process. A version that takes long, that the package in memory refuses, or under which a run until the first failure
finds none, has no result here: it runs in a process of its own. For making tasks, never for judging.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import forked_tests  # type: ignore[import-not-found]  # copied beside this file, as is the next
import pytest
from bare_items import BareOutcomes, run_items  # type: ignore[import-not-found]

Result = TypeVar("Result")
SHARE = 0.25
"""Share of a job's CPU seconds that a version has here."""
AGAIN_S = 0.02
"""CPU seconds after which a test is interrupted once its version has had its share."""


class VersionOverTimeError(BaseException):
    """Raised in a test whose version has had its share of CPU time; `except Exception` does not stop it."""


def run_together(package: Any, batch: dict[str, Any], aside: Path) -> dict[str, dict[str, Any]]:
    """Returns the results of the jobs that could run in one process, by id; leaves all files as they were.

    The jobs have the same tests, which the `LoadedPackage` has collected.
    """
    jobs = batch["jobs"]
    before = {path: (Path(path).read_bytes(), os.stat(path)) for job in jobs for path in job.get("write", {})}  # noqa: PTH116
    wide = {**jobs[0], "cpu_s": (1 + SHARE * len(jobs)) * jobs[0]["cpu_s"]}
    result = forked_tests.in_child(batch, wide, aside.with_suffix(".together"), partial(_run_session, package, batch))
    for path, (data, found) in before.items():
        if Path(path).read_bytes() != data:
            Path(path).write_bytes(data)
            os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    return dict(result.get("results", {}))


def _run_session(package: Any, batch: dict[str, Any]) -> dict[str, Any]:
    forked_tests.prepare(batch)
    first = {**batch["jobs"][0], "until_failure": False, "slow_s": 0}
    loop, recorder = VersionsLoop(package, batch["jobs"]), BareOutcomes(first)
    forked_tests.start_pytest(batch, first, [recorder, loop])
    return {"results": loop.results if loop.is_unharmed else {}}


class VersionClock:
    """Interrupts the tests of a version that has had its share of CPU time."""

    def __init__(self) -> None:
        self.is_over = False
        """True if the last version was interrupted: its outcomes do not count."""
        signal.signal(signal.SIGVTALRM, self._interrupt)

    def run(self, limit_s: float, work: Callable[[], Result]) -> Result:
        """Does the work of one version."""
        self.is_over = False
        signal.setitimer(signal.ITIMER_VIRTUAL, limit_s, AGAIN_S)
        done = work()
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        return done

    def _interrupt(self, *_: Any) -> None:
        self.is_over = True
        raise VersionOverTimeError


class VersionsLoop:
    """Pytest plugin that runs the collected tests on the version of each job."""

    def __init__(self, package: Any, jobs: list[dict[str, Any]]) -> None:
        self._package, self._jobs, self._clock = package, jobs, VersionClock()
        self.results: dict[str, dict[str, Any]] = {}
        self.is_unharmed = False
        """True if the tests that ran pass on the reference afterwards."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: Any) -> bool:
        """Runs all versions, then the reference."""
        items, ran, drawn = list(session.items), set[str](), random.getstate()
        for serial, job in enumerate(self._jobs):
            random.setstate(drawn)
            with self._package.replaced(job.get("write", {}), serial):
                if self._package.has_collected(job):
                    self._run(session, items, job, ran)
        outcomes = run_items(session, [item for item in items if item.nodeid in ran], _do_nothing, _do_nothing)
        self.is_unharmed = {*outcomes.values()} <= {"passed"} and outcomes.keys() == ran
        return True

    def _run(self, session: Any, items: list[Any], job: dict[str, Any], ran: set[str]) -> None:
        is_short = bool(job.get("until_failure"))
        work = partial(run_items, session, items, _do_nothing, _do_nothing, until_failure=is_short)
        share = SHARE * job["cpu_s"]
        outcomes = self._clock.run(min(job.get("slow_s") or share, share), work)
        ran.update(outcomes)
        is_failed = bool({*outcomes.values()} & {"failed", "error"})
        if not self._clock.is_over and (is_failed or not is_short):
            tests = {name: [outcome] for name, outcome in outcomes.items()}
            self.results[job["id"]] = {"id": job["id"], "ended": "done", "tests": tests}


def _do_nothing(_test: str) -> None:
    pass
