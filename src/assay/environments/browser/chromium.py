"""Chromium as a process in a sandbox: no network, an unprivileged user, bounded memory, reached by a pipe.

Covered: the browser sees a read-only system, an empty home and no other process; it has no network interface at all, so
a page can reach what `context` serves and nothing else; its memory, processes and files are bounded by the kernel.

Not covered: Chromium's own sandbox is off, because ours takes its place. So a renderer that is compromised reaches the
other attempts in the same browser, and nothing else. Attempts that must not meet have a browser each
(`browser_per_attempt`).
"""

from __future__ import annotations

import asyncio
import os
import shutil
from typing import Any, Final, Protocol

from assay.environments.interface import Backend, ExecResult, PipedExec, ResourceLimits, Workspace, WorkspaceSpec
from assay.errors import EnvironmentFailure, UserError
from assay.records import Isolation

from .cdp import CdpConnection

PROGRAMS: Final = ("chromium-headless-shell", "chrome-headless-shell", "headless_shell")
"""Names of Chromium's headless shell, which has no windows. Chromium with windows, `--headless` or not, begins to load
a page before its requests are ours (the start page is an error), and after a picture takes no input (version 150)."""
LIMITS: Final = ResourceLimits(
    memory_mib=4096, processes=4000, disk_mib=1024, tmp_mib=1024, open_files=8192, file_mib=512, output_mib=64
)
START_S: Final = 60.0
_PIPES: Final = 'trap "" XFSZ; exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null'
"""Standard input and output become the descriptors 3 and 4, on which Chromium speaks its protocol. A file that would be
too large is an error, which a tab may end with, and no signal, which would end the browser of all attempts: the pixels
of a large picture are in such a file."""
FLAGS: Final = (
    "--headless",
    "--remote-debugging-pipe",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--user-data-dir=/tmp/profile",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-breakpad",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-extensions",
    "--disable-sync",
    "--disable-field-trial-config",
    "--disable-features=Translate,MediaRouter,OptimizationHints,PaintHolding",
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
    "--metrics-recording-only",
    "--mute-audio",
    "--password-store=basic",
    "--lang=en-US",
    # What a picture of a page depends on beside the page.
    "--hide-scrollbars",
    "--font-render-hinting=none",
    "--disable-lcd-text",
    "--force-color-profile=srgb",
    "--force-device-scale-factor=1",
    "--disable-smooth-scrolling",
    "--disable-partial-raster",
    # Memory of an attempt: a window is seen by no person, and the viewport does not depend on its size (saves 2 MB);
    # scripts are compiled, and garbage is collected, without further threads (saves 1 MB).
    "--window-size=16,16",
    "--js-flags=--single-threaded",
)


def find_program() -> str:
    """Returns the path of Chromium's headless shell. Raises `UserError` without one."""
    for name in PROGRAMS:
        found = shutil.which(name)
        if found is not None:
            # A distribution's launcher reads settings of the host; the program itself lies beside its data.
            beside = f"/usr/lib/chromium/{name}"
            return beside if os.access(beside, os.X_OK) else os.path.realpath(found)
    raise UserError(
        "Chromium's headless shell is not installed: install the package chromium-headless-shell of your distribution "
        "(a Chromium with windows cannot be used)"
    )


class TargetOwner(Protocol):
    """A context of the browser, which takes in its pages."""

    def attached(self, session: str, target: dict[str, Any], *, is_waiting: bool) -> None:
        """Takes in a new page, which waits until it is told to go on."""
        ...

    def detached(self, session: str) -> None:
        """Takes note that a page is gone."""
        ...


