"""Where an attempt happens: a sandboxed workspace, or an in-process world. One `Place` serves one try.

Invariant: the agent's sandbox is closed before anything is judged, and judging sees only the sealed final state; only
an attempt that is judged as its task asks is judged in the living sandbox, which is sealed and closed after that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import BinaryIO, NamedTuple, Protocol

import msgspec

from assay.agents.interface import Agent, placed
from assay.environments.interface import (
    Backend,
    Episodic,
    KeepsStates,
    PackedState,
    PacksStates,
    Snapshot,
    Workspace,
    WorkspaceSpec,
    World,
)
from assay.environments.tools import WorkspaceTools
from assay.errors import EnvironmentFailure, TaskError, boundary
from assay.records import Check, Evidence, Isolation, Task, canonical_bytes
from assay.rollout.attempt.recorded_attempt import LiveAttempt
from assay.rollout.attempt.task_hooks import await_healthy, collect, keep_artifacts, put_step_files
from assay.rollout.attempt.variation import Variation, VariedBackend
from assay.rollout.plan import Verification
from assay.rollout.recording.recorded_workspace import RecordedWorkspace
from assay.rollout.recording.recorder import Recorder
from assay.rollout.recording.task_archive import TaskKeeper, place_of
from assay.store import BlobStore
from assay.tasks import LoadedTask, TaskStep
from assay.verify import CheckResult, JudgeRequest, judge_facts, verify_outcome
from assay.verify.as_asked import AsAsked, judge_as_asked, living_spec

__all__ = ["BEGAN", "Began", "Place", "WorkspacePlace", "WorldPlace"]

NOT_NEEDED = Isolation("not needed")
BEGAN = "began"
CONTROL_S = 30.0


class Preparing(Protocol):
    """Makes (or finds) what a sandbox needs, once a task."""

    backend: Backend

    async def spec(self, loaded: LoadedTask) -> WorkspaceSpec:
        """Image, tool layer, variables, limits."""
        ...

    async def separate(self, loaded: LoadedTask, task: Task) -> WorkspaceSpec | None:
        """The verifier's own sandbox, where the task asks for one."""
        ...

    def resolved(self, task: Task) -> Task:
        """The task with its templates filled in; never stored."""
        ...


class Keeping(NamedTuple):
    """How the places of a run keep and judge states."""

    blobs: BlobStore
    repetitions: int
    agent: Agent
    own: tuple[str, ...] = ()
    """Folders of the agent's own that are no part of the state: the oracle's solution."""
    verification: Verification = "default"
    variation: Variation = Variation()
    tasks: TaskKeeper | None = None
    """Keeps the tasks' records and files; None keeps none."""
    state: Snapshot | None = None
    """Where the attempt begins; None is the task's image as it is."""


class Place(Protocol):
    """The life of a place: open; for each step enter, settle, judge; close."""

    isolation: Isolation | None
    artifacts: dict[str, str]
    """What was kept of the final state: path to digest."""

    async def open(self, attempt: LiveAttempt, recorder: Recorder) -> None:
        """Makes the place and gives it to the attempt. Raises `EnvironmentFailure` or `TaskError`."""
        ...

    def resolved(self, task: Task) -> Task:
        """The task as an agent and a check need it: templates filled in. Never stored."""
        ...

    async def enter(self, step: TaskStep | None, recorder: Recorder) -> None:
        """Brings in what a step (None: the whole task) needs before the agent acts. Raises `TaskError`."""
        ...

    async def settle(self, recorder: Recorder, step: TaskStep | None, *, last: bool) -> None:
        """Stops everything that the agent left and seals the state; after the last step the place itself ends."""
        ...

    async def judge(self, task: Task) -> tuple[CheckResult, ...]:
        """Judges the sealed state."""
        ...

    async def is_host_working(self) -> bool:
        """Returns whether a fresh sandbox like the agent's can be opened and used now: a control, after a failure.

        False where no code of an agent runs: such a place fails by itself.
        """
        ...

    async def close(self) -> None:
        """Releases everything. Idempotent."""
        ...


