"""Judges one recorded attempt again, from a sandbox's sealed states, a world's recorded calls, or imported data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from assay.analysis.contracts import denied_calls
from assay.environments.interface import KeepsStates, Snapshot, WorkspaceSpec, World
from assay.environments.solution import SOLUTION
from assay.environments.worlds.opening import open_world
from assay.errors import BoundaryError, TaskError, UserError, VerifierError, boundary
from assay.records import Evidence, Task, Trajectory, Verdict, digest_record
from assay.rollout.attempt.model_user import attach_recorded_user, is_user_recorded
from assay.rollout.attempt.preparation import Preparer
from assay.rollout.attempt.site import WORLD_CHECKPOINT
from assay.rollout.attempt.steps import as_step_result, combine_steps, step_tasks
from assay.rollout.rejudge.recorded_task import AS_ASKED, sandbox_steps, variation_of
from assay.rollout.rejudge.shared_results import JudgedState, Rounds, SharedResults
from assay.rollout.runs import RunResources
from assay.store import BlobStore
from assay.tasks import LoadedTask, TaskStep
from assay.verdicts import (
    is_imported_record,
    is_reverification,
    outcome_verdicts,
    was_given_solution,
)
from assay.verify import CheckResult, JudgeRequest, WorldRequest, verify_outcome, verify_world
from assay.verify.imported_state import rebuild_imported_state
from assay.verify.outcome import combine_checks
from assay.verify.reverification import (
    CannotRebuildError,
    VerdictComparison,
    compare_verdicts,
    find_sealed_states,
    make_cannot_result,
    read_recorded_seeds,
    rebuild_state,
)

MORE_ROUNDS = 2
"""Additional rounds for a check whose result differs from the recorded one, to expose flakiness."""
_Comparisons = list[tuple[Verdict, VerdictComparison]]


async def judge_again(
    trajectory: Trajectory,
    loaded: LoadedTask,
    resources: RunResources,
    blobs: BlobStore,
    rounds: int,
    *,
    fresh: bool = False,
    shared: SharedState | None = None,
) -> _Comparisons:
    """Returns each recorded outcome verdict with the results of judging again, `rounds` times per check.

    `shared` takes the results of an attempt at the task that ended in the same state. `fresh` draws new inputs for
    checks that draw inputs. An imported record is a claim: only what its agent did counts (its patch, files and calls),
    in the sandbox or world that the task has here and on inputs drawn anew.
    """
    attempt_judge = _AttemptJudge(trajectory, loaded, resources, blobs, rounds)
    attempt_judge.shared = shared
    if not fresh and not attempt_judge.is_import:
        attempt_judge.seeds = read_recorded_seeds(trajectory)
    try:
        with boundary(VerifierError, "judging again"):
            return await attempt_judge.run()
    except (BoundaryError, UserError) as exc:
        return [(was, make_cannot_result(was.check, exc)) for was in attempt_judge.recorded]


class SharedState(NamedTuple):
    """Results of equal states, and what else makes two judgements the same."""

    results: SharedResults
    basis: str
    """Digest of the task and of what judges it."""


class _AttemptJudge:
    def __init__(
        self, trajectory: Trajectory, loaded: LoadedTask, resources: RunResources, blobs: BlobStore, rounds: int
    ) -> None:
        self._trajectory, self._loaded, self._resources, self._blobs = trajectory, loaded, resources, blobs
        self._rounds = rounds
        self.is_import = is_imported_record(trajectory.started)
        self.recorded: list[Verdict] = outcome_verdicts(trajectory.verdicts)
        self.seeds: dict[str, bytes] = {}
        self.shared: SharedState | None = None
        self._reads_transcript = False

    async def run(self) -> _Comparisons:
        """Chooses the way to judge by how the attempt was made."""
        trajectory = self._trajectory
        if trajectory.agent.endswith(AS_ASKED):
            raise CannotRebuildError(
                "it was judged in its living sandbox (as-asked verification), which no longer exists"
            )
        circumstance = variation_of(trajectory)
        if circumstance is not None:
            raise CannotRebuildError(f"it was judged under a variation ({circumstance}): only its run makes that again")
        if self._loaded.task.environment.kind != "workspace":
            return await self._world()
        preparer = self._resources.preparer
        if preparer is None:
            raise CannotRebuildError("isolation not available: no sandbox was opened")
        if self.is_import:
            return await self._import(preparer)
        return await self._workspace(preparer)

    async def _workspace(self, preparer: Preparer) -> _Comparisons:
        parts, states = step_tasks(self._loaded), find_sealed_states(self._trajectory)
        if not states:
            raise CannotRebuildError("no state was sealed: there is nothing to judge")
        spec = await self._spec(preparer)
        judged: list[list[CheckResult]] = []
        named: _Comparisons = []
        for (step, task), state in zip(parts, states, strict=False):
            rounds = await self._by_checks(preparer, spec, state, step, task)
            judged.append([combine_checks(results) for results in rounds.values()])
            named += self._compare(rounds, "outcome" if step is None else "process")
        if parts[0][0] is None:
            return named
        strategy = self._loaded.task.environment.parameters.get("multi_step_reward_strategy", "mean")
        whole = CheckResult(combine_steps([[r.verdict for r in part] for part in judged], len(parts), strategy), ())
        return [*named, *self._compare({"steps": [whole]}, "outcome")]

    async def _spec(self, preparer: Preparer) -> WorkspaceSpec:
        """Returns the recorded sandbox, with the temporary folders that were excluded from the state."""
        spec = await preparer.spec(self._loaded)
        if self.is_import:
            return spec
        place = next((e for e in self._trajectory.evidence if e.kind == "place"), None)
        own = () if place is not None or not was_given_solution(self._trajectory.started) else (SOLUTION,)
        known = tuple(str(path) for path in place.data.get("tmpfs") or ()) if place is not None else own
        return msgspec.structs.replace(spec, tmpfs=tuple(dict.fromkeys((*spec.tmpfs, *known))))

    async def _by_checks(
        self, preparer: Preparer, spec: WorkspaceSpec, state: Evidence, step: TaskStep | None, task: Task
    ) -> Rounds:
        name = step.name if step is not None else None

        async def judge() -> JudgedState:
            snapshot = await rebuild_state(state, spec.image, preparer.backend, self._blobs)
            try:
                rounds = await self._rounds_on(preparer, spec, snapshot, task, name)
            finally:
                await preparer.backend.release(snapshot)
            return JudgedState(rounds, depends_on_state_alone=not self._reads_transcript)

        if self.shared is None:
            return (await judge()).rounds
        seeds = {check: seed.hex() for check, seed in self.seeds.items()}
        recorded = [(v.check, v.status) for v in self._trajectory.verdicts if not is_reverification(v.check)]
        same = [self.shared.basis, name, state.data.get("digest"), state.data.get("manifest"), state.data.get("image")]
        key = digest_record([*same, spec.image.digest, spec.tmpfs, seeds, recorded, self._rounds])
        return await self.shared.results.judge(key, self._trajectory.chain, judge)

    def _transcript(self) -> Trajectory:
        self._reads_transcript = True
        return self._trajectory

    async def _rounds_on(
        self, preparer: Preparer, spec: WorkspaceSpec, snapshot: Snapshot, task: Task, step: str | None
    ) -> dict[str, list[CheckResult]]:
        """Returns each check's results by round; more rounds where they differ from the recorded ones."""
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
                transcript=self._transcript,
            )
            for result in await verify_outcome(request):
                found.setdefault(result.verdict.check, []).append(result)
            if number == self._rounds and self._has_changed(found):
                wanted += MORE_ROUNDS
        return found

    def _has_changed(self, found: dict[str, list[CheckResult]]) -> bool:
        known = {v.check: v.status for v in self._trajectory.verdicts}
        said = [(known[name], one.verdict.status) for name, rounds in found.items() for one in rounds if name in known]
        return any(before != now for before, now in said)

    def _compare(self, rounds: Rounds, kind: str) -> _Comparisons:
        """Pairs recorded verdicts with the new results; a verdict whose check is gone cannot be compared."""
        found: _Comparisons = []
        recorded = (v for v in self._trajectory.verdicts if not is_reverification(v.check))
        for was in (v for v in recorded if v.kind == kind):
            if was.check in rounds:
                found.append((was, compare_verdicts(was, rounds[was.check])))
            elif kind == "outcome":
                gone = f"the task has no check {was.check!r} (it has {', '.join(rounds) or 'none'})"
                found.append((was, make_cannot_result(was.check, gone)))
        return found

    async def _import(self, preparer: Preparer) -> _Comparisons:
        """Pairs an imported verdict with the worst result of the task's checks on the imported files."""
        spec = await self._spec(preparer)
        snapshot = await rebuild_imported_state(self._trajectory, spec, preparer.backend, self._blobs)
        try:
            rounds = await self._rounds_on(preparer, spec, snapshot, self._loaded.task, None)
        finally:
            await preparer.backend.release(snapshot)
        whole = [combine_checks(results) for results in zip(*rounds.values(), strict=True)]
        if not whole:
            raise CannotRebuildError("the task has no check")
        return [(was, compare_verdicts(was, whole)) for was in self.recorded]

    async def _world(self) -> _Comparisons:
        """Recreates the world and replays the calls; a different final digest is not judged."""
        sealed = next(
            (e for e in reversed(self._trajectory.evidence) if e.kind == "facts" and "digest" in e.data), None
        )
        if sealed is None:
            raise CannotRebuildError("the world's last facts were not recorded")
        rounds: dict[str, list[CheckResult]] = {}
        for number in range(1, self._rounds + 1):
            digest, facts = await self._replay_calls()
            if digest != sealed.data["digest"]:
                raise CannotRebuildError(
                    f"the recorded calls lead to another state now: {digest}, and it was {sealed.data['digest']}"
                )
            request = WorldRequest(self._loaded.task, facts, digest, transcript=lambda: self._trajectory)
            for result in await verify_world(request):
                named = as_step_result(str(number), result)
                kept = CheckResult(msgspec.structs.replace(named.verdict, kind="outcome"), named.evidence)
                rounds.setdefault(result.verdict.check, []).append(kept)
        return self._compare(rounds, "outcome")

    async def _replay_calls(self) -> tuple[str | None, dict[str, Any]]:
        """Does the recorded calls again. Raises `CannotRebuildError` where something that the world needs is missing
        here, such as a browser."""
        spec = self._loaded.task.environment
        try:
            with boundary(TaskError, f"doing the calls again in the environment {spec.kind!r}"):
                return await self._call_again(open_world(spec))
        except UserError as exc:
            raise CannotRebuildError(f"the environment {spec.kind!r} does not work here: {exc}") from exc

    async def _call_again(self, world: World) -> tuple[str | None, dict[str, Any]]:
        try:
            if self.is_import:
                _require_own_user(world)
            else:
                self._restore_beginning(world)
                attach_recorded_user(world, self._trajectory.steps)
            for name, arguments in _world_calls(self._trajectory):
                await world.call(name, arguments)
            return await world.digest(), world.facts()
        finally:
            await world.close()

    def _restore_beginning(self, world: World) -> None:
        """Restores the state in which the attempt began, if it began in the middle of another one."""
        began = next((e for e in self._trajectory.evidence if e.kind == WORLD_CHECKPOINT and e.blobs), None)
        if began is not None and isinstance(world, KeepsStates):
            world.restore(self._blobs.get(began.blobs[0]))


def _require_own_user(world: World) -> None:
    """Raises `CannotRebuildError` where the words of a world's person would have to come from the record."""
    if is_user_recorded(world):
        raise CannotRebuildError("a model spoke for the person of its world, whose words only the imported record has")


def _world_calls(trajectory: Trajectory) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the calls that the world answered, in order.

    Left out are calls that a contract denied, and acts in the sandbox of a served world: commands, and what a program's
    model asked its own tools for. The calls by which these reached the world are steps of their own.
    """
    programs = {call.id for call in trajectory.calls if call.raw_request is not None}
    commands = sandbox_steps(trajectory)
    denied = denied_calls(trajectory.evidence)
    for step in trajectory.steps:
        if step.actor != "agent" or step.call in programs or step.index in commands:
            continue
        for number, (call, _) in enumerate(zip(step.tool_calls, step.observations, strict=False)):
            if call.error is None and call.parsed is not None and (step.index, number) not in denied:
                yield call.name, call.parsed
