"""Makes the environment of each trial of a run."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from assay.agents.interface import Agent, needs_sandbox, takes_solution
from assay.environments.interface import World
from assay.environments.solution import SOLUTION
from assay.environments.worlds.opening import open_world, world_kind
from assay.errors import TaskError, UserError, boundary
from assay.rollout.attempt.preparation import Preparer
from assay.rollout.attempt.recorded_attempt import LiveAttempt, ModelAccess
from assay.rollout.attempt.site import AttemptSite, SiteOptions, WorkspaceSite
from assay.rollout.attempt.world_site import WorldCheckpoint, WorldSite
from assay.rollout.plan import PlannedAttempt
from assay.rollout.recording.recorder import Recorder
from assay.rollout.recording.screens import ScreenRecorder, shows_screens
from assay.rollout.recording.task_archive import TaskArchive
from assay.store import BlobStore
from assay.tasks import LoadedTask

if TYPE_CHECKING:
    from assay.verify.splice.screening import ScreeningJudges


class SiteFactory:
    """Makes the sites of a run's trials.

    Args:
        preparer: Prepares sandboxes; None in a run without them.
        blobs: The run's blobs.
        tasks: Archive for the tasks' records and files.
        agent: The run's agent.
        repetitions: Number of repetitions of each judgement.
        user_model: The model of simulated persons.
        screening: Judges that attempts which ask for it share.
    """

    def __init__(
        self,
        preparer: Preparer | None,
        blobs: BlobStore,
        tasks: TaskArchive,
        agent: Agent,
        *,
        repetitions: int,
        user_model: ModelAccess | None,
        screening: ScreeningJudges | None,
    ) -> None:
        self._preparer, self._blobs, self._tasks, self._agent = preparer, blobs, tasks, agent
        self._repetitions, self._user_model, self._screening = repetitions, user_model, screening
        self._worlds: dict[str, Any] = {}

    def __call__(self, planned: PlannedAttempt) -> AttemptSite:
        """Returns the site of a trial. Raises `UserError` where it needs a sandbox and the run has none."""
        loaded, agent = planned.loaded, planned.agent or self._agent
        if loaded.task.environment.kind != "workspace":
            state = planned.world_state
            checkpoint = None if state is None else WorldCheckpoint(state, self._blobs.put(state))
            join = partial(self._join_user, planned)
            world = WorldSite(lambda: self._make_world(loaded), loaded, self._tasks, checkpoint, join)
            if not needs_sandbox(agent):
                return world
            from assay.rollout.attempt.served_world import ServedWorldSite  # late: most runs serve no world

            return ServedWorldSite(world, self._required_preparer(loaded), loaded, agent, self._blobs)
        site_options = SiteOptions(
            blobs=self._blobs,
            repetitions=self._repetitions,
            agent=agent,
            # The reference solution does not belong to the state that it leads to.
            own=(SOLUTION,) if planned.brings_solution or takes_solution(agent) else (),
            verification=planned.verification,
            variation=planned.variation,
            tasks=self._tasks,
            state=planned.state,
            screening=self._screening if planned.screened else None,
        )
        return WorkspaceSite(self._required_preparer(loaded), loaded, site_options)

    def _join_user(self, planned: PlannedAttempt, world: World, attempt: LiveAttempt, recorder: Recorder) -> None:
        if hasattr(world, "before_message"):
            from assay.rollout.attempt.model_user import attach_user  # late: most runs have no services

            acts = [act for prior in planned.prior for act in prior.acts]
            attach_user(world, attempt, recorder, self._user_model, acts)
        if shows_screens(world):
            world.on_screen = ScreenRecorder(recorder, self._blobs)

    def _required_preparer(self, loaded: LoadedTask) -> Preparer:
        if self._preparer is None:
            raise UserError(f"task {loaded.task.id!r} needs a sandbox and the run has none")
        return self._preparer

    def _make_world(self, loaded: LoadedTask) -> World:
        spec = loaded.task.environment
        with boundary(TaskError, f"making the environment {spec.kind!r} of task {loaded.task.id!r}"):
            if spec.kind not in self._worlds:
                self._worlds[spec.kind] = world_kind(spec.kind)
            return open_world(spec, self._worlds[spec.kind])