class WorkspacePlace:
    """A sandbox."""

    def __init__(self, prepared: Preparing, loaded: LoadedTask, keeping: Keeping) -> None:
        self.isolation: Isolation | None = None
        self.artifacts: dict[str, str] = {}
        self._backend: Backend = prepared.backend
        self._varied: VariedBackend | None = None
        if keeping.variation != Variation():
            self._backend = self._varied = VariedBackend(prepared.backend, keeping.variation)
        self._prepared = prepared
        self._loaded = loaded
        self._parameters = loaded.task.environment.parameters
        self._blobs = keeping.blobs
        self._keeping = keeping
        self._spec = WorkspaceSpec()
        """The task's own; the agent's sandbox may have more in it."""
        self._workspace: Workspace | None = None
        self._given: RecordedWorkspace | None = None
        self._state: Snapshot | None = None
        self._asked = keeping.verification == "as_asked"
        self._told = False
        """Whether the record says what the task and the sandbox are."""
        self._unsealed: _Unsealed | None = None
        """What is to be done once the living sandbox was judged."""

    async def open(self, attempt: LiveAttempt, recorder: Recorder) -> None:
        spec = await self._prepared.spec(self._loaded)
        spec = msgspec.structs.replace(spec, tmpfs=(*spec.tmpfs, *self._keeping.own))
        self._spec = living_spec(spec) if self._asked else spec
        own = placed(self._spec, self._keeping.agent)
        self._workspace = await self._backend.open(own, state=self._keeping.state)
        self.isolation = self._workspace.isolation
        attempt.workspace = self._given = RecordedWorkspace(self._workspace, recorder, self._blobs, beside=True)
        attempt.acting = RecordedWorkspace(self._workspace, recorder, self._blobs)
        attempt.tools = WorkspaceTools(attempt.acting)

    def resolved(self, task: Task) -> Task:
        return self._prepared.resolved(task)

    async def enter(self, step: TaskStep | None, recorder: Recorder) -> None:
        if not self._told:
            self._told = True
            await tell_task(self._keeping.tasks, self._loaded, recorder)
            place = place_of(self._open().spec, self._backend.name)
            recorder.evidence("state", "place", place | self._under())
        healthcheck = step.healthcheck if step is not None and step.healthcheck else self._parameters.get("healthcheck")
        if step is None and not healthcheck:
            return
        recorded = RecordedWorkspace(self._open(), recorder, self._blobs)
        if step is not None and step.workdir is not None and self._loaded.folder is not None:
            await put_step_files(recorded, self._loaded.folder / step.workdir)
        if healthcheck:
            await await_healthy(recorded, healthcheck)

    async def settle(self, recorder: Recorder, step: TaskStep | None, *, last: bool) -> None:
        """See `Place.settle`. What was still running is recorded, then killed."""
        workspace = self._open()
        if self._given is not None:
            await self._given.close_forks()
        commands = step.collect if step is not None else self._parameters.get("collect") or ()
        await collect(RecordedWorkspace(workspace, recorder, self._blobs), commands, recorder)
        left = await workspace.processes()
        if left:
            listed = [{"pid": p.pid, "parent": p.parent, "command": p.command[:500]} for p in left[:100]]
            recorder.evidence("state", "processes", {"when": "agent stopped", "count": len(left), "processes": listed})
        unsealed = _Unsealed(recorder, step, last)
        if self._asked:
            self._unsealed = unsealed
            recorder.evidence("state", "living", {"digest": await workspace.digest()})
        else:
            await self._seal(unsealed)

    async def _seal(self, unsealed: _Unsealed) -> None:
        workspace, (recorder, step, last) = self._open(), unsealed
        before, self._state = self._state, await workspace.snapshot()
        if before is not None:
            await self._backend.release(before)
        declared = [*(self._parameters.get("artifacts") or ()), *(step.artifacts if step is not None else ())]
        if declared:
            self.artifacts |= await keep_artifacts(workspace, declared, self._blobs, recorder)
        if last:
            await workspace.close()
        await self._record_state(recorder, self._state)

    async def _record_state(self, recorder: Recorder, state: Snapshot) -> None:
        kept = await keep_state(self._backend, state, self._blobs)
        data = {
            "digest": state.digest,
            "image": state.image.digest,
            "notes": list(state.image.notes),
            "changes": len(state.changes),
            "manifest": kept[0] if kept else None,
        }
        recorder.evidence("state", "snapshot", data, (kept[0], *kept[1]) if kept else ())

    async def judge(self, task: Task) -> tuple[CheckResult, ...]:
        if self._unsealed is not None:
            return await self._judge_as_asked(task, self._unsealed)
        if self._state is None:
            return ()
        resolved = self._prepared.resolved(task)
        request = JudgeRequest(
            task=resolved,
            folder=self._loaded.folder,
            backend=self._backend,
            spec=self._spec,
            state=self._state,
            blobs=self._blobs,
            repetitions=self._keeping.repetitions,
            separate=await self._prepared.separate(self._loaded, resolved),
        )
        results = await verify_outcome(request)
        if not results:
            return ()
        return (*results[:-1], results[-1]._replace(evidence=(*results[-1].evidence, *self._cost())))

    async def _judge_as_asked(self, task: Task, unsealed: _Unsealed) -> tuple[CheckResult, ...]:
        """Judges in the living sandbox, then seals it: the state that is kept holds what the verifier left as well."""
        self._unsealed = None
        check = _script_of(self._loaded, task, unsealed.step)
        resolved = self._prepared.resolved(msgspec.structs.replace(task, checks=(check,)))
        given = AsAsked(
            task=resolved,
            check=resolved.checks[0],
            folder=self._loaded.folder,
            backend=self._backend,
            blobs=self._blobs,
            separate=await self._prepared.separate(self._loaded, resolved),
        )
        result = await judge_as_asked(self._open(), given)
        await self._seal(unsealed)
        return (result._replace(evidence=(*result.evidence, *self._cost())),)

    async def is_host_working(self) -> bool:
        try:
            with boundary(EnvironmentFailure, "opening a control sandbox"):
                workspace = await self._backend.open(self._spec)
                try:
                    result = await workspace.exec(["/bin/sh", "-c", "exit 0"], cwd="/", timeout_s=CONTROL_S)
                    await workspace.write("/tmp/control", b"1")
                finally:
                    await workspace.close()
        except EnvironmentFailure:
            return False
        return result.exit_code == 0

    def _under(self) -> dict[str, object]:
        """What differs from what was asked for, by its name."""
        name = self._keeping.variation.name
        return {"variation": name} if name else {}

    def _cost(self) -> tuple[Evidence, ...]:
        """What judging took, and what all that ran so far did, where that was to be noted."""
        if self._varied is None:
            return ()
        given, usage, found = self._keeping.variation, self._varied.usage, []
        if given.measured:
            data = {"peak_bytes": usage.peak_bytes, "busy_s": round(usage.busy_s, 6)}
            found.append(Evidence("cost", "audit", "verification_cost", data))
        if given.counted and usage.cpu_s is not None:
            found.append(Evidence("used", "audit", "attempt_cost", {"cpu_s": round(usage.cpu_s, 6)}))
        return tuple(found)

    async def close(self) -> None:
        """See `Place.close`. One thing that cannot be released keeps no other."""
        try:
            if self._given is not None:
                await self._given.close_forks()
        finally:
            try:
                if self._workspace is not None:
                    await self._workspace.close()
            finally:
                state, self._state = self._state, None
                if state is not None:
                    await self._backend.release(state)

    def _open(self) -> Workspace:
        if self._workspace is None:
            raise EnvironmentFailure("the sandbox is not open")
        return self._workspace


