"""Judges one recorded attempt again: a sandbox's sealed states, a world's recorded calls, or what an import holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from assay.environments.interface import KeepsStates, Snapshot, WorkspaceSpec, World
from assay.environments.worlds.opening import open_world
from assay.errors import BoundaryError, TaskError, UserError, VerifierError, boundary
from assay.records import Evidence, Task, Trajectory, Verdict
from assay.store import BlobStore
from assay.tasks import LoadedTask, TaskStep
from assay.verdicts import (
    is_imported_record,
    is_reverification,
    outcome_verdicts,
    was_given_solution,
)
from assay.verify import CheckResult, JudgeRequest, judge_facts, verify_outcome
from assay.verify._from_artifacts import state_of_import
from assay.verify.again import CannotRebuildError, Reverdict, cannot, rebuilt, recorded_seeds, reverdict, sealed_states
from assay.verify.outcome import combine_checks

from .past import AS_ASKED, variation_of
from .place import BEGAN
from .prepare import Preparer
from .runs import Means
from .steps import combined, of_step, step_tasks

__all__ = ["judged_again"]

MORE_ROUNDS = 2
"""How often a check judges more where it said something else than before: what is flaky shows."""
_Found = list[tuple[Verdict, Reverdict]]


async def judged_again(
    trajectory: Trajectory, loaded: LoadedTask, means: Means, blobs: BlobStore, rounds: int, *, fresh: bool = False
) -> _Found:
    """Each outcome verdict that was recorded, and what judging again came to.

    Args:
        trajectory: The attempt; it has an outcome verdict.
        loaded: Its task, as it is to be judged now.
        means: With what.
        blobs: The store's.
        rounds: How often each check judges.
        fresh: Checks that draw inputs draw others than the recorded ones.
    """
    judging = _Judging(trajectory, loaded, means, blobs, rounds)
    judging.seeds = {} if fresh else recorded_seeds(trajectory)
    try:
        with boundary(VerifierError, "judging again"):
            return await judging.run()
    except (BoundaryError, UserError) as exc:
        return [(was, cannot(was.check, exc)) for was in judging.recorded]


class _Judging:
    """One attempt, judged again."""

    def __init__(self, trajectory: Trajectory, loaded: LoadedTask, means: Means, blobs: BlobStore, rounds: int) -> None:
        self._trajectory, self._loaded, self._means, self._blobs = trajectory, loaded, means, blobs
        self._rounds = rounds
        self.recorded: list[Verdict] = outcome_verdicts(trajectory.verdicts)
        self.seeds: dict[str, bytes] = {}

    async def run(self) -> _Found:
        """Judges by the way in which the attempt was made."""
        trajectory = self._trajectory
        if trajectory.agent.endswith(AS_ASKED):
            message = "it was judged in its living sandbox, as its task asks elsewhere: that is not to be had again"
            raise CannotRebuildError(message)
        circumstance = variation_of(trajectory)
        if circumstance is not None:
            message = f"it was judged under a circumstance of its own ({circumstance}): only its run makes that again"
            raise CannotRebuildError(message)
        if self._loaded.task.environment.kind != "workspace":
            return await self._world()
        preparer = self._means.preparer
        if preparer is None:
            message = "isolation not available: no sandbox was opened"
            raise CannotRebuildError(message)
        if is_imported_record(trajectory.started):
            return await self._import(preparer)
        return await self._workspace(preparer)

    async def _workspace(self, preparer: Preparer) -> _Found:
        parts, states = step_tasks(self._loaded), sealed_states(self._trajectory)
        if not states:
            message = "no state was sealed: there is nothing to judge"
            raise CannotRebuildError(message)
        spec = await self._spec(preparer)
        judged: list[list[CheckResult]] = []
        named: _Found = []
        for (step, task), state in zip(parts, states, strict=False):
            rounds = await self._by_checks(preparer, spec, state, step, task)
            judged.append([combine_checks(results) for results in rounds.values()])
            named += self._compared(rounds, "outcome" if step is None else "process")
        if parts[0][0] is None:
            return named
        strategy = self._loaded.task.environment.parameters.get("multi_step_reward_strategy", "mean")
        whole = CheckResult(combined([[r.verdict for r in part] for part in judged], len(parts), strategy), ())
        return [*named, *self._compared({"steps": [whole]}, "outcome")]

    async def _spec(self, preparer: Preparer) -> WorkspaceSpec:
        """The sandbox as it was, with the fresh folders that were no part of the state."""
        spec = await preparer.spec(self._loaded)
        place = next((e for e in self._trajectory.evidence if e.kind == "place"), None)
        own = () if place is not None or not was_given_solution(self._trajectory.started) else ("/solution",)
        known = tuple(str(path) for path in place.data.get("tmpfs") or ()) if place is not None else own
        return msgspec.structs.replace(spec, tmpfs=tuple(dict.fromkeys((*spec.tmpfs, *known))))

    async def _by_checks(
        self, preparer: Preparer, spec: WorkspaceSpec, state: Evidence, step: TaskStep | None, task: Task
    ) -> dict[str, list[CheckResult]]:
        snapshot = await rebuilt(state, spec.image, preparer.backend, self._blobs)
        try:
            return await self._rounds_on(preparer, spec, snapshot, task, step.name if step is not None else None)
        finally:
            await preparer.backend.release(snapshot)

    async def _rounds_on(
        self, preparer: Preparer, spec: WorkspaceSpec, snapshot: Snapshot, task: Task, step: str | None
    ) -> dict[str, list[CheckResult]]:
        """What each check says, round by round; more rounds where it is something else than was recorded."""
        resolved = preparer.resolved(task)
        separate = await preparer.separate(self._loaded, resolved)
        found: dict[str, list[CheckResult]] = {}
        number, wanted = 0, self._rounds
        while number < wanted:
            number += 1
            request = JudgeRequest(
                task=resolved,
                folder=self._loaded.folder,
                backend=preparer.backend,
                spec=spec,
                state=snapshot,
                blobs=self._blobs,
                separate=separate,
                prefix=f"{number}.{f'{step}.' if step else ''}v",
                seeds=self.seeds,
            )
            for result in await verify_outcome(request):
                found.setdefault(result.verdict.check, []).append(result)
            if number == self._rounds and self._is_news(found):
                wanted += MORE_ROUNDS
        return found

    def _is_news(self, found: dict[str, list[CheckResult]]) -> bool:
        known = {v.check: v.status for v in self._trajectory.verdicts}
        said = [(known[name], one.verdict.status) for name, rounds in found.items() for one in rounds if name in known]
        return any(before != now for before, now in said)

    def _compared(self, rounds: dict[str, list[CheckResult]], kind: str) -> _Found:
        """Recorded verdicts beside what their checks say now; one whose check is gone cannot be compared."""
        found: _Found = []
        recorded = (v for v in self._trajectory.verdicts if not is_reverification(v.check))
        for was in (v for v in recorded if v.kind == kind):
            if was.check in rounds:
                found.append((was, reverdict(was, rounds[was.check])))
            elif kind == "outcome":
                gone = f"the task has no check {was.check!r} (it has {', '.join(rounds) or 'none'})"
                found.append((was, cannot(was.check, gone)))
        return found

    async def _import(self, preparer: Preparer) -> _Found:
        """Somebody else's attempt: their verdict beside the worst of what the task's checks say of what they left."""
        spec = await self._spec(preparer)
        snapshot = await state_of_import(self._trajectory, spec, preparer.backend, self._blobs)
        try:
            rounds = await self._rounds_on(preparer, spec, snapshot, self._loaded.task, None)
        finally:
            await preparer.backend.release(snapshot)
        whole = [combine_checks(results) for results in zip(*rounds.values(), strict=True)]
        if not whole:
            message = "the task has no check"
            raise CannotRebuildError(message)
        return [(was, reverdict(was, whole)) for was in self.recorded]

    async def _world(self) -> _Found:
        """Makes the world anew and does the recorded calls again; where that leads elsewhere nothing is judged."""
        sealed = next(
            (e for e in reversed(self._trajectory.evidence) if e.kind == "facts" and "digest" in e.data), None
        )
        if sealed is None:
            message = "the world's last facts were not recorded"
            raise CannotRebuildError(message)
        rounds: dict[str, list[CheckResult]] = {}
        for number in range(1, self._rounds + 1):
            digest, facts = await self._done_again()
            if digest != sealed.data["digest"]:
                message = f"the recorded calls lead to another state now: {digest}, and it was {sealed.data['digest']}"
                raise CannotRebuildError(message)
            for result in judge_facts(self._loaded.task, facts):
                named = of_step(str(number), result)
                kept = CheckResult(msgspec.structs.replace(named.verdict, kind="outcome"), named.evidence)
                rounds.setdefault(result.verdict.check, []).append(kept)
        return self._compared(rounds, "outcome")

    async def _done_again(self) -> tuple[str | None, dict[str, Any]]:
        spec = self._loaded.task.environment
        with boundary(TaskError, f"doing the calls again in the environment {spec.kind!r}"):
            world: World = open_world(spec)
            try:
                began = next((e for e in self._trajectory.evidence if e.kind == BEGAN and e.blobs), None)
                if began is not None and isinstance(world, KeepsStates):
                    world.restore(self._blobs.get(began.blobs[0]))
                for call in _calls(self._trajectory):
                    await world.call(call[0], call[1])
                return await world.digest(), world.facts()
            finally:
                await world.close()


def _calls(trajectory: Trajectory) -> Sequence[tuple[str, dict[str, Any]]]:
    """Tool calls of the agent that were executed, in order."""
    mine = (step for step in trajectory.steps if step.actor == "agent")
    acts = [call for step in mine for call, _ in zip(step.tool_calls, step.observations, strict=False)]
    return [(call.name, call.parsed) for call in acts if call.error is None and call.parsed is not None]
