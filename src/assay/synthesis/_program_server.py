"""Runs the planner's programs in a sandbox as forks of one process, `payload/program_server.py`.

A server lives as long as its sandbox is used by programs that end well. Whoever gets no reply runs the program as a
process of its own, in a fresh sandbox: the server only saves what starting a process costs.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from assay.environments.interface import ExecResult, PipedExec, Workspace
from assay.environments.payload import FORKED_TESTS
from assay.environments.pipe_end import PipeEnd
from assay.environments.workspace.toolchain import PYTHON
from assay.errors import EnvironmentFailure

SERVER = Path(__file__).with_name("payload") / "program_server.py"
SHARED = tuple(
    SERVER.with_name(f"{name}.py")
    for name in ("shared_session", "collected_files", "loaded_package", "versions_together", "bare_items")
)
SERVED_S = 24 * 3600.0
"""Limit of a server's life in wall seconds; each program has its own."""
CLOSING_S = 5.0
MAX_LINE = 64
Loaded = Literal["", "plain", "explain"]
"""How pytest is configured in the process that has imported the package; empty: the program imports it itself."""


class ProgramServer:
    """Process in one sandbox that runs programs; `start` makes one."""

    def __init__(self, workspace: PipedExec, folder: str, batch: Mapping[str, object], seed: int) -> None:
        self._folder = folder
        self._copied: set[str] = set()
        commands, self._commands = os.pipe2(os.O_CLOEXEC)
        answers, replies = os.pipe2(os.O_CLOEXEC)
        self._answers = PipeEnd(answers)
        self._reader = asyncio.StreamReader(limit=MAX_LINE)
        self._transport: asyncio.BaseTransport | None = None
        self._process = asyncio.create_task(self._serve(workspace, commands, replies, batch, seed))

    @classmethod
    async def start(
        cls, workspace: Workspace, folder: str, batch: Mapping[str, object], seed: int = 0
    ) -> ProgramServer | None:
        """Starts a server of a hash seed with its programs in `folder`; None where no pipes join the sandbox.

        `batch` names the `root`, `paths`, `seed` and modules to `preload`, as a `JobBatch` does, and all files of
        `tests`: the standard library of the modules is imported once, and so are they for programs that are loaded.
        """
        if not isinstance(workspace, PipedExec):
            return None
        for program in (SERVER, *SHARED, *FORKED_TESTS):
            await workspace.write(f"{folder}/{program.name}", program.read_bytes())
        server = cls(workspace, folder, batch, seed)
        server._copied.update(program.name for program in FORKED_TESTS)
        protocol = asyncio.StreamReaderProtocol(server._reader)
        server._transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, server._answers)
        return server

    async def run(
        self, workspace: Workspace, programs: Sequence[Path], paths: tuple[str, str], wall_s: float, loaded: Loaded = ""
    ) -> bool:
        """Runs the first of some programs on a request, which is written, and a reply; False if it did not end well.

        `loaded` lets it run where the package is imported.
        """
        for program in programs:
            if program.name not in self._copied:
                await workspace.write(f"{self._folder}/{program.name}", program.read_bytes())
                self._copied.add(program.name)
        line = msgspec.json.encode([programs[0].stem, *paths, loaded]) + b"\n"
        try:
            os.write(self._commands, line)
            async with asyncio.timeout(wall_s):
                return await self._reader.readuntil() == b"0\n"
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return False

    async def close(self) -> None:
        """Closes the pipes, which ends the process. One that does not end soon is killed with its sandbox."""
        if self._commands >= 0:
            os.close(self._commands)
            self._commands = -1
        # The kernel counts no CPU time of a process that dies with its sandbox.
        await asyncio.wait([self._process], timeout=CLOSING_S)
        self._process.cancel()
        with contextlib.suppress(asyncio.CancelledError, EnvironmentFailure):
            await self._process
        if self._transport is not None:
            self._transport.close()

    async def _serve(
        self, workspace: PipedExec, commands: int, replies: int, batch: Mapping[str, object], seed: int
    ) -> ExecResult:
        command = [PYTHON, f"{self._folder}/{SERVER.name}", msgspec.json.encode(batch).decode()]
        try:
            return await workspace.exec_piped(
                command, commands, replies, env={"PYTHONHASHSEED": str(seed)}, timeout_s=SERVED_S, show_bytes=0
            )
        finally:
            os.close(commands)
            os.close(replies)