class Chromium:
    """A browser. `start` makes one; `close` ends it.

    Attributes:
        connection: Connection to it.
        isolation: Sandbox in which it runs.
        version: Its name and version.
    """

    def __init__(self, workspace: Workspace, connection: CdpConnection, process: asyncio.Task[ExecResult]) -> None:
        self.connection = connection
        self.isolation: Isolation = workspace.isolation
        self.version = ""
        self.owners: dict[str, TargetOwner] = {}
        """Takers of new pages, by the id of their context."""
        self._workspace = workspace
        self._process = process

    @classmethod
    async def start(cls, backend: Backend) -> Chromium:
        """Starts a browser in a new sandbox of a backend.

        Raises:
            UserError: Chromium's headless shell is not installed, or the backend cannot connect pipes to a command.
            EnvironmentFailure: The sandbox or the browser could not be started.
        """
        program = find_program()
        workspace = await backend.open(WorkspaceSpec(limits=LIMITS, hostname="browser", workdir="/tmp"))
        try:
            browser = await cls._launch(workspace, program)
        except BaseException:
            await workspace.close()
            raise
        return browser

    @classmethod
    async def _launch(cls, workspace: Workspace, program: str) -> Chromium:
        if not isinstance(workspace, PipedExec):
            raise UserError("The sandbox that works here cannot run a browser: use namespaces or bubblewrap")
        command_read, command_write = os.pipe()
        answer_read, answer_write = os.pipe()
        argv = ["/bin/sh", "-c", _PIPES, program, *FLAGS]
        env = {"HOME": "/tmp", "TZ": "UTC", "LC_ALL": "C.UTF-8"}
        process = asyncio.ensure_future(
            workspace.exec_piped(argv, command_read, answer_write, cwd="/tmp", env=env, show_bytes=2_000)
        )
        connection = CdpConnection(answer_read, command_write)
        try:
            await connection.open()
            browser = cls(workspace, connection, process)
            await browser._greet(command_read, answer_write)
        except BaseException:
            connection.close()
            process.cancel()
            raise
        return browser

    async def _greet(self, *own_ends: int) -> None:
        """Waits for the first answer, and closes our copies of the browser's ends of the pipes."""
        version = asyncio.ensure_future(self.connection.call("Browser.getVersion", timeout_s=START_S))
        try:
            await asyncio.wait([version, self._process], return_when=asyncio.FIRST_COMPLETED)
        finally:
            version.cancel()  # does nothing to one that is done
            for descriptor in own_ends:
                os.close(descriptor)
        if not version.done() or version.exception() is not None:
            raise EnvironmentFailure(f"Chromium could not be started: {await self._last_words()}")
        self.version = str(version.result().get("product", ""))
        self.connection.listen("", self._on_event)
        # Every new page waits until its context has taken it in, so that none makes a request unobserved.
        await self.call("Target.setAutoAttach", autoAttach=True, waitForDebuggerOnStart=True, flatten=True)

    async def _last_words(self) -> str:
        """Returns what the process wrote before it ended."""
        done, _ = await asyncio.wait([self._process], timeout=1.0)
        if not done:
            return f"it did not answer within {START_S:.0f} s"
        if self._process.cancelled() or self._process.exception() is not None:
            return "its sandbox ended"
        result = self._process.result()
        return f"exit code {result.exit_code}: {result.stderr[-800:].strip()}"

    def _on_event(self, method: str, params: dict[str, Any]) -> None:
        target = params.get("targetInfo") or {}
        if method == "Target.attachedToTarget":
            owner = self.owners.get(str(target.get("browserContextId")))
            if owner is not None:
                owner.attached(str(params.get("sessionId")), target, is_waiting=bool(params.get("waitingForDebugger")))
            elif params.get("waitingForDebugger"):
                self.connection.send("Target.closeTarget", targetId=target.get("targetId"))
        elif method == "Target.detachedFromTarget":
            for owner in tuple(self.owners.values()):
                owner.detached(str(params.get("sessionId")))

    @property
    def is_open(self) -> bool:
        """True while the browser answers."""
        return not self.connection.failure and not self._process.done()

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Runs a command of the browser itself. Raises as `CdpConnection.call`."""
        return await self.connection.call(method, **params)

    async def close(self) -> None:
        """Kills the browser and deletes its sandbox. Idempotent."""
        self.connection.close()
        try:
            await self._workspace.close()
        finally:
            if not self._process.done():
                self._process.cancel()
            await asyncio.wait([self._process])
            if not self._process.cancelled():
                self._process.exception()  # that the sandbox was closed under it is no warning
