"""What the unbroken tree does: which tests pass every time, what each costs, and which lines it runs.

A test is named as pytest names it, without its parameters: the cases of one test function stand and fall together.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

import msgspec

from assay.code.batches import Job, JobResult, RunOutcome

from ._laboratory import Laboratory, Layout
from ._tree import SourceTree
from .config import SynthesisConfig

__all__ = ["Reference", "base_name", "chosen_tests", "measure", "outcomes"]

FILE_CPU_S = 240.0
"""CPU seconds for all tests of one file, once."""


class Reference(msgspec.Struct, frozen=True):
    """The unbroken tree's tests."""

    passing: dict[str, float]
    """Every test that passed in all repetitions, with its CPU milliseconds."""
    covered: dict[str, dict[str, tuple[int, ...]]]
    """Test to file to the lines that it ran."""
    left_out: dict[str, str]
    """Tests and test files that are not used, with the reason."""


def base_name(test: str) -> str:
    """A test's name without its parameters."""
    return test.partition("[")[0]


def outcomes(tests: dict[str, RunOutcome]) -> dict[str, RunOutcome]:
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
    """Runs the test files as often as configured, once with every line looked at, in both layouts."""
    files = tuple(tests)
    runs: list[dict[str, JobResult]] = []
    for repetition in range(max(2, config.repetitions)):
        layout: Layout = "visible" if repetition == 1 else "hidden"
        jobs = [Job(path, (path,), measure=repetition == 0, cpu_s=FILE_CPU_S) for path in files]
        runs.append(await laboratory.run(jobs, layout=layout, repetition=repetition))
    left_out: dict[str, str] = {}
    passing: dict[str, float] = {}
    covered: dict[str, dict[str, tuple[int, ...]]] = {}
    for path in files:
        results = [run[path] for run in runs]
        reason = next((_reason(r) for r in results if _reason(r)), "")
        if reason:
            left_out[path] = reason
            continue
        _add_file(results, config, passing, left_out)
        for test, lines in results[0].covered.items():
            _merge(covered.setdefault(base_name(test), {}), lines)
    return Reference(passing, {t: c for t, c in covered.items() if t in passing}, left_out)


def _reason(result: JobResult) -> str:
    if result.ended != "done":
        return f"the run of its tests ended by {'time limit' if result.ended == 'time' else 'itself'}"
    if result.problems:
        return f"cannot be collected: {result.problems[0][-200:]}"
    return "" if result.tests else "holds no tests that run here"


def _add_file(
    results: list[JobResult], config: SynthesisConfig, passing: dict[str, float], left_out: dict[str, str]
) -> None:
    runs = [outcomes(result.tests) for result in results]
    for test in runs[0]:
        seen = {run[test].outcome if test in run else "missing" for run in runs}
        slow = min(run[test].cpu_ms for run in runs if test in run)
        if seen != {"passed"}:
            left_out[test] = f"does not pass every time: {', '.join(sorted(seen))}"
        elif slow > config.test_cpu_s * 1000:
            left_out[test] = f"takes more than {config.test_cpu_s:g} CPU seconds"
        else:
            passing[test] = slow


def _merge(into: dict[str, tuple[int, ...]], lines: dict[str, tuple[int, ...]]) -> None:
    for path, numbers in lines.items():
        into[path] = tuple(sorted({*into.get(path, ()), *numbers}))
