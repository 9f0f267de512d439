"""The site of a world whose agent's programs run in a sandbox: the world is served inside, by MCP, HTTP and a command.

The world alone is judged. Its state never leaves this process, and programs reach it by calls alone, each a recorded
step with the world's digest after it. So nothing that the agent wrote runs where the outcome is decided.
Pages of a world are served, too, under the name of its site (`Host`), for a browser of the agent's.

Covered: the connection is the sandbox's own; the sandbox has no network but the listeners; it ends before the judging.
Not covered: two programs of the agent's are not told apart.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Final, Protocol, Unpack, runtime_checkable
from urllib.parse import urlsplit

import msgspec

from assay.agents.interface import Agent, SiteAddress, Toolbox, ToolServer, sandbox_spec
from assay.environments.interface import Backend, ExecOptions, ExecResult, Tools, Workspace, WorkspaceSpec
from assay.environments.services.command import ADDRESS, command_mount, command_path
from assay.environments.services.served_tools import ServedTools
from assay.environments.services.serving import MCP_PATH, HostPages, serve_http
from assay.environments.workspace.session import PATH
from assay.errors import AssayError, EnvironmentFailure, TaskError
from assay.http.messages import RequestHead, Response
from assay.records import Isolation, Task
from assay.rollout.attempt.recorded_attempt import LiveAttempt
from assay.rollout.attempt.site import NO_CHECKS, AttemptSite, works_as_control
from assay.rollout.attempt.world_site import WorldSite
from assay.rollout.recording.recorded_workspace import RecordedWorkspace
from assay.rollout.recording.recorder import Recorder
from assay.rollout.recording.task_archive import AGENT_SANDBOX, sandbox_facts
from assay.rollout.recording.workspace_wrapper import WorkspaceWrapper
from assay.store import BlobStore
from assay.tasks import LoadedTask, TaskStep
from assay.verify import CheckResult, RunChecks

SERVER: Final = "service"
"""Name of the world's MCP server."""


@runtime_checkable
class ServesPages(Protocol):
    """A world with pages, which any browser may load."""

    home: str
    """Address of its start page."""

    async def answer_page(self, head: RequestHead, body: bytes) -> Response:
        """Answers a request. Raises `EnvironmentFailure` if the site is broken."""


class WorldSandboxPreparer(Protocol):
    """Prepares the sandbox of a world's agent."""

    backend: Backend

    async def world_spec(self, loaded: LoadedTask) -> WorkspaceSpec:
        """Returns image, tool layer, variables and limits. The layers stay in the cache until `release_world`."""
        ...

    def release_world(self, loaded: LoadedTask) -> None:
        """Ends one use that `world_spec` began."""
        ...


