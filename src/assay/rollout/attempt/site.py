"""The environment of one trial: a sandboxed workspace or an in-process world.

Invariant: the agent's sandbox is closed before judging, which sees only the sealed final state. Only as-asked
verification judges the live sandbox, which is sealed and closed afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Protocol

import msgspec

from assay.agents.interface import Agent, Toolbox, needs_sandbox, sandbox_spec
from assay.environments.interface import (
    Backend,
    PackedState,
    PacksStates,
    Snapshot,
    Workspace,
    WorkspaceSpec,
)
from assay.environments.tools import WorkspaceTools
from assay.errors import EnvironmentFailure, TaskError, boundary
from assay.records import Check, Evidence, Isolation, Task, canonical_bytes
from assay.rollout.attempt.disturbed_workspace import disturb_workspace
from assay.rollout.attempt.recorded_attempt import LiveAttempt
from assay.rollout.attempt.task_hooks import await_healthy, collect, put_step_files, store_artifacts
from assay.rollout.attempt.variation import Variation, VariedBackend
from assay.rollout.plan import Verification
from assay.rollout.recording.recorded_workspace import RecordedWorkspace
from assay.rollout.recording.recorder import Recorder
from assay.rollout.recording.task_archive import TaskArchive, sandbox_facts
from assay.store import BlobStore
from assay.tasks import LoadedTask, TaskStep
from assay.verify import (
    CheckResult,
    JudgeRequest,
    RunChecks,
    verify_outcome,
)

if TYPE_CHECKING:
    from assay.verify.splice.screening import Screen, ScreeningJudges

NOT_NEEDED = Isolation("not needed")
WORLD_CHECKPOINT = "began"
CONTROL_S = 30.0
NO_CHECKS = RunChecks()


class SandboxPreparer(Protocol):
    """Prepares what a sandbox needs, once per task."""

    backend: Backend

    async def spec(self, loaded: LoadedTask) -> WorkspaceSpec:
        """Returns image, tool layer, variables and limits. The layers stay in the cache until `release`."""
        ...

    def release(self, loaded: LoadedTask) -> None:
        """Ends one use that `spec` began."""
        ...

    async def separate(self, loaded: LoadedTask, task: Task) -> WorkspaceSpec | None:
        """Returns the verifier's own sandbox; None if the task asks for none."""
        ...

    def resolved(self, task: Task) -> Task:
        """Returns the task with its templates filled in; never stored."""
        ...

    def toolbox(self, loaded: LoadedTask) -> Toolbox:
        """Returns the tool servers and skills that the task names, with its templates filled in."""
        ...


class SiteOptions(NamedTuple):
    """Options for storing and judging the states of a run's sites."""

    blobs: BlobStore
    repetitions: int
    agent: Agent
    own: tuple[str, ...] = ()
    """Folders that belong to the agent and are excluded from the state: the oracle's solution."""
    verification: Verification = "default"
    variation: Variation = Variation()
    tasks: TaskArchive | None = None
    """Archive for the tasks' records and files; None archives none."""
    state: Snapshot | None = None
    """Initial state; None is the task's unmodified image."""
    screening: ScreeningJudges | None = None
    """Judges that are shared with other attempts and find plain failures; None: there are none."""


