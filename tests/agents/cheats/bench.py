"""Runs one cheat on one small task in a real sandbox, and judges what it left: as asked, or by default."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar

from assay.agents.cheats.interface import Cheat, CheatAgent, Knowledge, SolutionFile
from assay.agents.testing import FakeAttempt
from assay.environments.interface import Image, ResourceLimits, WorkspaceSpec
from assay.environments.workspace.namespaces import NamespacesBackend
from assay.environments.workspace.toolchain import ToolLayer, ensure_toolchain
from assay.records import Check, EnvironmentSpec, Step, Task, ToolCall, Verdict
from assay.settings import Settings
from assay.store import BlobStore
from assay.verify import JudgeRequest, verify_outcome
from assay.verify.as_asked import AsAskedRequest, judge_as_asked, living_spec

Result = TypeVar("Result")
AT_ONCE = 6
LIMITS = ResourceLimits(memory_mib=512, processes=64, disk_mib=16, tmp_mib=8)


class Small(NamedTuple):
    """A task: what its image holds, what solving it leaves, and the verifier's files. Paths of the first two are
    absolute, of the third relative to `/tests`; a content is text."""

    image: Mapping[str, str]
    solved: Mapping[str, str]
    tests: Mapping[str, str]
    history: tuple[Mapping[str, str], ...] = ()
    """Commits of a repository in the workspace, the last one ahead of what is checked out."""
    steps: tuple[str, ...] = ()
    """Commands that a reference solution is recorded to have run."""

    def knowledge(self) -> Knowledge:
        """As the reference solution's attempt shows it."""
        changed = tuple(
            SolutionFile(path, self.image[path].encode() if path in self.image else None, text.encode("latin-1"))
            for path, text in self.solved.items()
        )
        steps = tuple(_step(index, command) for index, command in enumerate(self.steps))
        return Knowledge("/workspace", changed, tuple(self.tests), tuple(self.solved), steps)


def _step(index: int, command: str) -> Step:
    return Step(index, "agent", None, None, (ToolCall("t", "shell", "{}", {"command": command}),), ())


class Room:
    """Where the tasks of one session are built and judged."""

    def __init__(self, place: Path, backend: NamespacesBackend, layer: ToolLayer) -> None:
        self.backend, self.blobs = backend, BlobStore(place / "blobs")
        self._place, self._layer = place, layer
        self._built = 0

    def _build(self, small: Small) -> tuple[WorkspaceSpec, Path]:
        self._built += 1
        top = self._place / str(self._built)
        image = top / "image"
        (image / "workspace").mkdir(parents=True)
        for commit in small.history:
            _write(image, commit)
            _commit(image / "workspace")
        if small.history:
            _git(image / "workspace", "reset", "-q", "--hard", "HEAD~1")
        _write(image, small.image)
        _write(top / "task" / "tests", small.tests)
        spec = WorkspaceSpec(
            image=Image(layers=(str(image),), digest=f"blake3:small-{self._built}"),
            limits=LIMITS,
            mounts=(self._layer.mount(),),
        )
        return spec, top / "task"

    async def as_asked(self, cheat: Cheat, small: Small) -> Verdict:
        """The verdict of the task's own settings, in the agent's living sandbox."""
        spec, folder = await asyncio.to_thread(self._build, small)
        workspace = await self.backend.open(living_spec(spec))
        try:
            attempt = FakeAttempt(_task(), workspace=workspace)
            await CheatAgent(cheat, small.knowledge()).run(attempt)
            given = AsAskedRequest(_task(), _task().checks[0], folder, self.backend, self.blobs)
            return (await judge_as_asked(workspace, given)).verdict
        finally:
            await workspace.close()

    async def nothing_and_all(self, small: Small) -> tuple[Verdict, Verdict]:
        """The verdicts as asked on doing nothing, and then on what the reference solution leaves."""
        spec, folder = await asyncio.to_thread(self._build, small)
        workspace = await self.backend.open(living_spec(spec))
        given = AsAskedRequest(_task(), _task().checks[0], folder, self.backend, self.blobs)
        try:
            nothing = (await judge_as_asked(workspace, given)).verdict
            await workspace.exec("chmod 755 /logs/verifier; rm -rf /logs/verifier/* /tmp/*")
            for file in small.knowledge().changed:
                await workspace.write(file.path, file.after or b"")
            return nothing, (await judge_as_asked(workspace, given)).verdict
        finally:
            await workspace.close()

    async def by_default(self, cheat: Cheat, small: Small) -> Verdict:
        """Assay's own verdict."""
        spec, folder = await asyncio.to_thread(self._build, small)
        workspace = await self.backend.open(spec)
        try:
            await CheatAgent(cheat, small.knowledge()).run(FakeAttempt(_task(), workspace=workspace))
            state = await workspace.snapshot()
        finally:
            await workspace.close()
        (result,) = await verify_outcome(JudgeRequest(_task(), folder, self.backend, spec, state, self.blobs))
        return result.verdict


def _task() -> Task:
    check = Check("script", "script", {"script": "tests/test.sh", "interpreter": ["/bin/bash"], "timeout_s": 20.0})
    return Task("small", "do it", EnvironmentSpec("workspace", {}), (check,), "blake3:small")


def _write(top: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = top / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755 if text.startswith("#!") else 0o644)


def _git(folder: Path, *words: str) -> None:
    author = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", "-C", str(folder), *author, *words], check=True, capture_output=True)


def _commit(folder: Path) -> None:
    _git(folder, "init", "-q")
    _git(folder, "add", "-A")
    _git(folder, "commit", "-q", "-m", "as it is")


Work = Callable[[Room], Awaitable[Result]]


async def in_room(place: Path, wanted: Mapping[str, Work[Result]]) -> dict[str, Result]:
    """The results of all, some at a time."""
    layer = await asyncio.to_thread(ensure_toolchain, Settings.from_environment().cache)
    backend = NamespacesBackend()
    room, places = Room(place, backend, layer), asyncio.Semaphore(AT_ONCE)

    async def one(work: Work[Result]) -> Result:
        async with places:
            return await work(room)

    try:
        async with asyncio.TaskGroup() as group:
            under_way = {name: group.create_task(one(work)) for name, work in wanted.items()}
    finally:
        await backend.close()
    return {name: task.result() for name, task in under_way.items()}