class ServedWorldSite:
    """Implements `AttemptSite`: a world, and a sandbox in which it is served.

    Args:
        world: The site of the world alone.
        preparer: Prepares the sandbox.
        loaded: The task.
        agent: The agent whose programs run in the sandbox.
        blobs: Takes large outputs of commands.
    """

    def __init__(
        self, world: WorldSite, preparer: WorldSandboxPreparer, loaded: LoadedTask, agent: Agent, blobs: BlobStore
    ) -> None:
        self.isolation: Isolation | None = None
        self.artifacts: dict[str, str] = {}
        self._world = world
        self._preparer = preparer
        self._loaded = loaded
        self._agent = agent
        self._blobs = blobs
        self._spec = WorkspaceSpec()
        self._workspace: Workspace | None = None
        self._opened = AsyncExitStack()
        self._is_world_broken = False

    async def open(self, attempt: LiveAttempt, recorder: Recorder) -> None:
        await self._world.open(attempt, recorder)
        self._spec = await self._preparer.world_spec(self._loaded)
        self._opened.callback(self._preparer.release_world, self._loaded)
        mount = self._opened.enter_context(command_mount())
        env = {**self._spec.env, "PATH": command_path(self._spec.env.get("PATH", PATH))}
        spec = msgspec.structs.replace(self._spec, mounts=(*self._spec.mounts, mount), env=env)
        self._workspace = workspace = await self._preparer.backend.open(sandbox_spec(spec, self._agent))
        self._opened.push_async_callback(workspace.close)
        self.isolation = workspace.isolation
        listener = await workspace.listen(0)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"

        def fail(cause: AssayError) -> None:
            self._is_world_broken = self._is_world_broken or isinstance(cause, EnvironmentFailure)
            attempt.fail_service(cause)

        tools = ServedTools(attempt.tools, attempt.serve, fail)
        site = _site_of(attempt.tools, url)
        pages = None if site is None else HostPages(site.host, _answer_with(attempt.tools, fail))
        await self._opened.enter_async_context(serve_http(tools, listener, pages=pages))
        attempt.workspace = RecordedWorkspace(_AddressedWorkspace(workspace, url), recorder, self._blobs)
        attempt.acting = attempt.workspace
        attempt.observe = attempt.tools.digest
        attempt.toolbox = Toolbox((ToolServer(SERVER, "http", f"{url}{MCP_PATH}"),), service_url=url, site=site)

    def resolved(self, task: Task) -> Task:
        return self._world.resolved(task)

    async def enter(self, step: TaskStep | None, recorder: Recorder) -> None:
        await self._world.enter(step, recorder)
        if self._workspace is not None:
            recorder.evidence("state", AGENT_SANDBOX, sandbox_facts(self._workspace.spec, self._preparer.backend.name))

    async def settle(self, recorder: Recorder, step: TaskStep | None, *, last: bool) -> None:
        """Implements `AttemptSite.settle`. The sandbox ends before the state is read."""
        if self._workspace is not None:
            await self._workspace.kill_all()
        if last:
            await self._opened.aclose()
        await self._world.settle(recorder, step, last=last)

    async def judge(self, task: Task, more: RunChecks = NO_CHECKS) -> tuple[CheckResult, ...]:
        return await self._world.judge(task, more)

    async def preview(self, task: Task) -> tuple[CheckResult, ...]:
        if self._workspace is not None:
            await self._workspace.kill_all()
        return await self._world.preview(task)

    async def fork(self) -> AttemptSite:
        raise TaskError("a world that is served inside a sandbox cannot be forked: take an agent without programs")

    async def is_host_working(self) -> bool:
        """Implements `AttemptSite.is_host_working`; a world that breaks does so by itself."""
        return not self._is_world_broken and await works_as_control(self._preparer.backend, self._spec)

    async def close(self) -> None:
        try:
            await self._opened.aclose()
        finally:
            await self._world.close()


def _site_of(world: Tools, url: str) -> SiteAddress | None:
    """Returns where programs reach the pages of a world; None without pages."""
    if not isinstance(world, ServesPages):
        return None
    parts = urlsplit(world.home)
    return SiteAddress(world.home, parts.netloc, url.removeprefix("http://"))


def _answer_with(
    world: Tools, fail: Callable[[AssayError], None]
) -> Callable[[RequestHead, bytes], Awaitable[Response]]:
    """Returns what answers requests for pages; a site that breaks ends the attempt."""

    async def answer(head: RequestHead, body: bytes) -> Response:
        assert isinstance(world, ServesPages)
        try:
            return await world.answer_page(head, body)
        except EnvironmentFailure as exc:
            fail(exc)
            return Response(500, b"", {})

    return answer


class _AddressedWorkspace(WorkspaceWrapper):
    """Gives each command the address of the service."""

    def __init__(self, inner: Workspace, url: str) -> None:
        super().__init__(inner)
        self._url = url

    async def exec(self, command: str | Sequence[str], **options: Unpack[ExecOptions]) -> ExecResult:
        options["env"] = {ADDRESS: self._url, **(options.get("env") or {})}
        return await self._inner.exec(command, **options)

    async def fork(self, spec: WorkspaceSpec | None = None) -> Workspace:
        """Raises `EnvironmentFailure`: a copy of the sandbox would act on the same world."""
        raise EnvironmentFailure("the sandbox of a served world cannot be forked: its copies would share the world")
