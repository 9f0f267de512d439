"""Tasks of several steps: what each asks for, when the rest is not run, and one judgement over all. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from assay.records import Task, Verdict, VerdictStatus, digest_record
from assay.store import worst_outcome
from assay.tasks import LoadedTask, TaskStep

__all__ = ["combined", "falls_short", "step_tasks"]


def step_tasks(loaded: LoadedTask) -> list[tuple[TaskStep | None, Task]]:
    """The parts that an attempt consists of; of an ordinary task the task itself."""
    named = [step for step in loaded.steps if step.name]
    if not named:
        return [(None, loaded.task)]
    return [
        (
            step,
            msgspec.structs.replace(
                loaded.task, instruction=step.instruction, checks=(step.check,), oracle=step.oracle
            ),
        )
        for step in named
    ]


def falls_short(verdicts: Sequence[Verdict], least: float | dict[str, float] | None) -> bool:
    """Whether a step's rewards are below what the following steps need; a missing reward is below everything."""
    if least is None:
        return False
    needed = {"reward": least} if isinstance(least, int | float) else least
    rewards: dict[str, float] = {}
    for verdict in verdicts:
        rewards |= verdict.rewards or ({} if verdict.score is None else {"reward": verdict.score})
    return any(rewards.get(name, float("-inf")) < value for name, value in needed.items())


def combined(steps: Sequence[Sequence[Verdict]], planned: int, strategy: str) -> Verdict:
    """The outcome of a task of several steps.

    Args:
        steps: The outcome verdicts of each step that ran.
        planned: How many steps there are; those that did not run failed.
        strategy: `mean` (over all steps) or `final` (the last step that was planned).
    """
    scores = [[v.score for v in verdicts if v.score is not None] for verdicts in steps]
    each = [min(s) if s else None for s in scores] + [0.0] * (planned - len(steps))
    found: list[VerdictStatus] = [worst_outcome(verdicts) or "unknown" for verdicts in steps]
    found += ["fail"] * (planned - len(steps))
    counted, deciding = (each[-1:], found[-1:]) if strategy == "final" else (each, found)
    status = next(s for s in ("error", "unknown", "fail", "pass") if s in deciding)
    known = [s for s in counted if s is not None]
    score = sum(known) / len(counted) if len(known) == len(counted) else None
    reason = f"steps: {', '.join(found)}; {strategy} of rewards"
    cited = tuple(e for verdicts in steps for v in verdicts for e in v.evidence)
    verifier = digest_record([strategy, planned, [[v.verifier for v in verdicts] for verdicts in steps]])
    return Verdict("steps", "outcome", status, score, reason, cited, verifier)
