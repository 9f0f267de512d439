"""CPU time of commands whose work grows with what users have: help, an audit, judging a run again, admitting tasks.

    python -m benchmarks.commands
    python -m benchmarks.commands --only help
    python -m benchmarks.commands --tasks .assay/demo-tasks-0-24
    python -m benchmarks.commands --only admitting --before ../assay-206e2e3

Each command is a process of its own; its time is that of the process and its children, imports included. Runs are of
the world `grid`, judged in process, and of made tasks, judged in sandboxes, whose processes an accounting group counts.
Times are also given in turns of the reference loop (`peers/bare.py`), measured before and after. With `--before`,
`making` and each round of `admitting` also run an earlier version, and the rows of `admitting` say how many tasks have
other findings there.
"""

from __future__ import annotations

import importlib.util
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from assay.settings import Settings
from benchmarks._admitting import ADMITTED, PROGRAM, QUICKLY, measure_admissions
from benchmarks._cpu import Groups
from benchmarks._measure import reference_us
from benchmarks._report import Report, Target, options

HOW = "CPU of the whole process and its children; of `--help` the slowest verb, medians of 5"
COLUMNS = (
    "what", "size", "cpu_s", "beside_first", "beside_before", "unequal_findings", "thousand_reference_turns",
)  # fmt: skip
ROOT = Path(__file__).parents[1]
TASKS = Path(".assay/demo-tasks-0-24")
BEFORE = "206e2e3"
AUDIT = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from benchmarks.viewer import Size, make_store
make_store(Path(sys.argv[2]), Size(int(sys.argv[3]), 5))
"""
HELP, AUDITED, AGAIN, IN_SANDBOXES = "--help", "audit", "verify --again, in process", "verify --again, in sandboxes"
SANDBOXED_TASKS, EACH = 8, 4


MADE = "synth repository, a kept task"
PACKAGE = "networkx"
MAKING = ("--kind", "operator", "--kind", "combination", "--kind", "feature", "--file-calls", "60000")
"""Options of the demo. This version also judges apart, by `JUDGED_APART`."""
JUDGED_APART = ("--separation-mutants", "8")
FIRST_MEASURED = {MADE: 3.9, QUICKLY: 6.7, ADMITTED: 32.3}
"""A third of the CPU seconds a task that the earlier version (`BEFORE`) was first measured to take:
`docs/benchmarks.md`, "Commands on large runs"."""


class Size(NamedTuple):
    """How large the runs are."""

    audited: int
    in_process: int
    kept: int
    """Tasks to make."""
    admitted: int
    """Tasks to admit."""
    rounds: int
    """Times that each is admitted."""


class Given(NamedTuple):
    tasks: Path
    """Folder of made tasks."""
    before: Path | None
    """Checkout of an earlier version."""


WHOLE, QUICK = Size(20_000, 10_000, 24, 5, 3), Size(500, 100, 1, 1, 1)


def main(words: Sequence[str] | None = None) -> None:
    """Measures and reports."""
    parser = options("commands", __doc__ or "")
    parser.add_argument("--only", action="append", choices=tuple(PARTS), help="only this part; repeatable")
    parser.add_argument("--tasks", type=Path, default=TASKS, metavar="FOLDER", help="made tasks, judged in sandboxes")
    parser.add_argument("--before", type=Path, metavar="FOLDER", help="checkout of an earlier version")
    asked = parser.parse_args(words)
    size, before = QUICK if asked.quick else WHOLE, reference_us()
    rows: list[dict[str, Any]] = []
    missing = {}
    with tempfile.TemporaryDirectory(prefix="assay-bench-") as folder:
        for part in asked.only or PARTS:
            print(f"{part} ...", file=sys.stderr)
            found = list(PARTS[part](size, Path(folder), Given(asked.tasks, asked.before)))
            rows += found
            if not found:
                missing[part] = MISSING.get(part, "").format(tasks=asked.tasks)
    turn_us = (before + reference_us()) / 2
    for row in rows:
        row["thousand_reference_turns"] = row["cpu_s"] * 1e3 / turn_us
    Report("commands", HOW, rows, _targets(rows, whole=not asked.quick), missing).finish(COLUMNS, asked.into)


def _targets(rows: Sequence[dict[str, Any]], *, whole: bool) -> list[Target]:
    found = {row["what"].partition(" of ")[0]: row for row in rows}

    def cpu_s(part: str) -> float | None:
        return found[part]["cpu_s"] if part in found and (whole or part == HELP) else None

    slowest = cpu_s(HELP)
    beside = found.get(IN_SANDBOXES, {}).get("beside_first")
    return [
        Target("help of the slowest verb", "ms CPU", 220.0, None if slowest is None else slowest * 1e3),
        Target(f"audit of {WHOLE.audited:,} attempts", "s CPU", 30.0, cpu_s(AUDITED)),
        Target(f"judging {WHOLE.in_process:,} attempts again in process", "s CPU", 20.0, cpu_s(AGAIN)),
        Target("judging 32 attempts again in sandboxes, beside their run", "times", 0.5, beside),
        *(
            Target(f"{what}, a third of what {BEFORE} was first measured at", "s CPU", limit_s, cpu_s(what))
            for what, limit_s in FIRST_MEASURED.items()
        ),
        *(
            Target(f"{what}, beside {BEFORE}", "times", 1 / 3, found.get(what, {}).get("beside_before"))
            for what in (MADE, QUICKLY, ADMITTED)
        ),
    ]


def _measure_help(_: Size, scratch: Path, __: Given) -> Iterator[dict[str, Any]]:
    listed = _assay(scratch, "--help").stdout.decode().partition("Commands:")[2]
    verbs = [line.split()[0] for line in listed.splitlines() if line.startswith("  ") and line[2:3].isalpha()]
    cpu_s = {verb: statistics.median(_cpu_s(scratch, verb, "--help") for _ in range(5)) for verb in verbs}
    slowest = max(cpu_s, key=lambda verb: cpu_s[verb])
    yield {"what": f"{HELP} of {slowest}", "size": len(verbs), "cpu_s": cpu_s[slowest]}


def _measure_audit(size: Size, scratch: Path, _: Given) -> Iterator[dict[str, Any]]:
    made = [sys.executable, "-c", AUDIT, str(ROOT), str(scratch / "audited"), str(size.audited)]
    subprocess.run(made, cwd="/", check=True)
    cpu_s = _cpu_s(scratch, "audit", "many", "--store", str(scratch / "audited"), may_find=True)
    yield {"what": AUDITED, "size": size.audited, "cpu_s": cpu_s}


def _measure_again(size: Size, scratch: Path, _: Given) -> Iterator[dict[str, Any]]:
    store = ("--store", str(scratch / "worlds"))
    tasks = f"family:grid,n={size.in_process // 10}"
    first = _cpu_s(scratch, "run", tasks, "--agent", "oracle", "--attempts", "10", "--run", "first", *store)
    cpu_s = _cpu_s(scratch, "verify", "first", "--again", "1", *store)
    yield {"what": AGAIN, "size": size.in_process, "cpu_s": cpu_s, "beside_first": cpu_s / first}


def _measure_in_sandboxes(_: Size, scratch: Path, given: Given) -> Iterator[dict[str, Any]]:
    """Compares with the whole run of the reference solutions, of which judging is the largest part."""
    tasks = _made_tasks(given)[:SANDBOXED_TASKS]
    if not tasks:
        return
    store = ("--store", str(scratch / "sandboxes"))
    named = [str(task) for task in tasks]
    with Groups() as groups:
        groups.enter("run")
        _assay(scratch, "run", *named, "--agent", "oracle", "--attempts", str(EACH), "--run", "first", *store)
        groups.enter("verify")
        _assay(scratch, "verify", "first", "--again", "1", *store)
        first_ms, again_ms = groups.cpu_ms("run"), groups.cpu_ms("verify")
    if first_ms is not None and again_ms is not None:
        row = {"what": IN_SANDBOXES, "size": len(tasks) * EACH, "cpu_s": again_ms / 1e3}
        yield row | {"beside_first": again_ms / first_ms}


def _measure_making(size: Size, scratch: Path, given: Given) -> Iterator[dict[str, Any]]:
    """Makes tasks as the demo does, with its tool layers but without results of earlier runs."""
    if importlib.util.find_spec(PACKAGE) is None:
        return
    own = _cost_of_making(size, scratch / "own", JUDGED_APART)
    if own is None:
        return
    row = {"what": MADE, "size": size.kept, "cpu_s": own}
    before = given.before and _cost_of_making(size, scratch / "before", (), given.before)
    yield row | ({"beside_before": own / before} if before else {})


def _cost_of_making(size: Size, scratch: Path, options: Sequence[str], checkout: Path = ROOT) -> float | None:
    """CPU seconds a kept task; None without accounting groups."""
    cache, out = scratch / "cache", scratch / "made"
    cache.mkdir(parents=True)
    (cache / "tools").symlink_to(Settings.from_environment().cache / "tools")
    words = ("synth", "repository", PACKAGE, "--out", str(out), "--count", str(size.kept), *MAKING, *options)
    environment = {"ASSAY_CACHE": str(cache), "PYTHONPATH": str(checkout.absolute() / "src")}
    with Groups() as groups:
        groups.enter("synth")
        _assay(scratch, *words, environment=environment)
        cpu_ms = groups.cpu_ms("synth")
    return None if cpu_ms is None else cpu_ms / 1e3 / len(list(out.glob("*/task.toml")))


def _measure_admitting(size: Size, scratch: Path, given: Given) -> Iterator[dict[str, Any]]:
    tasks = _made_tasks(given)[: size.admitted]
    return measure_admissions(scratch, tasks, given.before, size.rounds) if tasks else iter(())


def _made_tasks(given: Given) -> list[Path]:
    return sorted(path.parent for path in given.tasks.absolute().glob("*/task.toml"))


MISSING = {
    "making": f"{PACKAGE} is not installed, or no accounting groups",
    "again-in-sandboxes": "no made tasks in {tasks} (make demo, or --tasks), or no accounting groups",
    "admitting": "no made tasks in {tasks} (make demo, or --tasks), or no accounting groups",
}
PARTS: dict[str, Callable[[Size, Path, Given], Iterator[dict[str, Any]]]] = {
    "help": _measure_help,
    "audit": _measure_audit,
    "again": _measure_again,
    "again-in-sandboxes": _measure_in_sandboxes,
    "making": _measure_making,
    "admitting": _measure_admitting,
}


def _cpu_s(scratch: Path, *words: str, may_find: bool = False) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    _assay(scratch, *words, may_find=may_find)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _assay(
    scratch: Path, *words: str, may_find: bool = False, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Runs a command; `may_find`: exit code 1, findings, is no failure."""
    given = {**os.environ, "NO_COLOR": "1", **(environment or {})}
    done = subprocess.run([sys.executable, "-c", PROGRAM, *words], cwd=scratch, capture_output=True, env=given)
    if done.returncode and not (may_find and done.returncode == 1):
        raise SystemExit(f"assay {' '.join(words[:3])} failed: {done.stderr.decode()[-500:]}")
    return done


if __name__ == "__main__":
    main()
