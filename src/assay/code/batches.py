"""A batch of test runs, each on its own version of the program, as data: what is asked, and what came back.

The program that runs a batch is `assay.environments.payload.FORKED_TESTS`. It is copied into a sandbox and runs there
with the tool layer's Python as `forked_tests.py REQUEST REPLY`.
The reply was written in reach of the code under test: it is a measurement for whoever makes tasks or repairs programs,
never a verdict.
"""

from __future__ import annotations

from typing import Literal

import msgspec

__all__ = ["Batch", "Job", "JobResult", "RunOutcome", "read_reply", "write_request"]

MAX_REPLY_BYTES = 256 * 1024 * 1024


class Job(msgspec.Struct, frozen=True, omit_defaults=True):
    """One run of some tests in a process of its own."""

    id: str
    tests: tuple[str, ...]
    """What pytest is to run: absolute paths of files, or `path::name`."""
    write: dict[str, str | None] = {}
    """Texts that files have for this run alone, by absolute path, None where there is no such file; afterwards the
    files are as before."""
    measure: bool = False
    """Record which lines each test ran."""
    explain: bool = False
    """Rewrite assertions, so that messages say what differed. Slower."""
    give_up_on: tuple[str, ...] = ()
    """Stop once all of these tests have failed: nothing was gained. They run first."""
    cpu_s: float = 30.0
    """CPU seconds after which the run is ended."""
    more_cpu_s: float = 0.0
    """CPU seconds more, once one of the tests of `give_up_on` has passed."""


class Batch(msgspec.Struct, frozen=True, omit_defaults=True):
    """Jobs for one runner, run one after another."""

    jobs: tuple[Job, ...]
    root: str
    """Where the tests run: working directory and pytest's root; test names are relative to it."""
    paths: tuple[str, ...] = ()
    """In front of `sys.path`."""
    preload: tuple[str, ...] = ()
    """Modules whose standard-library imports are made once, before forking."""
    cover: tuple[str, ...] = ()
    """Folders whose lines are recorded by jobs that measure."""
    seed: int = 0
    """What `random` is seeded with in each run."""
    stop_when_green: bool = False
    """Leave out the jobs after the first one whose tests all pass."""
    warm: bool = False
    """The jobs differ in what they write alone: collect the tests of the first one once, and give each later process
    the new code of the functions that changed instead of reading everything again. A change that is not inside
    functions, or cannot be made that way, is run as usual."""


class RunOutcome(msgspec.Struct, frozen=True, omit_defaults=True, array_like=True):
    """What one test did. The messages are text of the program under test."""

    outcome: Literal["passed", "failed", "error", "skipped"]
    cpu_ms: float = 0.0
    type: str = ""
    """Name of the exception, where it failed."""
    message: str = ""
    line: int = 0
    """The line of the test's own file that it failed on; 0 where it did not get there."""
    frames: tuple[tuple[str, int], ...] = ()
    """Where the exception went through the program's own files: path and line, innermost first."""


class JobResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one job did."""

    id: str
    ended: Literal["done", "time", "died"]
    """`time`: its CPU seconds or three times that in wall time were spent; `died`: the process ended otherwise."""
    exit_code: int = 0
    """Pytest's own."""
    tests: dict[str, RunOutcome] = {}
    covered: dict[str, dict[str, tuple[int, ...]]] = {}
    """Test to file to the lines that it ran, where the job measured."""
    calls: dict[str, int] = {}
    """Test to the function calls that it made, counted up to a limit, where the job measured: a cost that is the same
    each time."""
    drew: tuple[str, ...] = ()
    """Tests that drew from, or seeded, the random numbers that a whole process shares."""
    problems: tuple[str, ...] = ()
    """Errors of collecting, one text each."""
    cpu_s: float = 0.0


def write_request(batch: Batch) -> bytes:
    """The batch as the runner reads it."""
    return msgspec.json.encode(batch)


def read_reply(data: bytes) -> tuple[JobResult, ...]:
    """The results, in the order of the jobs; a job that the runner did not come to is missing.

    Raises:
        ValueError: The reply is no reply of a runner, or too large.
    """
    if len(data) > MAX_REPLY_BYTES:
        raise ValueError(f"the reply has {len(data)} bytes; at most {MAX_REPLY_BYTES} are read")
    decoder = msgspec.json.Decoder(JobResult)
    return tuple(decoder.decode(line) for line in data.splitlines() if line.strip())
