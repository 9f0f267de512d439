"""Circumstances under which a reference solution must pass too, each in its own attempt.

A control command in the sandbox shows whether the circumstance holds. Where it does not, the attempt stops and the
circumstance is reported as not tested.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from assay.agents.interface import Attempt
from assay.agents.oracle import OracleAgent
from assay.environments.interface import ExecResult, Mount, WorkspaceSpec
from assay.errors import AgentError
from assay.records import Evidence
from assay.rollout.attempt.variation import Variation, clock_variation

HOME = "/opt/assay-admission/home"
PYTHON = "/opt/assay/bin/python3"
DAYS = 365
_ONE_CPU = (
    "import os, sys; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); os.execvp(sys.argv[1], sys.argv[1:])"
)

CIRCUMSTANCES: dict[str, str] = {
    "hash-seed": "another seed of Python's hashes",
    "locale": "the locale POSIX, whose text is ASCII",
    "time-zone": "a time zone 14 hours ahead of UTC",
    "clock": "a clock that is a year ahead",
    "cpu-count": "one CPU alone",
    "read-only-home": "a home folder that is empty and cannot be written",
    "no-network": "no network",
    "test-order": "the tests in the opposite order",
}
"""Name to a description that completes `the reference solution fails with ...`."""
CONTROLS = {"clock-control": "the library that shifts clocks, and the right time"}
"""Controls of circumstances, tried as `NAME-control`: a failure under the control has another cause than the
circumstance. libfaketime 0.9.10 breaks `time.sleep` in Python 3.11 at any time shift."""


TOGETHER = "all-circumstances"
"""Name of the attempt under all circumstances."""


class Circumstance(NamedTuple):
    """A circumstance and its availability here."""

    name: str
    variation: Variation = Variation()
    control: str | None = None
    """Command whose output shows whether it holds; None where only the verdict's evidence shows it."""
    holds: Callable[[str], bool] = lambda _: True
    missing: str | None = None
    """Reason why it is unavailable here."""
    as_always: bool = False
    """True where every attempt at the task runs under it."""


class Combined(NamedTuple):
    """Several circumstances at once."""

    parts: tuple[Circumstance, ...]
    variation: Variation


def combine(circumstances: Sequence[Circumstance]) -> Combined:
    """Returns the circumstances as one variation."""
    env: dict[str, str] = {}
    prefix: tuple[str, ...] = ()
    for one in circumstances:
        env |= one.variation.env
        prefix += one.variation.prefix
    mounts = tuple(mount for one in circumstances for mount in one.variation.mounts)
    no_network = any(one.variation.no_network for one in circumstances)
    return Combined(
        tuple(circumstances), Variation(TOGETHER, env=env, prefix=prefix, mounts=mounts, no_network=no_network)
    )


class CircumstanceOracle(OracleAgent):
    """Runs the reference solution only if all circumstances hold."""

    def __init__(self, *circumstances: Circumstance) -> None:
        self._circumstances = circumstances

    async def run(self, attempt: Attempt) -> None:
        for number, one in enumerate(self._circumstances):
            if one.control is not None and not await self._holds(attempt, one, one.control, number):
                attempt.finish(f"did nothing: {one.name} does not hold here")
                return
        await super().run(attempt)

    async def _holds(self, attempt: Attempt, one: Circumstance, control: str, number: int) -> bool:
        if attempt.workspace is None:
            raise AgentError(f"the environment {attempt.task.environment.kind!r} has no sandbox")
        result: ExecResult = await attempt.workspace.exec(control, timeout_s=30)
        holds = one.holds(result.stdout.strip())
        data = {"name": one.name, "holds": holds, "seen": (result.stdout + result.stderr)[:300]}
        attempt.note(Evidence(f"circumstance{number or ''}", "audit", "circumstance", data))
        return holds


def circumstances(spec: WorkspaceSpec, cache: Path) -> Iterator[Circumstance]:
    """Yields all of `CIRCUMSTANCES` for a task's sandbox. Makes an empty folder in `cache`."""
    yield _variables("hash-seed", {"PYTHONHASHSEED": "20261"}, 'printf %s "$PYTHONHASHSEED"', "20261")
    posix = {"LC_ALL": "POSIX", "LANG": "POSIX", "LANGUAGE": ""}
    yield _variables("locale", posix, 'printf %s "$LC_ALL"', "POSIX")
    yield _variables("time-zone", {"TZ": "<+14>-14"}, "date +%z", "+1400")
    yield from _clock()
    yield _one_cpu()
    home = cache / "admission" / "home"
    home.mkdir(parents=True, exist_ok=True)
    read_only = Variation("read-only-home", env={"HOME": HOME}, mounts=(Mount(str(home.resolve()), HOME),))
    control = 'mkdir "$HOME/assay-try" 2>/dev/null && echo writable || echo read-only'
    yield Circumstance("read-only-home", read_only, control, lambda seen: seen == "read-only")
    yield Circumstance("no-network", Variation("no-network", no_network=True), as_always=spec.network == "none")
    yield Circumstance("test-order", Variation("test-order", env={"ASSAY_TEST_ORDER": "reversed"}))


def _variables(name: str, env: dict[str, str], control: str, expected: str) -> Circumstance:
    return Circumstance(name, Variation(name, env=env), control, lambda seen: seen == expected)


def _clock() -> Iterator[Circumstance]:
    for name, shift in (("clock", f"+{DAYS}d"), ("clock-control", "+0d")):
        variation = clock_variation(name, shift)
        if variation is None:
            missing = "libfaketime is not installed on this machine (Debian and Ubuntu: the package faketime)"
            yield Circumstance("clock", missing=missing)
            return
        if name == "clock":
            yield Circumstance(name, variation, "date +%s", _is_a_year_ahead)
        else:
            yield Circumstance(name, variation, 'printf %s "$FAKETIME"', lambda seen: seen == "+0d")


def _is_a_year_ahead(output: str) -> bool:
    return output.isdecimal() and abs(int(output) - time.time() - DAYS * 86_400) < 86_400


def _one_cpu() -> Circumstance:
    if len(os.sched_getaffinity(0)) < 2:
        return Circumstance("cpu-count", missing="this machine has one CPU, so no other number can be tried")
    variation = Variation("cpu-count", prefix=(PYTHON, "-I", "-S", "-B", "-c", _ONE_CPU))
    return Circumstance("cpu-count", variation, "nproc", lambda seen: seen == "1")
