"""Sandboxes that run batches of tests on versions of one source tree. Nothing of the tree ever runs on the host.

One sandbox is furnished and sealed; as many as work at once are opened on that state. The tree is at `/workspace`;
its test files lie a second time, read-only and flat, at `/tests`, where a verifier will run them: the layout `hidden`.
Whatever the layout, tests are named as in the tree.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

import msgspec

from assay.code.batches import RUNNER, Batch, Job, JobResult, read_reply, write_request
from assay.environments.interface import Backend, Mount, ResourceLimits, Snapshot, Workspace, WorkspaceSpec
from assay.environments.workspace.toolchain import HOME, PYTHON, ToolLayer
from assay.errors import EnvironmentFailure

from ._tree import SourceTree, hidden_name

__all__ = ["Laboratory", "Layout", "write_tree"]

Layout = Literal["hidden", "visible", "staged"]
"""Where test files are run: `hidden` as the verifier will, `visible` as the agent will, `staged` as the verifier will
for files whose text is not the tree's."""
WORKSPACE, TESTS = "/workspace", "/tests"
CHUNK = 8
"""Jobs of one runner: starting one costs about as much as one job."""
_ROOTS: dict[Layout, str] = {"hidden": TESTS, "visible": WORKSPACE, "staged": f"{WORKSPACE}/.staged"}


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
        folder = Path(self._host.name)
        source, tests = folder / "source", folder / "tests"
        await asyncio.to_thread(write_tree, self._tree.files, source)
        flat = {hidden_name(path): self._tree.files[path] for path in self._tree.tests}
        await asyncio.to_thread(write_tree, flat, tests)
        try:
            first = await self._backend.open(self._spec(tests))
            self._open.append(first)
            await first.upload(source, WORKSPACE)
            self._state = await first.snapshot()
            await first.close()
            self._open.clear()
            for _ in range(self._places):
                self._open.append(await self._backend.open(self._spec(tests), state=self._state))
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

    def _spec(self, tests: Path) -> WorkspaceSpec:
        return WorkspaceSpec(
            workdir=WORKSPACE,
            env={"PATH": f"{HOME}/bin:/usr/local/bin:/usr/bin:/bin", "PYTHONPYCACHEPREFIX": "/tmp/byte-code"},
            limits=ResourceLimits(memory_mib=2048, disk_mib=2048, tmp_mib=1024),
            mounts=(self._layer.mount(), Mount(str(tests), TESTS)),
        )

    async def run(self, jobs: Sequence[Job], *, layout: Layout, repetition: int) -> dict[str, JobResult]:
        """Runs jobs, spread over the sandboxes; a job whose runner broke comes back as `died`.

        Args:
            jobs: Their test names are relative to the layout's root, their files to the workspace.
            layout: Where the test files are run.
            repetition: Seeds hashing and `random`, so that what depends on them shows.
        """
        chunks = _chunks(jobs, self._places)
        found: dict[str, JobResult] = {}
        async with asyncio.TaskGroup() as group:
            for chunk in chunks:
                group.create_task(self._run_chunk(chunk, layout, repetition, found))
        return {job.id: found.get(job.id) or JobResult(job.id, "died") for job in jobs}

    def _place(self, job: Job, layout: Layout) -> Job:
        write = {f"{WORKSPACE}/{name}": text for name, text in job.write.items()}
        if layout == "staged":
            for path in {test.partition("::")[0] for test in job.tests}:
                text = job.write[path] if path in job.write else self._tree.files[path].decode()
                write[_placed(path, layout)] = text
        tests = tuple(_placed(name, layout) for name in job.tests)
        return msgspec.structs.replace(job, tests=tests, write=write)

    def _named(self, result: JobResult, tests: Sequence[str], layout: Layout) -> JobResult:
        """The result with tests and files named as in the tree."""
        names = {hidden_name(t.partition("::")[0]): t.partition("::")[0] for t in tests} if layout != "visible" else {}

        def name(test: str) -> str:
            path, separator, rest = test.partition("::")
            return f"{names.get(path, path)}{separator}{rest}"

        covered = {
            name(test): {path.removeprefix(WORKSPACE + "/"): lines for path, lines in files.items()}
            for test, files in result.covered.items()
        }
        found = {name(test): outcome for test, outcome in result.tests.items()}
        return msgspec.structs.replace(result, tests=found, covered=covered)

    async def _run_chunk(
        self, chunk: Sequence[Job], layout: Layout, repetition: int, found: dict[str, JobResult]
    ) -> None:
        workspace = await self._idle.get()
        try:
            asked = {job.id: job.tests for job in chunk}
            for result in await self._run_batch(workspace, chunk, layout, repetition):
                found[result.id] = self._named(result, asked.get(result.id, ()), layout)
        finally:
            self._idle.put_nowait(workspace)

    async def _run_batch(
        self, workspace: Workspace, chunk: Sequence[Job], layout: Layout, repetition: int
    ) -> tuple[JobResult, ...]:
        packages = tuple(f"{WORKSPACE}/{package}" for package in self._tree.packages)
        batch = Batch(
            jobs=tuple(self._place(job, layout) for job in chunk),
            root=_ROOTS[layout],
            paths=tuple(f"{WORKSPACE}/{root}".removesuffix("/.") for root in self._tree.roots),
            preload=self._tree.import_names,
            cover=packages,
            seed=repetition,
        )
        await workspace.write("/tmp/runner.py", RUNNER.read_bytes())
        await workspace.write("/tmp/request.json", write_request(batch))
        wall_s = sum(job.cpu_s * 3 + 10 for job in chunk) + 120
        command = [PYTHON, "/tmp/runner.py", "/tmp/request.json", "/tmp/reply.json"]
        result = await workspace.exec(command, env={"PYTHONHASHSEED": str(repetition)}, timeout_s=wall_s)
        await workspace.kill_all()
        try:
            return read_reply(await workspace.read("/tmp/reply.json"))
        except (OSError, ValueError) as exc:
            message = f"the test runner gave no reply (exit code {result.exit_code}): {result.stderr[-1000:]}"
            raise EnvironmentFailure(message) from exc


def _chunks(jobs: Sequence[Job], places: int) -> Iterable[Sequence[Job]]:
    size = max(1, min(CHUNK, -(-len(jobs) // places)))
    return [jobs[at : at + size] for at in range(0, len(jobs), size)]


def _placed(test: str, layout: Layout) -> str:
    path, separator, name = test.partition("::")
    return f"{_ROOTS[layout]}/{path if layout == 'visible' else hidden_name(path)}{separator}{name}"
