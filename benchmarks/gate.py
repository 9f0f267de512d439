"""Fails where a fixed piece of work costs over 10% more than its bound: `python -m benchmarks.gate [--set]`.

Counts do not depend on how busy the machine is: instructions of the host's process (callgrind), calls of functions,
statements of SQLite, bytes written, calls of reading and writing, memory at its peak. Bounds are in `gate.json`, each
for one unit of the work. `--set` writes today's counts as the bounds; a commit that raises one says why.

Function calls and memory are compared only on the version of Python that the bounds were counted with, instructions
only on the same build of it: bounds of several builds stand side by side. Scenarios with sandboxes are not counted
under callgrind, which lacks system calls that they use.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks import _callgrind
from benchmarks._gate_scenarios import SCENARIOS
from benchmarks._measure import machine_facts, markdown_table

BOUNDS: Final = Path(__file__).parent / "gate.json"
TOLERANCE: Final = 0.10
SANDBOXED: Final = ("exec in a sandbox", "null attempt")
UNSTEADY: Final = {("null attempt", "read and write calls")}
"""How often a pipe is read depends on how the host schedules its processes, and some attempts have many."""
MOST_S: Final = 3600.0
"""A count that takes longer has hung; a busy host can make one of a minute take ten."""
RECOUNTS: Final = 3
"""How often a scenario with sandboxes that exceeds a bound is counted once more: a busy host only adds to a count."""
PYTHON_COUNTS: Final = ("function calls", "peak bytes allocated")
INSTRUCTIONS: Final = "instructions"

Counts = dict[str, dict[str, float]]


class Comparison(NamedTuple):
    """A count beside its bound."""

    scenario: str
    metric: str
    bound: float | None
    counted: float | None

    @property
    def verdict(self) -> str:
        """`more` or `less` beyond the tolerance, `new` without a bound, `gone` without a count, else `same`."""
        if self.counted is None:
            return "gone"
        if self.bound is None:
            return "new"
        slack = TOLERANCE * self.bound + 0.05
        if self.counted > self.bound + slack:
            return "more"
        return "less" if self.counted < self.bound - slack else "same"


def count_plainly(arguments: list[str]) -> Counts:
    """Returns the counts of a program that prints them, run without callgrind.

    Args:
        arguments: Arguments of Python.
    """
    return _run([sys.executable, *arguments], {})


def count() -> tuple[Counts, dict[str, str]]:
    """Returns the counts of all scenarios, and the reason for each metric that could not be counted."""
    program = ["-m", "benchmarks._gate_scenarios"]
    reason = _why_no_callgrind()
    with tempfile.TemporaryDirectory(prefix="gate-") as name, ThreadPoolExecutor(2) as pool:
        folder = Path(name)
        plain = pool.submit(count_plainly, [*program, str(folder / "plain"), *SCENARIOS])
        if reason is not None:
            return plain.result(), {INSTRUCTIONS: reason}
        out = folder / "callgrind"
        valgrind = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={out}"]
        names = [scenario for scenario in SCENARIOS if scenario not in SANDBOXED]
        command = [*valgrind, sys.executable, *program, str(folder / "under"), *names]
        under = pool.submit(_run, command, {_callgrind.OUT: str(out)})
        counts, instructions = plain.result(), under.result()
    return {scenario: {**instructions.get(scenario, {}), **counts[scenario]} for scenario in counts}, {}


def recount(counts: Counts, bounds: dict[str, Any], again: Callable[[str], Counts]) -> Counts:
    """Returns the counts with the least of each metric of the sandboxed scenarios that exceeded a bound, of which
    `again` counts one."""
    found = dict(counts)
    for _ in range(RECOUNTS):
        over = {one.scenario for one in compare(found, bounds) if one.verdict == "more"} & set(SANDBOXED)
        for scenario in over:
            other = again(scenario)[scenario]
            found[scenario] = {name: min(value, other.get(name, value)) for name, value in found[scenario].items()}
    return found


def _count_one(scenario: str) -> Counts:
    with tempfile.TemporaryDirectory(prefix="gate-") as folder:
        return count_plainly(["-m", "benchmarks._gate_scenarios", folder, scenario])


def _why_no_callgrind() -> str | None:
    if platform.machine() != _callgrind.MACHINE:
        return f"Valgrind's requests are written down for {_callgrind.MACHINE}, not for {platform.machine()}"
    return None if shutil.which("valgrind") else "valgrind is not installed"


def _run(command: list[str], variables: dict[str, str]) -> Counts:
    """Counts in a folder of temporary files of its own: a sandbox that opens looks at what others have left in it."""
    with tempfile.TemporaryDirectory(prefix="gate-") as scratch:
        Path(scratch).chmod(0o711)
        environment = {**os.environ, "PYTHONHASHSEED": "0", "TMPDIR": scratch, **variables}
        done = subprocess.run(command, capture_output=True, text=True, timeout=MOST_S, env=environment, check=False)
    if done.returncode != 0:
        raise SystemExit(f"gate: a scenario failed:\n{done.stderr[-2000:]}")
    counts: Counts = json.loads(done.stdout.strip().splitlines()[-1])
    return counts


def compare(counts: Counts, bounds: dict[str, Any]) -> list[Comparison]:
    """Returns every count beside its bound, and every bound beside its count, without those that are not comparable on
    this Python."""
    same_python, builds = bounds["python"] == _python(), bounds[INSTRUCTIONS]
    found = []
    for scenario, metrics in counts.items():
        for metric, counted in metrics.items():
            if metric == INSTRUCTIONS and _build() in builds:
                found.append(Comparison(scenario, metric, builds[_build()].get(scenario), counted))
            elif metric != INSTRUCTIONS and (same_python or metric not in PYTHON_COUNTS):
                bound = bounds["bounds"].get(scenario, {}).get(metric)
                found += [Comparison(scenario, metric, bound, counted)] * ((scenario, metric) not in UNSTEADY)
    gone = [
        Comparison(scenario, metric, bound, None)
        for scenario, metrics in bounds["bounds"].items()
        for metric, bound in metrics.items()
        if metric not in counts.get(scenario, {})
    ]
    if any(INSTRUCTIONS in metrics for metrics in counts.values()):  # else they were counted for no scenario
        gone += [
            Comparison(scenario, INSTRUCTIONS, bound, None)
            for scenario, bound in builds.get(_build(), {}).items()
            if INSTRUCTIONS not in counts.get(scenario, {})
        ]
    return found + gone


def _python() -> str:
    return f"{platform.python_implementation()} {'.'.join(platform.python_version_tuple()[:2])}"


def _build() -> str:
    """Names the build of Python: its version, its compiler and a digest of its configuration."""
    options = hashlib.sha256(str(sysconfig.get_config_var("CONFIG_ARGS")).encode()).hexdigest()[:8]
    return f"{platform.python_version()}, {platform.python_compiler()}, {platform.machine()}, configuration {options}"


def _write_bounds(counts: Counts) -> None:
    """Writes the counts as bounds; instructions of other builds stay."""
    before = json.loads(BOUNDS.read_text(encoding="utf-8")) if BOUNDS.exists() else {}
    instructions = {name: metrics[INSTRUCTIONS] for name, metrics in counts.items() if INSTRUCTIONS in metrics}
    bounds = {
        "python": _python(),
        "bounds": {n: {k: v for k, v in metrics.items() if k != INSTRUCTIONS} for n, metrics in counts.items()},
        INSTRUCTIONS: {**before.get(INSTRUCTIONS, {}), **({_build(): instructions} if instructions else {})},
    }
    rounded = json.loads(json.dumps(bounds), parse_float=lambda text: round(float(text), 1))
    BOUNDS.write_text(json.dumps(rounded, indent=2) + "\n", encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Counts, prints a table, and returns 1 where a count exceeds its bound."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gate", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="accepted for `python -m benchmarks`; changes nothing")
    parser.add_argument("--set", action="store_true", help="write today's counts as the bounds")
    parser.add_argument("--into", type=Path, metavar="FILE", help="write the comparison as JSON")
    given = parser.parse_args(arguments)
    counts, missing = count()
    if given.set:
        _write_bounds(counts)
    bounds = json.loads(BOUNDS.read_text(encoding="utf-8"))
    compared = compare(recount(counts, bounds, _count_one), bounds)
    if not missing and _build() not in bounds[INSTRUCTIONS]:
        missing = {INSTRUCTIONS: f"no bounds for this build ({_build()}); add them with --set"}
    if bounds["python"] != _python():
        missing |= dict.fromkeys(PYTHON_COUNTS, f"the bounds are for {bounds['python']}, this is {_python()}")
    _print(compared, missing)
    if given.into is not None:
        rows = [{**one._asdict(), "verdict": one.verdict} for one in compared]
        given.into.write_text(json.dumps({"machine": machine_facts(), "rows": rows, "not_compared": missing}, indent=2))
    return 1 if any(one.verdict in {"more", "new", "gone"} for one in compared) else 0


def _print(compared: list[Comparison], missing: dict[str, str]) -> None:
    rows = [
        [
            one.scenario,
            one.metric,
            "-" if one.bound is None else f"{one.bound:,.1f}",
            "-" if one.counted is None else f"{one.counted:,.1f}",
            one.verdict,
        ]
        for one in compared
    ]
    print(markdown_table(["for each", "count", "bound", "now", "verdict"], rows))
    for metric, reason in missing.items():
        print(f"not compared: {metric}: {reason}")
    for one in compared:
        if one.verdict == "gone":
            print(f"GONE: {one.scenario}: {one.metric} has a bound and was not counted")
        elif one.verdict == "more" and one.bound and one.counted is not None:
            change = f"{one.bound:,.1f} -> {one.counted:,.1f} ({one.counted / one.bound - 1:+.0%})"
            print(f"MORE: {one.scenario}: {one.metric} {change}")
        elif one.verdict == "new":
            print(f"NEW: {one.scenario}: {one.metric} has no bound; set it with `python -m benchmarks.gate --set`")
        elif one.verdict == "less":
            print(f"less: {one.scenario}: {one.metric}; lower the bound with `python -m benchmarks.gate --set`")


if __name__ == "__main__":
    raise SystemExit(main())
