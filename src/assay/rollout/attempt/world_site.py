"""The site of a trial in an in-process world, which runs no agent code."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from assay.environments.interface import Episodic, KeepsStates, World
from assay.environments.worlds.played import PlayedView, PlayedWorld
from assay.errors import EnvironmentFailure, TaskError
from assay.records import Isolation, Task
from assay.rollout.attempt.recorded_attempt import LiveAttempt
from assay.rollout.attempt.site import NO_CHECKS, NOT_NEEDED, WORLD_CHECKPOINT, AttemptSite, record_task
from assay.rollout.recording.recorder import Recorder
from assay.rollout.recording.task_archive import TaskArchive
from assay.tasks import LoadedTask, TaskStep
from assay.verify import CheckResult, RunChecks, WorldRequest, verify_world


class WorldCheckpoint(NamedTuple):
    """The initial state of an attempt in a world, and the digest of its blob."""

    state: bytes
    digest: str


class WorldSite:
    """An in-process world, which runs no agent code and needs no isolation. `open` creates it with `make`, restores
    the checkpoint, if given, and calls `join`, by which a simulated person joins it."""

    def __init__(
        self,
        make: Callable[[], World],
        loaded: LoadedTask | None = None,
        tasks: TaskArchive | None = None,
        checkpoint: WorldCheckpoint | None = None,
        join: Callable[[World, LiveAttempt, Recorder], None] | None = None,
    ) -> None:
        self.isolation: Isolation | None = NOT_NEEDED
        self.artifacts: dict[str, str] = {}
        self._make = make
        self._tell = (loaded, tasks)
        self._checkpoint = checkpoint
        self._join = join
        self._opened_world: World | None = None
        self._episode: Episodic | None = None

    @property
    def _world(self) -> World:
        if self._opened_world is None:
            raise EnvironmentFailure("the world is not open")
        return self._opened_world

    async def open(self, attempt: LiveAttempt, recorder: Recorder) -> None:
        opened = self._opened_world = self._make()
        attempt.tools = opened
        if isinstance(opened, PlayedWorld) and not attempt.knows_verifier:
            attempt.tools = PlayedView(opened)
        if self._checkpoint is not None and isinstance(self._opened_world, KeepsStates):
            self._opened_world.restore(self._checkpoint.state)
        if self._join is not None:
            self._join(self._opened_world, attempt, recorder)
        world = self._opened_world
        if hasattr(world, "episode") and isinstance(world, Episodic):  # the protocol's own look is slow
            attempt.episode = self._episode = world

    def resolved(self, task: Task) -> Task:
        return task

    async def enter(self, step: TaskStep | None, recorder: Recorder) -> None:
        (loaded, tasks), self._tell = self._tell, (None, None)
        if loaded is not None:
            await record_task(tasks, loaded, recorder)
        if self._checkpoint is not None:
            digest = self._checkpoint.digest
            recorder.evidence("state", WORLD_CHECKPOINT, {"snapshot": digest}, (digest,))

    async def settle(self, recorder: Recorder, step: TaskStep | None, *, last: bool) -> None:
        if self._episode is not None:
            recorder.evidence("state", "episode", self._episode.episode())
        recorder.evidence("state", "facts", {"facts": self._world.facts(), "digest": await self._world.digest()})

    async def judge(self, task: Task, more: RunChecks = NO_CHECKS) -> tuple[CheckResult, ...]:
        judged = msgspec.structs.replace(task, checks=(*task.checks, *more.checks))
        facts, digest = self._world.facts(), await self._world.digest()
        return await verify_world(WorldRequest(judged, facts, digest, more.kinds, more.transcript))

    async def preview(self, task: Task) -> tuple[CheckResult, ...]:
        return await self.judge(task)

    async def fork(self) -> AttemptSite:
        copy = self._copy_world()
        return WorldSite(lambda: copy, join=self._join)

    def _copy_world(self) -> World:
        world = self._world
        if isinstance(world, PlayedWorld):
            return world.fork()
        if not isinstance(world, KeepsStates) or getattr(world, "before_message", None) is not None:
            raise TaskError(
                "this world cannot be forked: its states cannot be saved, or a model speaks for a person in it"
            )
        copy = self._make()
        if not isinstance(copy, KeepsStates):
            raise TaskError("this world cannot be forked: another object of it saves no states")
        copy.restore(world.snapshot())
        return copy

    async def is_host_working(self) -> bool:
        return False

    async def close(self) -> None:
        if self._opened_world is not None:
            await self._opened_world.close()
