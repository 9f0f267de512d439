"""Sandboxes that run batches of tests on versions of one source tree. Nothing of the tree ever runs on the host.

One sandbox is furnished and sealed; as many as work at once are opened on that state. Tests run where they stand in the
tree, at `/workspace`, as the agent will run them and, with the hidden ones put back in place, the verifier.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import msgspec

from assay.code.batches import Job, JobBatch, JobResult, read_reply, write_request
from assay.environments.interface import Backend, ResourceLimits, Snapshot, Workspace, WorkspaceSpec
from assay.environments.payload import FORKED_TESTS
from assay.environments.workspace.toolchain import HOME, PYTHON, ToolLayer

from ._tree import SourceTree

__all__ = ["WORKSPACE", "Laboratory", "write_tree"]

WORKSPACE = "/workspace"
PROGRAMS = "/tmp/programs"
CHUNK = 8
"""Jobs of one runner: starting one costs about as much as one job."""


_NO_REPLY = "the test runner gave no reply and ended with"


class _Done(NamedTuple):
    """What came back of a batch, and what to say of the jobs that did not."""

    results: tuple[JobResult, ...]
    trouble: str


def write_tree(files: dict[str, bytes], folder: Path) -> None:
    """Writes files below a folder. The names were checked when the tree was read."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


