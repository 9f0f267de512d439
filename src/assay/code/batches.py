"""Batches of test runs as data: requests and results.

`assay.environments.payload.FORKED_TESTS` runs a batch. It is copied into a sandbox and runs there with the tool layer's
Python as `forked_tests.py REQUEST REPLY`. The code under test can write the reply, so it is a measurement, never a
verdict.
"""

from __future__ import annotations

from typing import Literal

import msgspec

MAX_REPLY_BYTES = 256 * 1024 * 1024


class Job(msgspec.Struct, frozen=True, omit_defaults=True):
    """One run of some tests in a process of its own."""

    id: str
    tests: tuple[str, ...]
    """Pytest targets: absolute paths, or `path::name`."""
    write: dict[str, str | None] = {}
    """Absolute path to temporary content, for this run alone; None removes the file."""
    measure: bool = False
    """Record the lines that each test runs."""
    most_calls: int = 0
    """Stop a measuring job after the test in which its function calls become more than this; 0: at no number."""
    explain: bool = False
    """Rewrite assertions for detailed messages. Slower."""
    give_up_on: tuple[str, ...] = ()
    """Stop once all of these tests have failed. They run first."""
    cpu_s: float = 30.0
    """CPU time limit in seconds."""
    more_cpu_s: float = 0.0
    """Additional CPU seconds, once a test of `give_up_on` has passed."""
    until_failure: bool = False
    """Stop at the first test that fails: the question is if all pass."""
    slow_s: float = 0.0
    """Stop at the first test that takes more CPU seconds than this; 0: at none. Only a program server heeds it: without
    one the job runs to its end."""


class JobBatch(msgspec.Struct, frozen=True, omit_defaults=True):
    """Jobs for one runner, run one after another."""

    jobs: tuple[Job, ...]
    root: str
    """Working directory and pytest root; test names are relative to it."""
    paths: tuple[str, ...] = ()
    """Entries in front of `sys.path`."""
    preload: tuple[str, ...] = ()
    """Modules whose standard-library imports are made once, before forking."""
    cover: tuple[str, ...] = ()
    """Folders whose lines measuring jobs record."""
    seed: int = 0
    """Seed of `random` in each run."""
    stop_when_green: bool = False
    """Skip the jobs after the first one whose tests all pass."""
    warm: bool = False
    """Collect the tests of the first job once and patch only changed functions in later processes. For jobs that differ
    in `write` alone. Other changes run as usual."""
    together: bool = False
    """Let jobs that follow each other and differ in `write` alone share a process, if nothing that a version leaves
    shows in their tests. Only a program server heeds it: without one each has a process of its own."""


class RunOutcome(msgspec.Struct, frozen=True, omit_defaults=True, array_like=True):
    """Result of one test. The messages are text of the program under test."""

    outcome: Literal["passed", "failed", "error", "skipped"]
    cpu_ms: float = 0.0
    type: str = ""
    """Name of the exception, for a failure."""
    message: str = ""
    line: int = 0
    """Failing line in the test's own file; 0 where it was not reached."""
    frames: tuple[tuple[str, int], ...] = ()
    """Path and line of the exception's frames in the program's own files, innermost first."""


class JobResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """Result of one job."""

    id: str
    ended: Literal["done", "time", "died", "slow", "cold"]
    """`time`: its CPU seconds or three times that in wall time were spent; `slow`: stopped at a test that took more
    than `slow_s`; `died`: the process ended otherwise; `cold`: not run, because it needs a process that imports the
    package."""
    exit_code: int = 0
    """Exit code of pytest."""
    tests: dict[str, RunOutcome] = {}
    covered: dict[str, dict[str, tuple[int, ...]]] = {}
    """Test to file to executed lines, for measuring jobs."""
    calls: dict[str, int] = {}
    """Test to its number of function calls up to a limit, for measuring jobs: a deterministic cost."""
    drew: tuple[str, ...] = ()
    """Tests that used or seeded the process-wide random state."""
    slow: str = ""
    """Test at which a run ended that is `slow`."""
    problems: tuple[str, ...] = ()
    """Collection errors."""
    cpu_s: float = 0.0


def write_request(batch: JobBatch) -> bytes:
    """Encodes the batch for the runner."""
    return msgspec.json.encode(batch)


def read_reply(data: bytes) -> tuple[JobResult, ...]:
    """Returns the results in job order, without jobs that were not reached. Raises `ValueError` for another reply."""
    if len(data) > MAX_REPLY_BYTES:
        raise ValueError(f"the reply has {len(data)} bytes; at most {MAX_REPLY_BYTES} are read")
    decoder = msgspec.json.Decoder(JobResult)
    return tuple(decoder.decode(line) for line in data.splitlines() if line.strip())
