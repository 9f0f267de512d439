"""Tasks with several steps: their parts, early termination and the combined outcome. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from assay.records import Task, Verdict, VerdictStatus, digest_record
from assay.tasks import LoadedTask, TaskStep
from assay.verdicts import weakest, worst_outcome
from assay.verify import CheckResult


def step_tasks(loaded: LoadedTask) -> list[tuple[TaskStep | None, Task]]:
    """Returns the parts of an attempt; the task itself for a task without steps."""
    named = [step for step in loaded.steps if step.name]
    if not named:
        return [(None, loaded.task)]
    return [(step, _step_task(loaded.task, step)) for step in named]


def _step_task(task: Task, step: TaskStep) -> Task:
    parameters = task.environment.parameters
    artifacts = [*(parameters.get("artifacts") or ()), *step.artifacts]
    place = replace(task.environment, parameters={**parameters, "artifacts": artifacts})
    return replace(task, instruction=step.instruction, checks=(step.check,), oracle=step.oracle, environment=place)


def as_step_result(name: str, result: CheckResult) -> CheckResult:
    """Converts a result into a non-deciding one whose evidence ids are prefixed with the step's name."""
    names = {e.id: f"{name}.{e.id}" for e in result.evidence}
    evidence = tuple(replace(e, id=names[e.id]) for e in result.evidence)
    cited = tuple(names.get(e, e) for e in result.verdict.evidence)
    return CheckResult(replace(result.verdict, kind="process", evidence=cited), evidence)


def is_below_minimum(verdicts: Sequence[Verdict], least: float | dict[str, float] | None) -> bool:
    """Returns whether a step's rewards are below the required minimum; a missing reward counts as below."""
    if least is None:
        return False
    needed = {"reward": least} if isinstance(least, int | float) else least
    rewards: dict[str, float] = {}
    for verdict in verdicts:
        rewards |= verdict.rewards or ({} if verdict.score is None else {"reward": verdict.score})
    return any(rewards.get(name, float("-inf")) < value for name, value in needed.items())


def combine_steps(steps: Sequence[Sequence[Verdict]], planned: int, strategy: str) -> Verdict:
    """Returns the outcome of a task with several steps, by their mean or the last planned one (`final`).

    Steps that were not run failed, unless the step before them could not be judged.
    """
    scores = [[v.score for v in verdicts if v.score is not None] for verdicts in steps]
    found: list[VerdictStatus] = [worst_outcome(v.status for v in verdicts) or "unknown" for verdicts in steps]
    unjudged = bool(found) and found[-1] in ("error", "unknown")
    each = [min(s) if s else None for s in scores] + [None if unjudged else 0.0] * (planned - len(steps))
    found += [found[-1] if unjudged else "fail"] * (planned - len(steps))
    counted, deciding = (each[-1:], found[-1:]) if strategy == "final" else (each, found)
    status = worst_outcome(deciding) or "unknown"
    known = [s for s in counted if s is not None]
    score = sum(known) / len(counted) if len(known) == len(counted) else None
    reason = f"steps: {', '.join(found)}; {strategy} of rewards"
    cited = tuple(e for verdicts in steps for v in verdicts for e in v.evidence)
    verifier = digest_record([strategy, planned, [[v.verifier for v in verdicts] for verdicts in steps]])
    grade = weakest(v.separation for verdicts in steps for v in verdicts)
    return Verdict("steps", "outcome", status, score, reason, cited, verifier, separation=grade)
