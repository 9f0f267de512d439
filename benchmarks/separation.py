"""What it costs to verify a task by its separation plan, beside the same task without the plan, in one process.

The reference solution of each task is applied once and its state sealed; that state is then judged by turns with
`tests/separation.json` and without it, where every test runs with the code under test: once as Assay does it, with
control runs over altered tests, and once as one run alone. The turns give ratios of CPU a task. For the store, the
oracle runs once over all tasks with plans and once without.

    python -m benchmarks.separation --tasks FOLDER
    python -m benchmarks.separation --quick
"""

from __future__ import annotations

import asyncio
import shutil
import statistics
import tempfile
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from assay.environments.interface import Snapshot, WorkspaceSpec
from assay.environments.workspace.namespaces import NamespacesBackend
from assay.rollout import RunConfig, Tally, start_run
from assay.rollout.attempt.preparation import Preparer
from assay.settings import Settings
from assay.store import BlobStore
from assay.tasks import LoadedTask, load_task
from assay.verify import JudgeRequest, outcome, verify_outcome
from assay.verify.separation_plan import PLAN_PATH
from benchmarks._cpu import Groups
from benchmarks._measure import cpu_seconds
from benchmarks._report import Report, Target, options

TASKS = Path(".assay/demo-tasks-0-24")
HOW = (
    "the reference solution's sealed state judged by turns with the separation plan and without it (all tests in "
    "process, with control runs and as one run without them); CPU of host, launcher and sandboxes; medians over the "
    "turns of a task; the last row over the tasks"
)
COLUMNS = ("what", "tests", "outside", "pairs", "cpu_ms", "plain_cpu_ms", "times_plain", "p95_times_plain")
COLUMNS += ("one_run_cpu_ms", "times_one_run", "p95_times_one_run")
WITH, WITHOUT, ONE_RUN = "with the plan", "without", "one run without"


class Bench(NamedTuple):
    """One side of the comparison; its launcher and sandboxes belong to one accounting group."""

    name: str
    backend: NamespacesBackend
    preparer: Preparer
    blobs: BlobStore


class Subject(NamedTuple):
    """One task with its reference solution's state, ready to be judged."""

    loaded: LoadedTask
    spec: WorkspaceSpec
    state: Snapshot


class Pair(NamedTuple):
    """CPU milliseconds of one verification each."""

    planned_ms: float
    plain_ms: float
    one_run_ms: float


class Judged(NamedTuple):
    """How many tests were judged, and in which way."""

    tests: int
    outside: int


def main(arguments: list[str] | None = None) -> Report:
    """Measures, prints, writes."""
    parser = options("separation", "What it costs to judge apart.")
    parser.add_argument("--tasks", type=Path, default=TASKS, metavar="FOLDER", help="task folders with plans")
    parser.add_argument("--rounds", type=int, default=5, help="pairs a task")
    given = parser.parse_args(arguments)
    folders = sorted(path.parent.parent for path in given.tasks.glob(f"*/{PLAN_PATH}"))
    if given.quick:
        folders = folders[:2]
    rows: list[dict[str, Any]] = []
    not_measured = {} if folders else {"all of it": f"no task folder with a plan in {given.tasks}: run `assay demo`"}
    with Groups() as groups, tempfile.TemporaryDirectory(prefix="separation-") as place:
        if not groups.works:
            not_measured["CPU of sandboxes"] = "needs root and a writable control group; what was reaped is counted"
        if folders:
            rows = asyncio.run(_measure(folders, 1 if given.quick else given.rounds, groups, Path(place)))
    added = _added_bytes(folders) if folders else None
    single = sorted(row["times_one_run"] for row in rows)
    ratios = sorted(row["times_plain"] for row in rows)
    if ratios:
        rows.append(_summary(rows, ratios, added))
    targets = [
        Target("CPU of verifying by the plan, median task", "times in process", 2.0, _at(ratios, 0.5)),
        Target("CPU of verifying by the plan, median task, no controls", "times one run", 2.0, _at(single, 0.5)),
        Target("bytes in the store that the plan adds to an attempt", "bytes", 20_000.0, added),
    ]
    report = Report("separation", HOW, rows, targets, not_measured)
    report.finish((*COLUMNS, "bytes_added"), given.into)
    return report


async def _measure(folders: list[Path], rounds: int, groups: Groups, place: Path) -> list[dict[str, Any]]:
    benches = [_bench(name, place) for name in (WITH, WITHOUT)]
    rows = []
    try:
        for folder in folders:
            plain = place / "plain" / folder.name
            shutil.copytree(folder, plain)
            (plain / PLAN_PATH).unlink()
            subjects = {}
            for bench, own in zip(benches, (folder, plain), strict=True):
                groups.enter(bench.name)  # before its launcher starts
                subjects[bench.name] = await _subject(own, bench)
            rows.append(await _compare(subjects, benches, rounds, groups))
            for bench in benches:
                await bench.backend.release(subjects[bench.name].state)
            print(f"{rows[-1]['what']}: {rows[-1]['times_plain']:.2f} times", flush=True)
    finally:
        for bench in benches:
            await bench.backend.close()
    return rows


def _bench(name: str, place: Path) -> Bench:
    settings = Settings(cache=Settings.from_environment().cache, store=place)
    backend = NamespacesBackend()
    return Bench(name, backend, Preparer(backend, RunConfig(tasks=(".",)), settings), BlobStore(place / name))