class _Unsealed(NamedTuple):
    """What sealing a state needs: whose record it goes to, after which step, and whether the place ends then."""

    recorder: Recorder
    step: TaskStep | None
    last: bool


def _script_of(loaded: LoadedTask, task: Task, step: TaskStep | None) -> Check:
    """The check that the task's own test script is, whatever checks of ours stand in its place."""
    known = [part.check for part in loaded.steps if step is None or part.name == step.name]
    found = next((check for check in (*known, *task.checks) if check.kind == "script"), None)
    if found is None:
        raise TaskError(f"task {loaded.task.id!r} has no test script: what it asks for elsewhere cannot be judged")
    return found


class Began(NamedTuple):
    """Where an attempt in a world began, and the content address under which that is kept, to begin there again."""

    state: bytes
    kept: str


class WorldPlace:
    """An in-process world: no agent code runs, so there is nothing to isolate. `make` makes it, at `open`, where it
    becomes what it was where the attempt began, if that is given."""

    def __init__(
        self,
        make: Callable[[], World],
        loaded: LoadedTask | None = None,
        tasks: TaskKeeper | None = None,
        began: Began | None = None,
    ) -> None:
        self.isolation: Isolation | None = NOT_NEEDED
        self.artifacts: dict[str, str] = {}
        self._make = make
        self._tell = (loaded, tasks)
        self._began = began
        self._made: World | None = None

    @property
    def _world(self) -> World:
        if self._made is None:
            raise EnvironmentFailure("the world is not open")
        return self._made

    async def open(self, attempt: LiveAttempt, recorder: Recorder) -> None:
        attempt.tools = self._made = self._make()
        if self._began is not None and isinstance(self._made, KeepsStates):
            self._made.restore(self._began.state)
        attempt.episode = self._made if isinstance(self._made, Episodic) else None

    def resolved(self, task: Task) -> Task:
        return task

    async def enter(self, step: TaskStep | None, recorder: Recorder) -> None:
        (loaded, tasks), self._tell = self._tell, (None, None)
        if loaded is not None:
            await tell_task(tasks, loaded, recorder)
        if self._began is not None:
            recorder.evidence("state", BEGAN, {"snapshot": self._began.kept}, (self._began.kept,))

    async def settle(self, recorder: Recorder, step: TaskStep | None, *, last: bool) -> None:
        if isinstance(self._world, Episodic):
            recorder.evidence("state", "episode", self._world.episode())
        recorder.evidence("state", "facts", {"facts": self._world.facts(), "digest": await self._world.digest()})

    async def judge(self, task: Task) -> tuple[CheckResult, ...]:
        return judge_facts(task, self._world.facts())

    async def is_host_working(self) -> bool:
        return False

    async def close(self) -> None:
        if self._made is not None:
            await self._made.close()


