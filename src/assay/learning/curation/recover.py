"""Makes failed attempts into lessons: lets an agent go on from before each of their steps, or try again with guidance.

The continuations and reattempts are ordinary, judged runs in the store. Invariant: only what passed and what nothing
speaks against wins; every failed attempt gets a line that says what came of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from assay.errors import UserError
from assay.learning.reading import Reader, RowsConfig
from assay.records import Message, Task, Trajectory, digest_bytes
from assay.rollout.progress import Progress, Tally
from assay.rollout.rejudge.counterfactual import RewindResult, rewind_run
from assay.rollout.rejudge.recorded_task import RecordedTasks, recorded_config
from assay.rollout.rejudge.replay import ReplayConfig
from assay.rollout.runs import start_run
from assay.settings import Settings
from assay.store import RunStore
from assay.tasks import LoadedTask
from assay.verdicts import trust_of

from .config import CurateConfig
from .failures import (
    Contrast,
    Instance,
    Lesson,
    contrast_at,
    decisive_feedback,
    errors_in,
    fissioned,
    guidance_of,
    reattempted,
    salvaged,
)

__all__ = ["Recovered", "from_prefixes", "guided", "recover", "with_guidance"]

MOST_FISSIONS = 2
"""Lessons of an attempt about errors got over: the longest beginnings."""


class Recovered(NamedTuple):
    """What came of one failed attempt."""

    failed: Trajectory
    lessons: tuple[Lesson, ...]
    contrast: Contrast | None
    instance: Instance | None
    why: str


async def recover(
    failed: Sequence[Trajectory], config: CurateConfig, settings: Settings, progress: Progress | None = None
) -> list[Recovered]:
    """Lessons from failed attempts by what `config` names: `recover`, `reattempt`, or both.

    Raises:
        UserError: An agent does not exist, or an option of it.
        StoreError: A run is damaged, or nothing can be written.
    """
    told = progress or Tally()
    found: list[Recovered] = []
    if config.recover is not None:
        found += [await _continued(one, config, settings, told) for one in failed]
    if config.reattempt is not None:
        found += await _tried_again(failed, config, settings, told)
    return found


async def _continued(failed: Trajectory, config: CurateConfig, settings: Settings, progress: Progress) -> Recovered:
    asked = ReplayConfig(
        attempts=(failed.attempt,),
        run=failed.run,
        from_each_prefix=True,
        agent=config.recover or "",
        agent_options=config.agent_options,
        model=config.policy,
    )
    try:
        (rewound,) = await rewind_run(failed.run, asked, settings, progress)
    except UserError as exc:
        return Recovered(failed, (), None, None, f"cannot be rewound: {exc}")
    wanted = {one.chain for one in rewound.outcomes if one.outcome == "pass"}
    with Reader.opened(settings.store, rewound.continuations, RowsConfig()) as reader:
        won = {one.chain: one for one in reader.trajectories() if one.chain in wanted and trust_of(one).doubt is None}
    return from_prefixes(failed, rewound, won)


def from_prefixes(failed: Trajectory, rewound: RewindResult, won: dict[str, Trajectory]) -> Recovered:
    """What the continuations of one attempt teach. Pure.

    Args:
        failed: The attempt.
        rewound: What came of going on from before each step.
        won: By chain, the continuations that passed and that nothing speaks against.
    """
    ways = {one.prefix: won[one.chain] for one in rewound.outcomes if one.chain in won}
    acting = [step for step in failed.steps if step.actor == "agent"]
    lessons: list[Lesson] = []
    contrast = instance = None
    decisive = rewound.decisive
    if decisive is not None and decisive in ways:
        lessons.append(salvaged(failed, ways[decisive], decisive))
        contrast = contrast_at(failed, ways[decisive], decisive)
        instance = Instance(failed.run, failed.chain, decisive, decisive_feedback(failed, decisive))
    mended = [prefix for prefix in sorted(ways, reverse=True) if prefix and errors_in(acting[prefix - 1])]
    lessons += [fissioned(failed, ways[prefix], prefix) for prefix in mended[:MOST_FISSIONS]]
    errors = "no error of it could be got over" if not mended else f"{len(mended)} errors of it can be got over"
    return Recovered(failed, tuple(lessons), contrast, instance, f"{rewound.summary}; {errors}")


async def _tried_again(
    failed: Sequence[Trajectory], config: CurateConfig, settings: Settings, progress: Progress
) -> list[Recovered]:
    found = []
    for run in dict.fromkeys(one.run for one in failed):
        several = [one for one in failed if one.run == run]
        found += await _guided_run(run, several, config, settings, progress)
    return found


async def _guided_run(
    run: str, failed: Sequence[Trajectory], config: CurateConfig, settings: Settings, progress: Progress
) -> list[Recovered]:
    """One try for each failed attempt, all in one run."""
    with RunStore.open(settings.store, run) as store, RecordedTasks(store, "recorded") as past:
        told = [guidance_of(one, config.guidance) for one in failed]
        tasks = [guided(past.of(one), words, n) for n, (one, words) in enumerate(zip(failed, told, strict=True))]
        asked = msgspec.structs.replace(
            recorded_config(store, ReplayConfig()),
            agent=config.reattempt or "",
            agent_options=config.agent_options,
            model=config.policy,
            run=None,
        )
        summary = await start_run(asked, settings, progress, tasks=tasks)
    with Reader.opened(settings.store, summary.run, RowsConfig()) as reader:
        tries = {one.task: one for one in reader.trajectories()}
    return [_came(one, tries.get(task.task.id), words) for one, task, words in zip(failed, tasks, told, strict=True)]


def _came(failed: Trajectory, tried: Trajectory | None, guidance: str) -> Recovered:
    if tried is None or tried.outcome != "pass":
        came = "was not decided" if tried is None else f"came to {tried.outcome or 'no verdict'}"
        return Recovered(failed, (), None, None, f"tried again with guidance, it {came}")
    if (why := trust_of(tried).doubt) is not None:
        return Recovered(failed, (), None, None, f"tried again with guidance, its pass is doubtful: {why}")
    return Recovered(failed, (reattempted(failed, tried, guidance),), None, None, "won when tried again with guidance")


def guided(loaded: LoadedTask, guidance: str, number: int) -> LoadedTask:
    """The task with guidance after its instruction: another task, with a name and a digest of its own."""
    task = loaded.task
    changed = msgspec.structs.replace(
        task,
        id=f"{task.id}+guided-{number}",
        instruction=with_guidance(task, guidance),
        digest=digest_bytes(f"{task.digest}\n{guidance}".encode()),
        source=f"{task.source or task.id}, with guidance",
    )
    return loaded._replace(task=changed)


def with_guidance(task: Task, guidance: str) -> str | tuple[Message, ...]:
    """The instruction with guidance after it."""
    if isinstance(task.instruction, str):
        return f"{task.instruction}\n\n{guidance}"
    return (*task.instruction, Message("user", guidance))
