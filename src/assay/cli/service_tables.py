"""Tables of `assay stats` about tasks of services: instructions, pairs and clauses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.statistics import mean_interval, wilson

if TYPE_CHECKING:
    from assay.records import Task, Trajectory, VerdictStatus
    from assay.statistics import TaskCount
    from assay.store import AttemptRow, RunStore
    from assay.synthesis.services.clauses import ClauseReader, ClauseResult
    from assay.synthesis.services.planned import PlannedTask
    from assay.synthesis.services.twins import PairedAct

SERVICE_TABLES = ("instructions", "pairs", "clauses")
CONTROL = "oracle"
"""Agent that knows the plan: where it fails, the task is broken, and not the instruction."""
Who = tuple[str, str | None]
Rows = list[dict[str, str]]


class ServedAttempt(NamedTuple):
    """An attempt at a task of services, compared with the plan."""

    agent: str
    model: str | None
    task: str
    outcome: VerdictStatus | None
    fidelity: float | None
    """None where the record has no log of calls."""
    pair: PairedAct | None
    acts: tuple[Any, ...] | None
    clauses: tuple[ClauseResult, ...]


class InstructionRow(NamedTuple):
    """How well one follower reaches the goal with one instruction."""

    task: str
    agent: str
    model: str | None
    passed: int
    judged: int
    low: float
    high: float
    fidelity: float | None
    control: str
    """Passed of judged attempts of the control; `-` without one."""
    reading: str


class PairRow(NamedTuple):
    """How often the acts of one configuration changed with the instruction."""

    agent: str
    model: str | None
    pairs: int
    compared: int
    """Attempts at the first task beside attempts at the twin."""
    followed: int
    same_act: int
    otherwise: int
    faithfulness: float
    low: float | None
    high: float | None


class ClauseRow(NamedTuple):
    """How often clauses of one name were met."""

    agent: str
    model: str | None
    kind: str
    clause: str
    tied: int
    """Requirements that judge it, at most in one task."""
    met: int
    judged: int
    low: float
    high: float
    unjudged: int


def read_served(
    root: Path, runs: Sequence[str], on_warning: Callable[[str], None], *, allow_task_code: bool = False
) -> tuple[ServedAttempt, ...]:
    """Returns the decided attempts at tasks of services; those whose task cannot be opened are counted in a warning."""
    from assay.store import RunStore, final_rows

    found: list[ServedAttempt] = []
    left_out: Counter[str] = Counter()
    for run in runs:
        with RunStore.open(root, run) as store:
            reader = TaskReader(store, allow_task_code=allow_task_code)
            for row in final_rows(store.attempts()):
                problem = reader.read(row, store.trajectory(row.chain), found)
                if problem:
                    left_out[problem] += 1
    for problem, count in left_out.items():
        on_warning(f"{count} attempts are not in the tables of services: {problem}")
    return tuple(found)


class TaskReader:
    """Opens the archived tasks of one run, each once.

    A task that names Python code is opened only with `allow_task_code`, and that of an imported record never.
    """

    def __init__(self, store: RunStore, *, allow_task_code: bool) -> None:
        self._store = store
        self._allow_task_code = allow_task_code
        self._is_import = store.manifest().get("kind") == "import"
        self._opened: dict[str, tuple[PlannedTask, ClauseReader] | str] = {}

    def read(self, row: AttemptRow, trajectory: Trajectory, found: list[ServedAttempt]) -> str:
        """Adds an attempt; returns why it is left out, empty if it is not."""
        from assay.synthesis.services.attempted import acts_of, paired_act, plan_fidelity

        opened = self.open(trajectory)
        if isinstance(opened, str):
            return opened
        planned, reader = opened
        acts = acts_of(planned, trajectory)
        fidelity = None if acts is None else plan_fidelity(planned.acts, acts)
        pair, clauses = paired_act(planned.task), reader.results(trajectory)
        found.append(ServedAttempt(row.agent, row.model, row.task, row.outcome, fidelity, pair, acts, clauses))
        return ""

    def open(self, trajectory: Trajectory) -> tuple[PlannedTask, ClauseReader] | str:
        """Returns the task of an attempt, or why it cannot be read."""
        if not _has_log(trajectory):
            return "they are at other tasks, or ended without facts"
        key = trajectory.task_digest
        if key not in self._opened:
            self._opened[key] = self._open(trajectory)
        return self._opened[key]

    def _open(self, trajectory: Trajectory) -> tuple[PlannedTask, ClauseReader] | str:
        from assay.errors import TaskError
        from assay.synthesis.services.clauses import ClauseReader
        from assay.synthesis.services.planned import PlannedTask, UnsuitableError

        task = self.read_task(trajectory)
        if isinstance(task, str):
            return task
        try:
            planned = PlannedTask(task)
            return planned, ClauseReader(planned)
        except (UnsuitableError, TaskError) as exc:
            return str(exc)[:200]

    def read_task(self, trajectory: Trajectory) -> Task | str:
        """Returns the archived task of an attempt, or why its world must not be opened."""
        from assay.errors import StoreError
        from assay.rollout.recording.task_archive import read_task_record
        from assay.tasks import LoadedTask
        from assay.tasks.named_code import FLAG, find_code_of
        from assay.verdicts import is_imported_record

        record = next((e.data.get("record") for e in trajectory.evidence if e.kind == "task"), None)
        if self._is_import or is_imported_record(trajectory.started) or not isinstance(record, str):
            return "the run has no copy of their tasks of its own"
        try:
            task = read_task_record(self._store.blobs, record)
        except StoreError as exc:
            return str(exc)[:200]
        code = find_code_of(LoadedTask(task, None))
        if code and not self._allow_task_code:
            return f"their tasks name Python code, {', '.join(code)}, which {FLAG} permits"
        return task


def instructions(served: Iterable[ServedAttempt], counts: Sequence[TaskCount]) -> list[InstructionRow]:
    """Returns a row for each instruction and follower, the worst first."""
    fidelities: dict[tuple[Who, str], list[float]] = {}
    for one in served:
        if one.fidelity is not None:
            fidelities.setdefault(((one.agent, one.model), one.task), []).append(one.fidelity)
    known = {task for _, task in fidelities}
    control = {count.task: count for count in counts if count.agent == CONTROL}
    followers = [count for count in counts if count.agent not in (CONTROL, "null") and count.task in known]
    reached = {count.task for count in followers if count.passed}
    found = []
    for count in followers:
        low, high = wilson(count.passed, count.judged)
        values = fidelities.get(((count.agent, count.model), count.task))
        proof = control.get(count.task)
        found.append(
            InstructionRow(
                count.task,
                count.agent,
                count.model,
                count.passed,
                count.judged,
                low,
                high,
                fmean(values) if values else None,
                "-" if proof is None else f"{proof.passed} of {proof.judged}",
                _reading(count, proof, reached),
            )
        )
    return sorted(found, key=lambda one: (one.passed / max(one.judged, 1), one.task, one.agent))


def _reading(count: TaskCount, control: TaskCount | None, reached: set[str]) -> str:
    if control is not None and control.judged and control.passed < control.judged:
        return "the control fails: a broken task"
    if count.passed:
        return "reached"
    if count.task in reached:
        return "reached by another follower"
    return "no follower reaches it" + ("" if control is not None and control.judged else "; no control")


def pairs(served: Iterable[ServedAttempt]) -> list[PairRow]:
    """Returns a row for each configuration with attempts at both tasks of a pair."""
    from assay.synthesis.services.attempted import paired_outcome, side_of

    sides: dict[Who, dict[str, tuple[list[Any], list[Any]]]] = {}
    for one in served:
        if one.pair is not None and one.acts is not None:
            first, twin = sides.setdefault((one.agent, one.model), {}).setdefault(one.pair.pair, ([], []))
            (first if one.task == one.pair.pair else twin).append(side_of(one.pair, one.acts))
    found = []
    for (agent, model), by_pair in sides.items():
        outcomes = {
            name: [paired_outcome(one, other) for one, other in zip(first, twin, strict=False)]
            for name, (first, twin) in by_pair.items()
            if first and twin
        }
        if not outcomes:
            continue
        counted = Counter(outcome for listed in outcomes.values() for outcome in listed)
        shares = [fmean(outcome == "followed" for outcome in listed) for listed in outcomes.values()]
        interval = mean_interval(shares)
        found.append(
            PairRow(
                agent,
                model,
                len(outcomes),
                counted.total(),
                counted["followed"],
                counted["same act"],
                counted["otherwise"],
                fmean(shares),
                None if interval is None else interval.low,
                None if interval is None else interval.high,
            )
        )
    return found


def clauses(served: Iterable[ServedAttempt]) -> list[ClauseRow]:
    """Returns a row for each configuration and clause, those met least often first."""
    groups: dict[tuple[Who, str, str], list[ClauseResult]] = {}
    for one in served:
        for result in one.clauses:
            key = ((one.agent, one.model), str(result.clause.kind), result.clause.name)
            groups.setdefault(key, []).append(result)
    found = []
    for ((agent, model), kind, name), results in groups.items():
        judged = [one.met for one in results if one.met is not None]
        low, high = wilson(sum(judged), len(judged))
        tied = max(len(one.clause.tied_to) for one in results)
        unjudged = len(results) - len(judged)
        found.append(ClauseRow(agent, model, kind, name, tied, sum(judged), len(judged), low, high, unjudged))
    return sorted(found, key=lambda one: (one.agent, one.model or "", one.met / max(one.judged, 1), one.clause))


def _who(agent: str, model: str | None) -> dict[str, str]:
    return {"agent": agent, "model": model or "-"}


def _share(passed: int, judged: int, low: float, high: float) -> str:
    return f"{passed / judged:.3f} [{low:.3f}, {high:.3f}]" if judged else "-"


def instruction_rows(found: list[InstructionRow]) -> Rows:
    return [
        {
            "task": one.task,
            **_who(one.agent, one.model),
            "reached": f"{one.passed} of {one.judged}",
            "rate [95%]": _share(one.passed, one.judged, one.low, one.high),
            "plan fidelity": "-" if one.fidelity is None else f"{one.fidelity:.3f}",
            "control": one.control,
            "reading": one.reading,
        }
        for one in found
    ]


def pair_rows(found: list[PairRow]) -> Rows:
    return [
        {
            **_who(one.agent, one.model),
            "pairs": str(one.pairs),
            "compared": str(one.compared),
            "followed": str(one.followed),
            "same act": str(one.same_act),
            "otherwise": str(one.otherwise),
            "faithfulness [95%]": f"{one.faithfulness:.3f}"
            + ("" if one.low is None or one.high is None else f" [{one.low:.3f}, {one.high:.3f}]"),
        }
        for one in found
    ]


def clause_rows(found: list[ClauseRow]) -> Rows:
    return [
        {
            **_who(one.agent, one.model),
            "kind": one.kind,
            "clause": one.clause,
            "requirements": str(one.tied),
            "met": f"{one.met} of {one.judged}",
            "rate [95%]": _share(one.met, one.judged, one.low, one.high),
            "not judged": str(one.unjudged),
        }
        for one in found
    ]


def _has_log(trajectory: Trajectory) -> bool:
    """Returns whether an attempt ended with the facts of a world of services."""
    facts = next((e.data.get("facts") for e in reversed(trajectory.evidence) if e.kind == "facts"), None)
    return isinstance(facts, dict) and "calls" in facts and "changes" in facts


def clause_results(
    trajectory: Trajectory, store: RunStore, *, allow_task_code: bool = False
) -> tuple[ClauseResult, ...]:
    """Returns the clauses of an attempt at a task of services; empty of any other."""
    opened = TaskReader(store, allow_task_code=allow_task_code).open(trajectory)
    return () if isinstance(opened, str) else opened[1].results(trajectory)


def clause_lines(results: Iterable[ClauseResult]) -> Iterator[str]:
    """Yields a line for each clause: whether it was met, and what judges it."""
    for number, result in enumerate(results, 1):
        clause = result.clause
        how = "met" if result.met else "not judged" if result.met is None else f"not met: {'; '.join(result.missing)}"
        tied = "; ".join(clause.tied_to) or "nothing"
        yield f"clause {number} ({clause.kind}) {clause.text!r}: {how}  [judged by: {tied}]"


def clause_objects(results: Iterable[ClauseResult]) -> list[dict[str, Any]]:
    """Returns the clauses as JSON data."""
    return [{**one.clause._asdict(), "met": one.met, "missing": list(one.missing)} for one in results]
