"""Findings of the attempts of a run, task by task, as text for a model that writes new texts.

Read after the run's hash chains verified. The score is the share of attempts that passed and are not doubted; an
attempt without a decision counts as failed.
"""

from __future__ import annotations

from collections.abc import Sequence

from assay.learning.curation.lessons import instruction_for
from assay.learning.reading import RunReader
from assay.learning.rows_config import RowsConfig
from assay.records import Trajectory, canonical_bytes
from assay.settings import Settings
from assay.tasks import LoadedTask
from assay.verdicts import outcome_verdicts, trust_of

from .gepa_search import TaskFeedback

MOST_TEXT = 2_000
"""Characters of each part of a feedback, its end."""
_STEPS = 3


def read_feedback(settings: Settings, run: str, tasks: Sequence[LoadedTask], attempts: int) -> list[TaskFeedback]:
    """Returns the feedback of each task, in the order of the tasks.

    Raises:
        StoreError: The run is not what was recorded.
    """
    passes, shown = dict[str, int](), dict[str, TaskFeedback]()
    with RunReader.open(settings, run, RowsConfig()) as reader:
        for trajectory in reader.trajectories():
            passed = trust_of(trajectory).outcome_class == "pass"
            passes[trajectory.task] = passes.get(trajectory.task, 0) + passed
            if trajectory.task not in shown or not passed:
                shown[trajectory.task] = _describe(reader, trajectory)
    missing = "The attempt was not judged."
    return [
        shown.get(one.task.id, TaskFeedback(one.task.id, "", "", missing, 0.0))._replace(
            score=passes.get(one.task.id, 0) / attempts
        )
        for one in tasks
    ]


def _describe(reader: RunReader, trajectory: Trajectory) -> TaskFeedback:
    instruction = instruction_for(reader, trajectory)
    outputs = list[str]()
    for step in trajectory.steps[-_STEPS:]:
        outputs += [step.message] if step.message else []
        for call, seen in zip(step.tool_calls, step.observations, strict=False):
            outputs += [f"{call.name} {call.arguments}", seen.content[-MOST_TEXT:]]
    return TaskFeedback(
        trajectory.task, instruction[-MOST_TEXT:], "\n".join(outputs)[-MOST_TEXT:], _judgement(trajectory), 0.0
    )


def _judgement(trajectory: Trajectory) -> str:
    known = {one.id: one for one in trajectory.evidence}
    told = list[str]()
    for verdict in outcome_verdicts(trajectory.verdicts):
        told.append(f"{verdict.check}: {verdict.status}. {verdict.reason}")
        for name in verdict.evidence:
            if name in known:
                data = canonical_bytes(known[name].data).decode("utf-8", "replace")
                told.append(f"{known[name].kind}: {data[:MOST_TEXT]}")
    doubt = trust_of(trajectory).doubt
    return "\n".join(told + ([f"The pass is doubted: {doubt}"] if doubt else []))[:MOST_TEXT]