async def tell_task(keeper: TaskKeeper | None, loaded: LoadedTask, recorder: Recorder) -> None:
    """Says in the record which task this is, so that it can be judged again when the folder has changed."""
    if keeper is not None:
        kept = await keeper.keep(loaded)
        recorder.evidence("state", "task", kept.data, kept.blobs)


async def keep_state(backend: Backend, state: Snapshot, blobs: BlobStore) -> tuple[str, tuple[str, ...]] | None:
    """Stores a sealed state so that it can be rebuilt from the store alone.

    Returns:
        The digest of its manifest (the canonical JSON of `state.changes`) and those of its files; None where the
        backend cannot hand its states out.
    """
    if not isinstance(backend, PacksStates):
        return None
    packed = await backend.pack(state)
    if not packed.manifest:
        return blobs.put(canonical_bytes(())), ()
    return await asyncio.to_thread(_keep_files, packed, blobs)


def _chunks(handle: BinaryIO) -> Iterator[bytes]:
    while chunk := handle.read(1 << 20):
        yield chunk


def _keep_files(packed: PackedState, blobs: BlobStore) -> tuple[str, tuple[str, ...]]:
    kept = []
    for change, handle in packed.files():
        if change.digest is None or not blobs.has(change.digest):
            kept.append(blobs.put_stream(_chunks(handle)))
        else:
            kept.append(change.digest)
    return blobs.put(canonical_bytes(packed.manifest)), tuple(dict.fromkeys(kept))