class AttemptSite(Protocol):
    """The lifecycle of a site: open; for each step enter, settle, judge; close."""

    isolation: Isolation | None
    artifacts: dict[str, str]
    """Digests of the stored final files, by path."""

    async def open(self, attempt: LiveAttempt, recorder: Recorder) -> None:
        """Creates the environment and attaches it to the attempt. Raises `EnvironmentFailure` or `TaskError`."""
        ...

    def resolved(self, task: Task) -> Task:
        """Returns the task with templates filled in, for agents and checks. Never stored."""
        ...

    async def enter(self, step: TaskStep | None, recorder: Recorder) -> None:
        """Sets up a step (None: the whole task) before the agent acts. Raises `TaskError`."""
        ...

    async def settle(self, recorder: Recorder, step: TaskStep | None, *, last: bool) -> None:
        """Stops all remaining processes and seals the state; closes the environment after the last step."""
        ...

    async def judge(self, task: Task, more: RunChecks = NO_CHECKS) -> tuple[CheckResult, ...]:
        """Judges the sealed state by the task's checks, and then by `more`."""
        ...

    async def preview(self, task: Task) -> tuple[CheckResult, ...]:
        """Judges the present state by the task's checks, after ending all processes; the record is unchanged, and the
        agent may continue. Raises `TaskError` under as-asked verification, which judges the live sandbox once."""
        ...

    async def fork(self) -> AttemptSite:
        """Returns the site, to be opened, of a copy of the present state. Raises `TaskError` where states cannot be
        copied."""
        ...

    async def is_host_working(self) -> bool:
        """Opens and uses a fresh sandbox as a control after a failure; returns whether that worked.

        False where no code of an agent runs: such a place fails by itself.
        """
        ...

    async def close(self) -> None:
        """Releases all resources. Idempotent."""
        ...


