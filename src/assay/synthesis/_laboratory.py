"""Sandboxes that run batches of tests on versions of one source tree. Its code never runs on the host.

One sandbox is set up and snapshotted; the others are opened on that state. Tests run at their place in the
tree, at `/workspace`, as the agent will run them and, with the hidden ones put back in place, the verifier.
"""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self, TypeVar

import msgspec

from assay.code.batches import Job, JobBatch, JobResult, read_reply, write_request
from assay.environments.interface import Backend, ResourceLimits, Snapshot, Workspace, WorkspaceSpec
from assay.environments.payload import FORKED_TESTS
from assay.environments.workspace.toolchain import HOME, PYTHON, ToolLayer

from ._program_server import Loaded, ProgramServer
from ._tree import SourceTree

Result = TypeVar("Result")
WORKSPACE = "/workspace"
PROGRAMS = "/tmp/programs"
MAX_REPLY_BYTES = 64 * 1024 * 1024
CHUNK = 8
"""Jobs of one runner: starting one costs about as much as one job."""

SHARES = 2
"""Shares of the sandboxes: a hash seed other than 0 has its servers in one of them, and so have runs that explain."""
MANY_FILES = 100
"""Number of files above which two processes compile: starting them costs more than compiling a few files."""

_NO_REPLY = "the test runner gave no reply and ended with"


class _BatchReply(NamedTuple):
    """Results of a batch, and the reason for missing ones."""

    results: tuple[JobResult, ...]
    problem: str


def import_paths(tree: SourceTree) -> tuple[str, ...]:
    """Returns the import roots of a tree in a sandbox, absolute."""
    return tuple(f"{WORKSPACE}/{root}".removesuffix("/.") for root in tree.roots)


def absolute_texts(texts: Mapping[str, str | None]) -> dict[str, str | None]:
    """Returns files of the tree by their absolute paths in a sandbox."""
    return {f"{WORKSPACE}/{path}": text for path, text in texts.items()}


def read_results(reply: bytes, kind: type[Result]) -> tuple[Result, ...]:
    """Parses the reply of a payload program; returns an empty tuple if it is malformed or too large."""
    if len(reply) > MAX_REPLY_BYTES:
        return ()
    decoder = msgspec.json.Decoder(kind)
    try:
        return tuple(decoder.decode(line) for line in reply.splitlines() if line.strip())
    except (msgspec.MsgspecError, RecursionError):
        return ()


