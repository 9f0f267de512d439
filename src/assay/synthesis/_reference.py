"""Measures the unbroken tree: tests that pass every time, their cost, and the lines that they run.

A test is named as pytest names it, without its parameters: the cases of one test function count as one test.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from assay.code.batches import Job, JobResult, RunOutcome

from ._laboratory import Laboratory
from ._progress import Progress, ignore_progress
from ._tree import SourceTree
from .config import SynthesisConfig

FILE_CPU_S = 240.0
"""CPU seconds for all tests of one file, once."""


class Reference(msgspec.Struct, frozen=True):
    """The unbroken tree's tests."""

    passing: dict[str, float]
    """Tests that passed in all repetitions, with their CPU milliseconds."""
    cases: dict[str, tuple[str, ...]]
    """Test to its cases, as pytest names them with their parameters."""
    covered: dict[str, dict[str, tuple[int, ...]]]
    """Test to file to the lines that it ran."""
    left_out: dict[str, str]
    """Unused tests and test files, with the reason."""


def strip_parameters(test: str) -> str:
    """Returns a test's name without its parameters."""
    return test.partition("[")[0]


def merge_cases(tests: Mapping[str, RunOutcome]) -> dict[str, RunOutcome]:
    """Returns one result for each test function: the worst of its cases, with the CPU time of all."""
    order = {"skipped": 0, "passed": 1, "error": 2, "failed": 3}
    measured: dict[str, RunOutcome] = {}
    for name, result in tests.items():
        earlier = measured.get(strip_parameters(name))
        if earlier is None:
            measured[strip_parameters(name)] = result
            continue
        worst = result if order[result.outcome] > order[earlier.outcome] else earlier
        measured[strip_parameters(name)] = msgspec.structs.replace(worst, cpu_ms=earlier.cpu_ms + result.cpu_ms)
    return measured


def choose_test_files(tree: SourceTree, config: SynthesisConfig) -> tuple[str, ...]:
    """Returns the test files to measure: all of them, or as many as needed, drawn by the seed."""
    limit = config.test_files or max(16, config.count * 5 // 4)
    tests = list(tree.tests)
    if len(tests) > limit:
        tests = random.Random(f"{config.seed} test files").sample(tests, limit)
    return tuple(sorted(tests))


async def measure_tests(
    laboratory: Laboratory, tests: Iterable[str], config: SynthesisConfig, tell: Progress = ignore_progress
) -> Reference:
    """Runs the test files the configured number of times, the first time with line coverage."""
    measured, left, repetitions = Reference({}, {}, {}, {}), list(tests), max(2, config.repetitions)

    async def run(repetition: int) -> dict[str, JobResult]:
        most = config.file_calls if repetition == 0 else 0
        jobs = [Job(path, (path,), measure=repetition == 0, most_calls=most, cpu_s=FILE_CPU_S) for path in left]
        return await laboratory.run(jobs, repetition=repetition)

    def keep_usable(results: Mapping[str, JobResult]) -> list[str]:
        reasons = {path: _exclusion_reason(results[path], config) for path in left}
        measured.left_out.update({path: reason for path, reason in reasons.items() if reason})
        return [path for path in left if not reasons[path]]

    tell("measuring the tests", 0, repetitions)
    runs = [await run(0)]
    left = keep_usable(runs[0])
    tell("measuring the tests", 1, repetitions)
    async with asyncio.TaskGroup() as group:  # each has a hash seed of its own, and sandboxes that serve it
        tasks = [group.create_task(run(repetition)) for repetition in range(1, repetitions)]
    for task in tasks:
        runs.append(task.result())
        left = keep_usable(runs[-1])
    for path in left:
        results = [run[path] for run in runs]
        drew = frozenset(strip_parameters(test) for result in results for test in result.drew)
        others = {test for result in results for test in result.tests.keys() - own_tests(result.tests, (path,)).keys()}
        measured.left_out.update(dict.fromkeys(map(strip_parameters, sorted(others)), f"is reported by {path}"))
        stable = find_stable_tests([own_tests(result.tests, (path,)) for result in results], config.test_cpu_s, drew)
        measured.left_out.update(stable.left_out)
        measured.passing.update(stable.passing)
        measured.cases.update(stable.cases)
        for test, lines in results[0].covered.items():
            if strip_parameters(test) in stable.passing:
                _merge(measured.covered.setdefault(strip_parameters(test), {}), lines)
    return measured


def _exclusion_reason(result: JobResult, config: SynthesisConfig) -> str:
    calls = sum(result.calls.values())
    if result.ended != "done":
        problem = f": {result.problems[0]}" if result.problems else ""
        return f"the run of its tests ended by {'time limit' if result.ended == 'time' else 'itself'}{problem}"
    if result.problems:
        return f"cannot be collected: {result.problems[0][-200:]}"
    if config.file_calls and calls > config.file_calls:
        return f"its tests make more than {config.file_calls} function calls"
    return "" if result.tests else "holds no tests that run here"


def own_tests(tests: Mapping[str, RunOutcome], files: Collection[str]) -> dict[str, RunOutcome]:
    """Returns the tests of the files that ran. A package's own plugin can report any name, and what a name says of its
    file is later a path."""
    return {name: result for name, result in tests.items() if name.partition("::")[0] in files}


class StableTests(NamedTuple):
    """Tests that pass every time, and the reasons for leaving out the others."""

    passing: dict[str, float]
    cases: dict[str, tuple[str, ...]]
    left_out: dict[str, str]


def find_stable_tests(
    runs: Sequence[Mapping[str, RunOutcome]], test_cpu_s: float, drew: frozenset[str] = frozenset()
) -> StableTests:
    """Compares repetitions of the same tests. Tests in `drew` use the process's random numbers, which only these runs
    seed: elsewhere they may pass a broken program by chance."""
    measured = StableTests({}, {}, {})
    merged = [merge_cases(run) for run in runs]
    for test in merged[0]:
        outcomes = {run[test].outcome if test in run else "missing" for run in merged}
        cases = {tuple(sorted(case for case in run if strip_parameters(case) == test)) for run in runs}
        cost = min(run[test].cpu_ms for run in merged if test in run)
        if outcomes != {"passed"}:
            measured.left_out[test] = f"does not pass every time: {', '.join(sorted(outcomes))}"
        elif len(cases) > 1:
            measured.left_out[test] = "has other cases each time"
        elif test in drew:
            measured.left_out[test] = "draws random numbers that nothing seeds"
        elif cost > test_cpu_s * 1000:
            measured.left_out[test] = f"takes more than {test_cpu_s:g} CPU seconds"
        else:
            measured.passing[test] = cost
            measured.cases[test] = tuple(c for c in cases.pop() if runs[0][c].outcome == "passed")
    return measured


def _merge(into: dict[str, tuple[int, ...]], lines: dict[str, tuple[int, ...]]) -> None:
    for path, numbers in lines.items():
        into[path] = tuple(sorted({*into.get(path, ()), *numbers}))