class Laboratory:
    """An async context manager; open it, run jobs, leave it."""

    def __init__(self, tree: SourceTree, backend: Backend, layer: ToolLayer, places: int) -> None:
        self._tree = tree
        self._backend = backend
        self._layer = layer
        self._places = places
        self._host = tempfile.TemporaryDirectory(prefix="assay-synthesis-")
        self._state: Snapshot | None = None
        self._idle: asyncio.Queue[Workspace] = asyncio.Queue()
        self._open: list[Workspace] = []

    async def __aenter__(self) -> Self:
        source = Path(self._host.name) / "source"
        await asyncio.to_thread(write_tree, self._tree.files, source)
        try:
            first = await self._backend.open(self.spec)
            self._open.append(first)
            await first.upload(source, WORKSPACE)
            # Byte code made once and never trusted by time: a version of a file that differs is read anew.
            compiling = [PYTHON, "-m", "compileall", "-q", "-j", "2", "--invalidation-mode", "checked-hash", WORKSPACE]
            await first.exec(compiling, timeout_s=300.0)
            self._state = await first.snapshot()
            await first.close()
            self._open.clear()
            for _ in range(self._places):
                self._open.append(await self._backend.open(self.spec, state=self._state))
                await self._idle.put(self._open[-1])
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()

    async def _close(self) -> None:
        for workspace in self._open:
            await workspace.close()
        if self._state is not None:
            await self._backend.release(self._state)
        self._host.cleanup()

    @property
    def backend(self) -> Backend:
        """Where the sandboxes are opened."""
        return self._backend

    @property
    def state(self) -> Snapshot:
        """The sealed state with the unbroken tree."""
        assert self._state is not None, "the laboratory is open"
        return self._state

    @property
    def spec(self) -> WorkspaceSpec:
        """What a sandbox of the laboratory is."""
        return WorkspaceSpec(
            workdir=WORKSPACE,
            env={"PATH": f"{HOME}/bin:/usr/local/bin:/usr/bin:/bin"},
            limits=ResourceLimits(memory_mib=2048, disk_mib=2048, tmp_mib=1024),
            mounts=(self._layer.mount(),),
        )

    async def run(self, jobs: Sequence[Job], *, repetition: int, warm: bool = False) -> dict[str, JobResult]:
        """Runs jobs, spread over the sandboxes; a job whose runner broke comes back as `died`.

        Args:
            jobs: Their tests and files are named as in the tree.
            repetition: Seeds hashing and `random`, so that what depends on them shows.
            warm: The jobs differ in what they write alone: their tests are collected once.
        """
        found: dict[str, JobResult] = {}
        async with asyncio.TaskGroup() as group:
            for chunk in [jobs] if warm and jobs else _chunks(jobs, self._places):
                group.create_task(self._run_chunk(chunk, repetition, found, warm=warm))
        return {job.id: found.get(job.id) or JobResult(job.id, "died") for job in jobs}

    async def run_program(self, programs: Sequence[Path], request: bytes, wall_s: float) -> bytes:
        """Runs a program on the unbroken tree, as `PROGRAM REQUEST REPLY`.

        Args:
            programs: Files that are laid into one folder; the first one is started.
            request: What it reads.
            wall_s: Seconds after which it is ended.

        Returns:
            What it wrote before its end; empty where it wrote nothing.
        """
        workspace = await self._idle.get()
        try:
            for program in programs:
                await workspace.write(f"{PROGRAMS}/{program.name}", program.read_bytes())
            await workspace.write(f"{PROGRAMS}/request.json", request)
            command = [PYTHON, f"{PROGRAMS}/{programs[0].name}", f"{PROGRAMS}/request.json", f"{PROGRAMS}/reply.json"]
            await workspace.exec(command, env={"PYTHONHASHSEED": "0"}, timeout_s=wall_s)
            await workspace.kill_all()
            return await workspace.read(f"{PROGRAMS}/reply.json")
        except (OSError, ValueError):
            return b""
        finally:
            # The program may have been ended while files were changed.
            self._idle.put_nowait(await self._afresh(workspace))

    async def _run_chunk(
        self, chunk: Sequence[Job], repetition: int, found: dict[str, JobResult], *, warm: bool
    ) -> None:
        workspace, pending = await self._idle.get(), [chunk]
        try:
            while pending:
                jobs = pending.pop(0)
                done = await self._run_batch(workspace, jobs, repetition, warm=warm)
                found.update({result.id: _relative(result) for result in done.results})
                missing = [job for job in jobs if job.id not in found]
                if missing:
                    # Tests can kill the runner: it has put no file back, and the others are run without them.
                    workspace = await self._afresh(workspace)
                if missing and len(jobs) == 1:
                    found[jobs[0].id] = JobResult(jobs[0].id, "died", problems=(done.trouble,))
                else:
                    pending += [[job] for job in missing]
        finally:
            self._idle.put_nowait(workspace)

    async def _afresh(self, workspace: Workspace) -> Workspace:
        """Another sandbox in the place of one whose files are in doubt."""
        await workspace.close()
        fresh = await self._backend.open(self.spec, state=self._state)
        self._open = [fresh if one is workspace else one for one in self._open]
        return fresh

    async def _run_batch(self, workspace: Workspace, chunk: Sequence[Job], repetition: int, *, warm: bool) -> _Done:
        packages = tuple(f"{WORKSPACE}/{package}" for package in self._tree.packages)
        batch = JobBatch(
            jobs=tuple(_placed(job) for job in chunk),
            root=WORKSPACE,
            paths=tuple(f"{WORKSPACE}/{root}".removesuffix("/.") for root in self._tree.roots),
            preload=self._tree.import_names,
            cover=packages,
            seed=repetition,
            warm=warm,
        )
        await workspace.exec(["rm", "-rf", "/tmp/reply.json"])
        await workspace.write("/tmp/runner.py", FORKED_TESTS.read_bytes())
        await workspace.write("/tmp/request.json", write_request(batch))
        wall_s = sum(job.cpu_s * 8 + 40 for job in chunk) + 120
        command = [PYTHON, "/tmp/runner.py", "/tmp/request.json", "/tmp/reply.json"]
        result = await workspace.exec(command, env={"PYTHONHASHSEED": str(repetition)}, timeout_s=wall_s)
        await workspace.kill_all()
        try:
            return _Done(read_reply(await workspace.read("/tmp/reply.json")), f"{_NO_REPLY} {result.exit_code}")
        except (OSError, ValueError) as exc:
            return _Done((), f"{_NO_REPLY} {result.exit_code}: {exc}; {result.stderr[-300:]}")


def _chunks(jobs: Sequence[Job], places: int) -> Iterable[Sequence[Job]]:
    size = max(1, min(CHUNK, -(-len(jobs) // places)))
    return [jobs[at : at + size] for at in range(0, len(jobs), size)]


def _placed(job: Job) -> Job:
    tests = tuple(f"{WORKSPACE}/{name}" for name in job.tests)
    write = {f"{WORKSPACE}/{name}": text for name, text in job.write.items()}
    return msgspec.structs.replace(job, tests=tests, write=write)


def _relative(result: JobResult) -> JobResult:
    covered = {
        test: {path.removeprefix(WORKSPACE + "/"): lines for path, lines in files.items()}
        for test, files in result.covered.items()
    }
    return msgspec.structs.replace(result, covered=covered)
