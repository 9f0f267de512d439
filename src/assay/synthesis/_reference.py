"""What the unbroken tree does: which tests pass every time, what each costs, and which lines it runs.

A test is named as pytest names it, without its parameters: the cases of one test function stand and fall together.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from assay.code.batches import Job, JobResult, RunOutcome

from ._laboratory import Laboratory
from ._tree import SourceTree
from .config import SynthesisConfig

__all__ = ["Reference", "base_name", "chosen_tests", "measure", "outcomes", "stable_tests"]

FILE_CPU_S = 240.0
"""CPU seconds for all tests of one file, once."""


class Reference(msgspec.Struct, frozen=True):
    """The unbroken tree's tests."""

    passing: dict[str, float]
    """Every test that passed in all repetitions, with its CPU milliseconds."""
    cases: dict[str, tuple[str, ...]]
    """Test to its cases, as pytest names them with their parameters."""
    covered: dict[str, dict[str, tuple[int, ...]]]
    """Test to file to the lines that it ran."""
    left_out: dict[str, str]
    """Tests and test files that are not used, with the reason."""


def base_name(test: str) -> str:
    """A test's name without its parameters."""
    return test.partition("[")[0]


def outcomes(tests: Mapping[str, RunOutcome]) -> dict[str, RunOutcome]:
    """One result for each test function: the worst of its cases, with the CPU time of all."""
    order = {"skipped": 0, "passed": 1, "error": 2, "failed": 3}
    found: dict[str, RunOutcome] = {}
    for name, result in tests.items():
        known = found.get(base_name(name))
        if known is None:
            found[base_name(name)] = result
            continue
        worst = result if order[result.outcome] > order[known.outcome] else known
        found[base_name(name)] = msgspec.structs.replace(worst, cpu_ms=known.cpu_ms + result.cpu_ms)
    return found


def chosen_tests(tree: SourceTree, config: SynthesisConfig) -> tuple[str, ...]:
    """The test files that are looked at: all of them, or as many as are needed, drawn by the seed."""
    limit = config.test_files or max(16, config.count * 5 // 4)
    tests = list(tree.tests)
    if len(tests) > limit:
        tests = random.Random(f"{config.seed} test files").sample(tests, limit)
    return tuple(sorted(tests))


async def measure(laboratory: Laboratory, tests: Iterable[str], config: SynthesisConfig) -> Reference:
    """Runs the test files as often as configured, once with every line looked at."""
    found, runs = Reference({}, {}, {}, {}), []
    left = list(tests)
    for repetition in range(max(2, config.repetitions)):
        jobs = [Job(path, (path,), measure=repetition == 0, cpu_s=FILE_CPU_S) for path in left]
        runs.append(await laboratory.run(jobs, repetition=repetition))
        reasons = {path: _reason(runs[-1][path], config) for path in left}
        found.left_out.update({path: reason for path, reason in reasons.items() if reason})
        left = [path for path in left if not reasons[path]]
    for path in left:
        results = [run[path] for run in runs]
        drew = frozenset(base_name(test) for result in results for test in result.drew)
        stable = stable_tests([result.tests for result in results], config.test_cpu_s, drew)
        found.left_out.update(stable.left_out)
        found.passing.update(stable.passing)
        found.cases.update(stable.cases)
        for test, lines in results[0].covered.items():
            if base_name(test) in stable.passing:
                _merge(found.covered.setdefault(base_name(test), {}), lines)
    return found


def _reason(result: JobResult, config: SynthesisConfig) -> str:
    calls = sum(result.calls.values())
    if result.ended != "done":
        return f"the run of its tests ended by {'time limit' if result.ended == 'time' else 'itself'}{_told(result)}"
    if result.problems:
        return f"cannot be collected: {result.problems[0][-200:]}"
    if config.file_calls and calls > config.file_calls:
        return f"its tests make {calls} function calls"
    return "" if result.tests else "holds no tests that run here"


def _told(result: JobResult) -> str:
    return f": {result.problems[0]}" if result.problems else ""


class StableTests(NamedTuple):
    """The tests that pass every time, and why the others are left out."""

    passing: dict[str, float]
    cases: dict[str, tuple[str, ...]]
    left_out: dict[str, str]


def stable_tests(
    runs: Sequence[Mapping[str, RunOutcome]], test_cpu_s: float, drew: frozenset[str] = frozenset()
) -> StableTests:
    """Compares repetitions of the same tests. Those that `drew` from the process's random numbers may pass by chance
    where the program is broken: the runs here seed them, and nobody else does."""
    found = StableTests({}, {}, {})
    merged = [outcomes(run) for run in runs]
    for test in merged[0]:
        seen = {run[test].outcome if test in run else "missing" for run in merged}
        cases = {tuple(sorted(case for case in run if base_name(case) == test)) for run in runs}
        cost = min(run[test].cpu_ms for run in merged if test in run)
        if seen != {"passed"}:
            found.left_out[test] = f"does not pass every time: {', '.join(sorted(seen))}"
        elif len(cases) > 1:
            found.left_out[test] = "has other cases each time"
        elif test in drew:
            found.left_out[test] = "draws random numbers that nothing seeds"
        elif cost > test_cpu_s * 1000:
            found.left_out[test] = f"takes more than {test_cpu_s:g} CPU seconds"
        else:
            found.passing[test] = cost
            found.cases[test] = tuple(c for c in cases.pop() if runs[0][c].outcome == "passed")
    return found


def _merge(into: dict[str, tuple[int, ...]], lines: dict[str, tuple[int, ...]]) -> None:
    for path, numbers in lines.items():
        into[path] = tuple(sorted({*into.get(path, ()), *numbers}))
