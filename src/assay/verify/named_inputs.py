"""A control run that shows which files a test script names without any byte that the agent or its programs wrote.

The same script runs once more in a fresh sandbox on the image. Each judged program and each declared output is replaced
by one random number, so every name in a command of this run follows from the task alone. A file that the script lent to
a judged program is confirmed where this run names the same path. The comparison fails for the random number, so `exit`,
`break`, `return` and `set -e` do nothing in bash here (in `sh`, the first three): a script that stops at its first
wrong case names them all.

Names that `mktemp` and Python's `tempfile` draw differ in each run: `lent_files` compares them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import posixpath
import secrets
from collections.abc import Iterable
from typing import Any

import msgspec

from assay.environments.interface import Workspace, WorkspaceSpec
from assay.errors import AssayError
from assay.verify.judged_programs import ProgramRead, decode_request, named_paths, write_stand_ins
from assay.verify.lent_files import LentFiles
from assay.verify.script_requests import ScriptRequests

__all__ = ["control_spec", "find_unconfirmed"]

SHELL_FILE = "/run/verifier/control.bash"
SHELL_CODE = b"""\
shopt -s expand_aliases
alias exit=: break=: return=:
trap 'set +e' DEBUG
set -T
"""
DASH_CODE = 'alias exit=: break=: return=:; . "$0"'
MOST_COMMANDS = 2000


def control_spec(script: WorkspaceSpec) -> WorkspaceSpec:
    """Returns the spec of the control run's sandbox: the script's, with a start-up file for bash."""
    return msgspec.structs.replace(script, env={**script.env, "BASH_ENV": SHELL_FILE})


async def find_unconfirmed(
    workspace: Workspace,
    argv: Iterable[str],
    lent: LentFiles,
    *,
    programs: tuple[str, ...],
    outputs: tuple[str, ...],
    timeout_s: float,
) -> tuple[str, ...]:
    """Runs the script in a fresh sandbox of `control_spec`; returns the paths of lent files that it does not name.

    The run ends as soon as it has named them all. A run that fails confirms what it has named.
    """
    control = _NameRecorder(workspace, lent, outputs)
    with contextlib.suppress(AssayError, OSError):
        await workspace.write(SHELL_FILE, SHELL_CODE)
        await write_stand_ins(workspace, programs)
        await control.write_outputs()
        async with ScriptRequests(workspace, control).serving():
            run = asyncio.ensure_future(workspace.exec(_control_command([*argv]), timeout_s=timeout_s))
            done = asyncio.ensure_future(control.done.wait())
            try:
                await asyncio.wait({run, done}, return_when=asyncio.FIRST_COMPLETED)
                control.ended = run.done() and not run.result().timed_out
                await workspace.kill_all()
            finally:
                for task in (run, done):
                    task.cancel()
                await asyncio.gather(run, done, return_exceptions=True)
    return control.unconfirmed()


def _control_command(argv: list[str]) -> list[str]:
    """Returns the command of the control run; other shells than bash read no start-up file."""
    is_sh = len(argv) == 2 and posixpath.basename(argv[0]) in ("sh", "dash")
    return [argv[0], "-c", DASH_CODE, argv[1]] if is_sh else argv


class _NameRecorder:
    """Answers `assay-judge` with a number, and records what its commands name."""

    def __init__(self, script: Workspace, lent: LentFiles, outputs: tuple[str, ...]) -> None:
        self._script, self._lent, self._outputs = script, lent, outputs
        self._files = LentFiles(script)
        self._has_temporary = lent.has_temporary()
        self._number = f"{secrets.randbelow(10**12):012}\n".encode()
        self._commands = 0
        self.done = asyncio.Event()
        self.ended = False
        """The script came to its end, and names no more files."""

    def unconfirmed(self) -> tuple[str, ...]:
        """Returns the paths that no command has named."""
        return tuple(sorted(self._lent.paths() - self._lent.confirmed_by(self._files, ended=self.ended)))

    async def write_outputs(self) -> None:
        """Writes the number at the path of each declared output."""
        for path in self._outputs:
            await self._script.write(path, self._number, mode=0o644)

    async def answer(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Answers one request as `ProgramStarter` says."""
        try:
            request = decode_request(message, fds)
            if not isinstance(request, ProgramRead):
                self._commands += 1
                paths = named_paths(request.argv, request.cwd, self._script.spec.workdir)
                await self._add({*paths, request.stdin} - {""}, request.argv)
                await self.write_outputs()
            await asyncio.to_thread(os.write, fds[1], self._number)
        except (AssayError, OSError, ValueError) as exc:
            return {"error": str(exc)[:1000] or type(exc).__name__}
        return {"exit": 0}

    async def _add(self, paths: set[str], argv: tuple[str, ...]) -> None:
        await self._files.add(paths, argv)
        if self._has_temporary:
            await self._files.note_neighbours(self._lent.paths())
        confirmed = self._lent.confirmed_by(self._files, ended=False)
        if confirmed == self._lent.paths() or self._commands >= MOST_COMMANDS:
            self.done.set()