def write_tree(files: dict[str, bytes], folder: Path) -> None:
    """Writes files below a folder. The names were checked when the tree was read."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


class Laboratory:
    """Async context manager with a fixed number of sandboxes on one source tree."""

    def __init__(self, tree: SourceTree, backend: Backend, layer: ToolLayer, slots: int) -> None:
        self._tree = tree
        self._backend = backend
        self._layer = layer
        self._slots = slots
        self._host = tempfile.TemporaryDirectory(prefix="assay-synthesis-")
        self._state: Snapshot | None = None
        self._idle: list[Workspace] = []
        self._freed = asyncio.Condition()
        self._open: list[Workspace] = []
        self._servers: dict[Workspace, dict[int, ProgramServer | None]] = {}
        """Sandbox to its servers, by their hash seeds."""

    async def __aenter__(self) -> Self:
        source = Path(self._host.name) / "source"
        await asyncio.to_thread(write_tree, self._tree.files, source)
        try:
            first = await self._backend.open(self.spec)
            self._open.append(first)
            await first.upload(source, WORKSPACE)
            # Byte code is checked by hash, so a changed version of a file is compiled again.
            compiling = [PYTHON, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash"]
            at_once = ["-j", "2"] if len(self._tree.files) > MANY_FILES else []
            await first.exec([*compiling, *at_once, WORKSPACE], timeout_s=300.0)
            self._state = await first.snapshot()
            await first.close()
            self._open.clear()
            for _ in range(self._slots):
                self._open.append(await self._backend.open(self.spec, state=self._state))
                self._idle.append(self._open[-1])
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
            await self._stop_servers(workspace)
            await workspace.close()
        if self._state is not None:
            await self._backend.release(self._state)
        self._host.cleanup()

    @property
    def backend(self) -> Backend:
        return self._backend

    @property
    def state(self) -> Snapshot:
        """Returns the snapshot with the unbroken tree."""
        assert self._state is not None, "the laboratory is open"
        return self._state

    @property
    def spec(self) -> WorkspaceSpec:
        return WorkspaceSpec(
            workdir=WORKSPACE,
            env={"PATH": f"{HOME}/bin:/usr/local/bin:/usr/bin:/bin"},
            limits=ResourceLimits(memory_mib=2048, disk_mib=2048, tmp_mib=1024),
            mounts=(self._layer.mount(),),
        )

    async def run(
        self,
        jobs: Sequence[Job],
        *,
        repetition: int,
        warm: bool = False,
        together: bool = False,
        fresh: bool = False,
    ) -> dict[str, JobResult]:
        """Runs jobs, spread over the sandboxes; a job whose runner failed has the result `died`.

        Args:
            jobs: Their tests and files are named as in the tree.
            repetition: Seeds hashing and `random`, so that tests that depend on them differ.
            warm: The jobs differ only in the files that they write: their tests are collected once.
            together: Jobs that follow each other and differ in what they write may share a process, as far as nothing
                that one leaves shows in another: see `payload/versions_together.py`.
            fresh: Each job imports the package itself. Others are forks of a process that has imported it, where the
                files that they write change nothing but functions.
        """
        results: dict[str, JobResult] = {}
        async with asyncio.TaskGroup() as group:
            for chunk in [jobs] if warm and jobs else _split_jobs(jobs, self._slots, together=together):
                batch = self._describe_batch(chunk, repetition, warm=warm, together=together)
                group.create_task(self._run_chunk(batch, results, fresh=fresh))
        return {job.id: results.get(job.id) or JobResult(job.id, "died") for job in jobs}

    async def run_program(self, programs: Sequence[Path], request: bytes, wall_s: float, loaded: Loaded = "") -> bytes:
        """Runs a program on the unbroken tree, as `PROGRAM REQUEST REPLY`, and returns its reply, which may be empty.

        `programs` are copied into one folder; the first one is started, as a fork of the sandbox's server if it has
        one, with `loaded` of a process that has imported the package. The sandbox is used again only if the program
        ended well: it then left the files as they were.
        """
        workspace, ended = await self._take(), False
        paths = (f"{PROGRAMS}/request.json", f"{PROGRAMS}/reply.json")
        try:
            await workspace.write(paths[0], request)
            ended = await self._run_served(workspace, programs, paths, wall_s, loaded=loaded)
            if not ended:
                workspace = await self._without_server(workspace)
                await self._run_alone(workspace, programs, paths, request, wall_s)
            return await workspace.read(paths[1])
        except (OSError, ValueError):
            ended = False
            return b""
        finally:
            await self._put_back(workspace if ended else await self._replace_sandbox(workspace))

    async def _run_served(
        self,
        workspace: Workspace,
        programs: Sequence[Path],
        paths: tuple[str, str],
        wall_s: float,
        seed: int = 0,
        *,
        loaded: Loaded = "",
    ) -> bool:
        """Runs a program as a fork of the sandbox's server of a hash seed; False without one, or if the program did not
        end well."""
        servers = self._servers.setdefault(workspace, {})
        if seed not in servers:
            folder = f"{PROGRAMS}/{seed}" if seed else PROGRAMS
            tests = [f"{WORKSPACE}/{path}" for path in self._tree.tests]
            described = {"root": WORKSPACE, "paths": import_paths(self._tree), "preload": self._tree.import_names}
            batch = {**described, "tests": tests, "seed": seed}
            servers[seed] = await ProgramServer.start(workspace, folder, batch, seed)
        server = servers[seed]
        return server is not None and await server.run(workspace, programs, paths, wall_s, loaded)

    async def _run_alone(
        self, workspace: Workspace, programs: Sequence[Path], paths: tuple[str, str], request: bytes, wall_s: float
    ) -> None:
        for program in programs:
            await workspace.write(f"{PROGRAMS}/{program.name}", program.read_bytes())
        await workspace.write(paths[0], request)
        command = [PYTHON, f"{PROGRAMS}/{programs[0].name}", *paths]
        await workspace.exec(command, env={"PYTHONHASHSEED": "0"}, timeout_s=wall_s)
        await workspace.kill_all()

    async def _without_server(self, workspace: Workspace) -> Workspace:
        """Returns a sandbox in which nothing runs: a fresh one where a server's program may have ended too early."""
        is_served = any(self._servers.get(workspace, {}).values())
        return await self._replace_sandbox(workspace) if is_served else workspace

    async def _stop_servers(self, workspace: Workspace) -> None:
        for server in self._servers.pop(workspace, {}).values():
            if server is not None:
                await server.close()

    async def snapshot_with(self, files: Mapping[str, str | bytes | None]) -> Snapshot:
        """Returns a snapshot of the unbroken tree with files replaced, or removed (None); the caller releases it."""
        workspace = await self._backend.open(self.spec, state=self._state)
        try:
            for path, content in sorted(files.items()):
                if content is None:
                    await workspace.exec(["rm", "-f", "--", f"{WORKSPACE}/{path}"])
                else:
                    data = content.encode() if isinstance(content, str) else content
                    await workspace.write(f"{WORKSPACE}/{path}", data)
            return await workspace.snapshot()
        finally:
            await workspace.close()

    async def _run_chunk(self, chunk: JobBatch, results: dict[str, JobResult], *, fresh: bool) -> None:
        # A process that few runs need is started in a share of the sandboxes.
        share = None if fresh else chunk.seed or (1 if _configuration(chunk) == "explain" else None)
        workspace, pending = await self._take(share), [chunk]
        try:
            while pending:
                batch = pending.pop(0)
                reply = await self._run_batch_served(workspace, batch, fresh=fresh)
                if reply is None:
                    workspace = await self._without_server(workspace)
                    reply = await self._run_batch(workspace, batch)
                results.update({result.id: _relative_result(result) for result in reply.results})
                missing = [job for job in batch.jobs if job.id not in results]
                if missing:
                    # Tests can kill the runner, which then restored no file: the other jobs run in a fresh sandbox.
                    workspace = await self._replace_sandbox(workspace)
                if missing and len(batch.jobs) == 1:
                    results[missing[0].id] = JobResult(missing[0].id, "died", problems=(reply.problem,))
                else:
                    pending += [msgspec.structs.replace(batch, jobs=(job,)) for job in missing]
        finally:
            await self._put_back(workspace)

    async def _take(self, share: int | None = None) -> Workspace:
        """Waits for a sandbox that nothing uses, of any share or of one."""

        def fitting() -> list[Workspace]:
            return [one for one in self._idle if share is None or (self._open.index(one) - share) % shares == 0]

        shares = min(SHARES, self._slots)
        async with self._freed:
            await self._freed.wait_for(fitting)
            workspace = fitting()[0]
            self._idle.remove(workspace)
            return workspace

    async def _put_back(self, workspace: Workspace) -> None:
        async with self._freed:
            self._idle.append(workspace)
            self._freed.notify_all()

    async def _replace_sandbox(self, workspace: Workspace) -> Workspace:
        """Replaces a sandbox whose files may have been modified."""
        await self._stop_servers(workspace)
        await workspace.close()
        fresh = await self._backend.open(self.spec, state=self._state)
        self._open = [fresh if one is workspace else one for one in self._open]
        return fresh

    def _describe_batch(self, jobs: Sequence[Job], repetition: int, *, warm: bool, together: bool) -> JobBatch:
        return JobBatch(
            jobs=tuple(_absolute_job(job) for job in jobs),
            root=WORKSPACE,
            paths=import_paths(self._tree),
            preload=self._tree.import_names,
            cover=tuple(f"{WORKSPACE}/{package}" for package in self._tree.packages),
            seed=repetition,
            warm=warm,
            together=together,
        )

    async def _run_batch_served(
        self, workspace: Workspace, batch: JobBatch, *, fresh: bool = False
    ) -> _BatchReply | None:
        """Runs a batch as a fork of the sandbox's server; None if it has to run as a process of its own. Unless it is
        to be `fresh`, its jobs run where the package is imported, as far as their versions can be made there."""
        loaded = "" if fresh else _configuration(batch)
        reply = await self._run_batch_in_fork(workspace, batch, loaded)
        refused = {result.id for result in reply.results if result.ended == "cold"} if reply is not None else set()
        if reply is None or not refused:
            return reply
        jobs = tuple(job for job in batch.jobs if job.id in refused)
        again = await self._run_batch_in_fork(workspace, msgspec.structs.replace(batch, jobs=jobs, warm=False), "")
        others = tuple(result for result in reply.results if result.id not in refused)
        return None if again is None else _BatchReply((*others, *again.results), again.problem)

    async def _run_batch_in_fork(self, workspace: Workspace, batch: JobBatch, loaded: Loaded) -> _BatchReply | None:
        paths = (f"{PROGRAMS}/request.json", f"{PROGRAMS}/reply.json")
        served = msgspec.structs.replace(batch, preload=())  # the server has imported what they need
        await workspace.write(paths[0], write_request(served))
        try:
            wall_s = _wall_limit(batch)
            if await self._run_served(workspace, FORKED_TESTS, paths, wall_s, batch.seed, loaded=loaded):
                return _BatchReply(read_reply(await workspace.read(paths[1])), f"{_NO_REPLY} 0")
        except (OSError, ValueError):
            pass
        return None

    async def _run_batch(self, workspace: Workspace, batch: JobBatch) -> _BatchReply:
        await workspace.exec(["rm", "-rf", "/tmp/reply.json"])
        for program in FORKED_TESTS:
            await workspace.write(f"/tmp/{program.name}", program.read_bytes())
        await workspace.write("/tmp/request.json", write_request(batch))
        command = [PYTHON, f"/tmp/{FORKED_TESTS[0].name}", "/tmp/request.json", "/tmp/reply.json"]
        env = {"PYTHONHASHSEED": str(batch.seed)}
        result = await workspace.exec(command, env=env, timeout_s=_wall_limit(batch))
        await workspace.kill_all()
        try:
            return _BatchReply(read_reply(await workspace.read("/tmp/reply.json")), f"{_NO_REPLY} {result.exit_code}")
        except (OSError, ValueError) as exc:
            return _BatchReply((), f"{_NO_REPLY} {result.exit_code}: {exc}; {result.stderr[-300:]}")