class WorkspaceSite:
    """A sandboxed site."""

    def __init__(self, preparer: SandboxPreparer, loaded: LoadedTask, options: SiteOptions) -> None:
        self.isolation: Isolation | None = None
        self.artifacts: dict[str, str] = {}
        self._backend: Backend = preparer.backend
        self._varied: VariedBackend | None = None
        if options.variation != Variation():
            self._backend = self._varied = VariedBackend(preparer.backend, options.variation)
        self._preparer = preparer
        self._loaded = loaded
        self._parameters = loaded.task.environment.parameters
        self._blobs = options.blobs
        self._options = options
        self._spec = WorkspaceSpec()
        """The task's specification; the agent's sandbox may extend it."""
        self._workspace: Workspace | None = None
        self._agent_workspace: RecordedWorkspace | None = None
        self._state: Snapshot | None = None
        self._judges_as_asked = options.verification == "as_asked"
        self._is_task_recorded = False
        """True once the record describes the task and the sandbox."""
        self._has_layers = False
        self._unsealed: _Unsealed | None = None
        """Sealing that is pending until the live sandbox has been judged."""

    async def open(self, attempt: LiveAttempt, recorder: Recorder) -> None:
        spec = await self._preparer.spec(self._loaded)
        self._has_layers = True
        spec = msgspec.structs.replace(spec, tmpfs=(*spec.tmpfs, *self._options.own))
        if self._judges_as_asked:
            from assay.verify.as_asked import living_spec  # late: the other verifications need none of it

            spec = living_spec(spec)
        self._spec = spec
        own = sandbox_spec(self._spec, self._options.agent)
        self._workspace = await self._backend.open(own, state=self._options.state)
        self.isolation = self._workspace.isolation
        attempt.workspace = self._agent_workspace = RecordedWorkspace(
            self._workspace, recorder, self._blobs, beside=True
        )
        acting = disturb_workspace(self._workspace, self._loaded.task)
        attempt.acting = RecordedWorkspace(acting, recorder, self._blobs)
        if needs_sandbox(self._options.agent):
            attempt.toolbox = self._preparer.toolbox(self._loaded)
        attempt.tools = WorkspaceTools(attempt.acting)

    def resolved(self, task: Task) -> Task:
        return self._preparer.resolved(task)

    async def enter(self, step: TaskStep | None, recorder: Recorder) -> None:
        if not self._is_task_recorded:
            self._is_task_recorded = True
            await record_task(self._options.tasks, self._loaded, recorder)
            place = sandbox_facts(self._open().spec, self._backend.name)
            recorder.evidence("state", "place", place | self._variation_facts())
        healthcheck = step.healthcheck if step is not None and step.healthcheck else self._parameters.get("healthcheck")
        if step is None and not healthcheck:
            return
        recorded = RecordedWorkspace(self._open(), recorder, self._blobs)
        if step is not None and step.workdir is not None and self._loaded.folder is not None:
            await put_step_files(recorded, self._loaded.folder / step.workdir)
        if healthcheck:
            await await_healthy(recorded, healthcheck)

    async def settle(self, recorder: Recorder, step: TaskStep | None, *, last: bool) -> None:
        """Implements `AttemptSite.settle`. Running processes are recorded, then killed."""
        workspace = self._open()
        if self._agent_workspace is not None:
            await self._agent_workspace.close_forks()
        commands = step.collect if step is not None else self._parameters.get("collect") or ()
        await collect(RecordedWorkspace(workspace, recorder, self._blobs), commands, recorder)
        left = await workspace.processes()
        if left:
            listed = [{"pid": p.pid, "parent": p.parent, "command": p.command[:500]} for p in left[:100]]
            recorder.evidence("state", "processes", {"when": "agent stopped", "count": len(left), "processes": listed})
        unsealed = _Unsealed(recorder, step, last)
        if self._judges_as_asked:
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
            self.artifacts |= await store_artifacts(workspace, declared, self._blobs, recorder)
        if last:
            await workspace.close()
        await self._record_state(recorder, self._state)

    async def _record_state(self, recorder: Recorder, state: Snapshot) -> None:
        stored = await store_state(self._backend, state, self._blobs)
        data = {
            "digest": state.digest,
            "image": state.image.digest,
            "notes": list(state.image.notes),
            "changes": len(state.changes),
            "manifest": stored[0] if stored else None,
        }
        recorder.evidence("state", "snapshot", data, (stored[0], *stored[1]) if stored else ())

    async def judge(self, task: Task, more: RunChecks = NO_CHECKS) -> tuple[CheckResult, ...]:
        if self._unsealed is not None:
            return await self._judge_as_asked(task, self._unsealed)
        return () if self._state is None else await self._judge_state(self._state, task, more)

    async def _judge_state(self, state: Snapshot, task: Task, more: RunChecks) -> tuple[CheckResult, ...]:
        resolved = self._preparer.resolved(task)
        request = JudgeRequest(
            task=msgspec.structs.replace(resolved, checks=(*resolved.checks, *more.checks)),
            folder=self._loaded.folder,
            backend=self._backend,
            spec=self._spec,
            state=state,
            blobs=self._blobs,
            repetitions=self._options.repetitions,
            separate=await self._preparer.separate(self._loaded, resolved),
            kinds=more.kinds,
            transcript=more.transcript,
            screen=self._screen(),
        )
        results = await verify_outcome(request)
        if not results:
            return ()
        return (*results[:-1], results[-1]._replace(evidence=(*results[-1].evidence, *self._cost_evidence())))

    def _screen(self) -> Screen | None:
        judges, varied = self._options.screening, self._varied
        if judges is None or varied is None or not self._options.variation.is_plain:
            return None
        from assay.verify.splice.screening import Screen  # late: most runs have none

        return Screen(judges, varied.usage.add_command)

    async def preview(self, task: Task) -> tuple[CheckResult, ...]:
        if self._judges_as_asked:
            raise TaskError("as-asked verification judges the live sandbox once: no branch can be judged before")
        state = await self._open().snapshot()
        try:
            return await self._judge_state(state, task, NO_CHECKS)
        finally:
            await self._backend.release(state)

    async def fork(self) -> AttemptSite:
        raise TaskError("a branch of a sandbox cannot be forked: start another one, or fork its workspace for a trial")

    async def _judge_as_asked(self, task: Task, unsealed: _Unsealed) -> tuple[CheckResult, ...]:
        """Judges in the live sandbox, then seals it; the stored state includes the verifier's own changes."""
        from assay.verify.as_asked import AsAskedRequest, judge_as_asked

        self._unsealed = None
        check = _find_script_check(self._loaded, task, unsealed.step)
        resolved = self._preparer.resolved(msgspec.structs.replace(task, checks=(check,)))
        given = AsAskedRequest(
            task=resolved,
            check=resolved.checks[0],
            folder=self._loaded.folder,
            backend=self._backend,
            blobs=self._blobs,
            separate=await self._preparer.separate(self._loaded, resolved),
        )
        result = await judge_as_asked(self._open(), given)
        await self._seal(unsealed)
        return (result._replace(evidence=(*result.evidence, *self._cost_evidence())),)

    async def is_host_working(self) -> bool:
        return await works_as_control(self._backend, self._spec)

    def _variation_facts(self) -> dict[str, object]:
        """Returns the variation's name as evidence data; empty without a variation."""
        name = self._options.variation.name
        return {"variation": name} if name else {}

    def _cost_evidence(self) -> tuple[Evidence, ...]:
        if self._varied is None:
            return ()
        variation, usage, evidence = self._options.variation, self._varied.usage, []
        if variation.measured:
            data = {"peak_bytes": usage.peak_bytes, "busy_s": round(usage.busy_s, 6)}
            evidence.append(Evidence("cost", "audit", "verification_cost", data))
        if variation.counted and usage.cpu_s is not None:
            evidence.append(Evidence("used", "audit", "attempt_cost", {"cpu_s": round(usage.cpu_s, 6)}))
        return tuple(evidence)

    async def close(self) -> None:
        """Implements `AttemptSite.close`. A failing release does not prevent the others."""
        try:
            if self._agent_workspace is not None:
                await self._agent_workspace.close_forks()
        finally:
            try:
                if self._workspace is not None:
                    await self._workspace.close()
            finally:
                state, self._state = self._state, None
                try:
                    if state is not None:
                        await self._backend.release(state)
                finally:
                    if self._has_layers:
                        self._has_layers = False
                        self._preparer.release(self._loaded)

    def _open(self) -> Workspace:
        if self._workspace is None:
            raise EnvironmentFailure("the sandbox is not open")
        return self._workspace


