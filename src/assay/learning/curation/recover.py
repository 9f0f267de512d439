"""Derives lessons from failed attempts: an agent continues from before each of their steps, or retries with guidance.

Continuations and reattempts are ordinary, judged runs in the store. Invariant: only undoubted passes count as wins;
every failed attempt gets a result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from assay.errors import UserError
from assay.learning.reading import RunReader
from assay.learning.rows_config import RowsConfig
from assay.records import Message, Task, Trajectory, digest_bytes
from assay.rollout.progress import Progress, Tally
from assay.rollout.rejudge.config import ReplayConfig, sandbox_fields
from assay.rollout.rejudge.counterfactual import RewindResult, rewind_run
from assay.rollout.rejudge.recorded_task import RecordedTasks, recorded_config
from assay.rollout.runs import start_run
from assay.settings import Settings
from assay.store import RunStore
from assay.tasks import LoadedTask
from assay.verdicts import trust_of

from .config import CurateConfig
from .failures import (
    Lesson,
    StepContrast,
    build_guidance,
    contrast_at,
    errors_in,
    fission_lesson,
    reattempt_lesson,
    salvage_lesson,
)

MAX_FISSIONS = 2
"""Maximum lessons of one attempt about overcome errors; the longest prefixes are used."""


class RecoveryResult(NamedTuple):
    """Result of one failed attempt."""

    failed: Trajectory
    lessons: tuple[Lesson, ...]
    contrast: StepContrast | None
    why: str


async def recover(
    failed: Sequence[Trajectory], config: CurateConfig, settings: Settings, progress: Progress | None = None
) -> list[RecoveryResult]:
    """Derives lessons from failed attempts with the configured agents: `recover`, `reattempt`, or both.

    Raises:
        UserError: An agent does not exist, or an option of it.
        StoreError: A run is damaged, or nothing can be written.
    """
    progress_sink = progress or Tally()
    found: list[RecoveryResult] = []
    if config.recover is not None:
        found += [await _recover_from_prefixes(one, config, settings, progress_sink) for one in failed]
    if config.reattempt is not None:
        found += await _reattempt_all(failed, config, settings, progress_sink)
    return found


async def _recover_from_prefixes(
    failed: Trajectory, config: CurateConfig, settings: Settings, progress: Progress
) -> RecoveryResult:
    settings_of_run = ReplayConfig(
        attempts=(failed.attempt,),
        run=failed.run,
        from_each_prefix=True,
        agent=config.recover or "",
        agent_options=config.agent_options,
        model=config.policy,
        **sandbox_fields(config),
    )
    try:
        (rewound,) = await rewind_run(failed.run, settings_of_run, settings, progress)
    except UserError as exc:
        return RecoveryResult(failed, (), None, f"cannot be rewound: {exc}")
    wanted = {one.chain for one in rewound.outcomes if one.outcome == "pass"}
    with RunReader.open(settings, rewound.continuations, _rows_config(config)) as reader:
        won = {one.chain: one for one in reader.trajectories() if one.chain in wanted and trust_of(one).doubt is None}
    return from_prefixes(failed, rewound, won)


def _rows_config(config: CurateConfig) -> RowsConfig:
    return RowsConfig(with_secrets=config.with_secrets, allow_task_code=config.allow_task_code)


def from_prefixes(failed: Trajectory, rewound: RewindResult, won: dict[str, Trajectory]) -> RecoveryResult:
    """Derives lessons from the continuations of one attempt. Pure."""
    wins = {one.prefix: won[one.chain] for one in rewound.outcomes if one.chain in won}
    agent_steps = [step for step in failed.steps if step.actor == "agent"]
    lessons: list[Lesson] = []
    contrast = None
    decisive = rewound.decisive
    if decisive is not None and decisive in wins:
        lessons.append(salvage_lesson(failed, wins[decisive], decisive))
        contrast = contrast_at(failed, wins[decisive], decisive)
    overcome = [prefix for prefix in sorted(wins, reverse=True) if prefix and errors_in(agent_steps[prefix - 1])]
    lessons += [fission_lesson(failed, wins[prefix], prefix) for prefix in overcome[:MAX_FISSIONS]]
    errors = "no error of it could be got over" if not overcome else f"{len(overcome)} errors of it can be got over"
    return RecoveryResult(failed, tuple(lessons), contrast, f"{rewound.summary}; {errors}")


async def _reattempt_all(
    failed: Sequence[Trajectory], config: CurateConfig, settings: Settings, progress: Progress
) -> list[RecoveryResult]:
    found = []
    for run in dict.fromkeys(one.run for one in failed):
        several = [one for one in failed if one.run == run]
        found += await _reattempt_run(run, several, config, settings, progress)
    return found


async def _reattempt_run(
    run: str, failed: Sequence[Trajectory], config: CurateConfig, settings: Settings, progress: Progress
) -> list[RecoveryResult]:
    replay_config = ReplayConfig(**sandbox_fields(config))
    with RunStore.open(settings.store, run) as store, RecordedTasks.chosen(store, replay_config) as past:
        texts = [build_guidance(one, config.guidance) for one in failed]
        tasks = [
            add_guidance(past.of(one), guidance, n) for n, (one, guidance) in enumerate(zip(failed, texts, strict=True))
        ]
        settings_of_run = msgspec.structs.replace(
            recorded_config(store, replay_config),
            agent=config.reattempt or "",
            agent_options=config.agent_options,
            model=config.policy,
            run=None,
        )
        summary = await start_run(settings_of_run, settings, progress, tasks=tasks)
    with RunReader.open(settings, summary.run, _rows_config(config)) as reader:
        tries = {one.task: one for one in reader.trajectories()}
    return [
        _attempt_result(one, tries.get(task.task.id), guidance)
        for one, task, guidance in zip(failed, tasks, texts, strict=True)
    ]


def _attempt_result(failed: Trajectory, attempt: Trajectory | None, guidance: str) -> RecoveryResult:
    if attempt is None or attempt.outcome != "pass":
        result = "was not decided" if attempt is None else f"came to {attempt.outcome or 'no verdict'}"
        return RecoveryResult(failed, (), None, f"tried again with guidance, it {result}")
    if (why := trust_of(attempt).doubt) is not None:
        return RecoveryResult(failed, (), None, f"tried again with guidance, its pass is doubtful: {why}")
    return RecoveryResult(failed, (reattempt_lesson(attempt, guidance),), None, "won when tried again with guidance")


def add_guidance(loaded: LoadedTask, guidance: str, number: int) -> LoadedTask:
    """Returns the task with guidance appended, under its own id and digest."""
    task = loaded.task
    changed = msgspec.structs.replace(
        task,
        id=f"{task.id}+guided-{number}",
        instruction=guided_instruction(task, guidance),
        digest=digest_bytes(f"{task.digest}\n{guidance}".encode()),
        source=f"{task.source or task.id}, with guidance",
    )
    return loaded._replace(task=changed)


def guided_instruction(task: Task, guidance: str) -> str | tuple[Message, ...]:
    """Returns the instruction with guidance appended."""
    if isinstance(task.instruction, str):
        return f"{task.instruction}\n\n{guidance}"
    return (*task.instruction, Message("user", guidance))