async def _subject(folder: Path, bench: Bench) -> Subject:
    loaded = load_task(folder)
    spec = await bench.preparer.spec(loaded)
    workspace = await bench.backend.open(spec)
    try:
        await workspace.upload(folder / "solution", "/tmp/solution")
        done = await workspace.exec(["sh", "/tmp/solution/solve.sh"], timeout_s=60)
        if done.exit_code:
            raise SystemExit(f"{folder.name}: its solution ended with {done.exit_code}: {done.stderr[-500:]}")
        await workspace.exec(["rm", "-rf", "/tmp/solution"])
        return Subject(loaded, spec, await workspace.snapshot())
    finally:
        await workspace.close()


async def _compare(subjects: dict[str, Subject], benches: list[Bench], rounds: int, groups: Groups) -> dict[str, Any]:
    pairs, judged = [], Judged(0, 0)
    for number in range(-1, rounds):  # the first pair stages files and is not counted
        spent = {}
        turns = [(bench, bench.name) for bench in benches] + [(benches[1], ONE_RUN)]
        for bench, way in turns if number % 2 else reversed(turns):
            subject = subjects[bench.name]
            groups.enter(bench.name)
            before = _cpu_ms(groups, bench.name)
            task, folder = subject.loaded.task, subject.loaded.folder
            request = JudgeRequest(task, folder, bench.backend, subject.spec, subject.state, bench.blobs)
            with _without_controls() if way == ONE_RUN else nullcontext():
                (result,) = await verify_outcome(request)
            spent[way] = _cpu_ms(groups, bench.name) - before
            if result.verdict.status != "pass":
                raise SystemExit(f"{task.id} {way}: {result.verdict.status}: {result.verdict.reason}")
            if way == WITH:
                grades = result.verdict.separations
                judged = Judged(sum(grades.values()), sum(grades.values()) - grades.get("same-process", 0))
        if number >= 0:
            pairs.append(Pair(spent[WITH], spent[WITHOUT], spent[ONE_RUN]))
    return _row(subjects[WITH].loaded.task.id, judged, pairs)


def _without_controls() -> AbstractContextManager[Any]:
    return mock.patch.object(outcome, "needs_altered_tests", return_value=False)


def _row(name: str, judged: Judged, pairs: list[Pair]) -> dict[str, Any]:
    ratios = sorted(pair.planned_ms / pair.plain_ms for pair in pairs)
    return {
        "what": name,
        "tests": judged.tests,
        "outside": judged.outside,
        "pairs": len(pairs),
        "cpu_ms": statistics.median(pair.planned_ms for pair in pairs),
        "plain_cpu_ms": statistics.median(pair.plain_ms for pair in pairs),
        "times_plain": statistics.median(ratios),
        "one_run_cpu_ms": statistics.median(pair.one_run_ms for pair in pairs),
        "times_one_run": statistics.median(pair.planned_ms / pair.one_run_ms for pair in pairs),
        "ratios": [round(ratio, 3) for ratio in ratios],
    }


def _summary(rows: list[dict[str, Any]], ratios: list[float], added: float | None) -> dict[str, Any]:
    return {
        "what": f"{len(rows)} tasks",
        "tests": sum(row["tests"] for row in rows),
        "outside": sum(row["outside"] for row in rows),
        "pairs": sum(row["pairs"] for row in rows),
        "cpu_ms": statistics.median(row["cpu_ms"] for row in rows),
        "plain_cpu_ms": statistics.median(row["plain_cpu_ms"] for row in rows),
        "times_plain": _at(ratios, 0.5),
        "p95_times_plain": _at(ratios, 0.95),
        "one_run_cpu_ms": statistics.median(row["one_run_cpu_ms"] for row in rows),
        "times_one_run": _at(sorted(row["times_one_run"] for row in rows), 0.5),
        "p95_times_one_run": _at(sorted(row["times_one_run"] for row in rows), 0.95),
        "bytes_added": added,
    }


def _at(ordered: list[float], share: float) -> float | None:
    """Returns a quantile, linear between neighbours; None of nothing."""
    if not ordered:
        return None
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def _added_bytes(folders: list[Path]) -> float:
    """Returns bytes on disk an attempt, with the plans less without."""
    with tempfile.TemporaryDirectory(prefix="separation-store-") as place:
        plain = []
        for folder in folders:
            plain.append(Path(place) / "plain" / folder.name)
            shutil.copytree(folder, plain[-1])
            (plain[-1] / PLAN_PATH).unlink()
        planned, unplanned = (_stored(Path(place) / name, kind) for name, kind in (("a", folders), ("b", plain)))
    return (planned - unplanned) / len(folders)


def _stored(store: Path, folders: list[Path]) -> int:
    config = RunConfig(tasks=tuple(map(str, folders)), agent="oracle", run="oracle")
    settings, tally = Settings(cache=Settings.from_environment().cache, store=store), Tally()
    asyncio.run(start_run(config, settings, tally))
    if tally.outcomes["pass"] != len(folders):
        raise SystemExit(f"the oracle should have passed {len(folders)} times: {tally.outcomes}")
    return sum(file.stat().st_size for file in store.rglob("*") if file.is_file())


def _cpu_ms(groups: Groups, name: str) -> float:
    counted = groups.cpu_ms(name)
    return cpu_seconds() * 1000 if counted is None else counted


if __name__ == "__main__":
    main()