class _Unsealed(NamedTuple):
    recorder: Recorder
    step: TaskStep | None
    last: bool


async def works_as_control(backend: Backend, spec: WorkspaceSpec) -> bool:
    """Opens and uses a fresh sandbox; returns whether that worked."""
    try:
        with boundary(EnvironmentFailure, "opening a control sandbox"):
            workspace = await backend.open(spec)
            try:
                result = await workspace.exec(["/bin/sh", "-c", "exit 0"], cwd="/", timeout_s=CONTROL_S)
                await workspace.write("/tmp/control", b"1")
            finally:
                await workspace.close()
    except EnvironmentFailure:
        return False
    return result.exit_code == 0


def _find_script_check(loaded: LoadedTask, task: Task, step: TaskStep | None) -> Check:
    """Returns the check of the task's own test script, whichever checks replace it."""
    own = [part.check for part in loaded.steps if step is None or part.name == step.name]
    script = next((check for check in (*own, *task.checks) if check.kind == "script"), None)
    if script is None:
        raise TaskError(f"task {loaded.task.id!r} has no test script: as-asked verification needs one")
    return script


async def record_task(archive: TaskArchive | None, loaded: LoadedTask, recorder: Recorder) -> None:
    """Records which task this is, so that it can be judged again after its folder has changed."""
    if archive is not None:
        evidence = await archive.keep(loaded)
        recorder.evidence("state", "task", evidence.data, evidence.blobs)


async def store_state(backend: Backend, state: Snapshot, blobs: BlobStore) -> tuple[str, tuple[str, ...]] | None:
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
    return await asyncio.to_thread(_store_files, packed, blobs)


def _chunks(handle: BinaryIO) -> Iterator[bytes]:
    while chunk := handle.read(1 << 20):
        yield chunk


def _store_files(packed: PackedState, blobs: BlobStore) -> tuple[str, tuple[str, ...]]:
    digests = []
    for change, handle in packed.files():
        if change.digest is None or not blobs.has(change.digest):
            digests.append(blobs.put_stream(_chunks(handle)))
        else:
            digests.append(change.digest)
    return blobs.put(canonical_bytes(packed.manifest)), tuple(dict.fromkeys(digests))