def _configuration(batch: JobBatch) -> Loaded:
    """Returns how pytest is configured for a batch where the package is imported; empty where it is not to be."""
    if any(job.measure for job in batch.jobs):
        return ""
    explained = [job.explain for job in batch.jobs]
    return "explain" if all(explained) else "" if any(explained) else "plain"


def _wall_limit(batch: JobBatch) -> float:
    return sum(job.cpu_s * 8 + 40 for job in batch.jobs) + 120


def _split_jobs(jobs: Sequence[Job], slots: int, *, together: bool = False) -> Iterable[Sequence[Job]]:
    """Divides jobs among programs; those that may share a process are not separated."""
    size = max(1, min(CHUNK, -(-len(jobs) // slots)))
    if not together:
        return [jobs[at : at + size] for at in range(0, len(jobs), size)]
    chunks: list[list[Job]] = [[]]
    for _, same in itertools.groupby(jobs, key=lambda job: job.tests):
        group = list(same)
        if chunks[-1] and len(chunks[-1]) + len(group) > size:
            chunks.append([])
        chunks[-1] += group
    return chunks if jobs else []


def _absolute_job(job: Job) -> Job:
    tests = tuple(f"{WORKSPACE}/{name}" for name in job.tests)
    return msgspec.structs.replace(job, tests=tests, write=absolute_texts(job.write))


def _relative_result(result: JobResult) -> JobResult:
    covered = {
        test: {path.removeprefix(WORKSPACE + "/"): lines for path, lines in files.items()}
        for test, files in result.covered.items()
    }
    return msgspec.structs.replace(result, covered=covered)
