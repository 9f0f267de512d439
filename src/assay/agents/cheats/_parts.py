"""Shared operations of cheats: planting files, running scripts in the sandbox, leaving background processes.

The scripts are whole files in `payload`, for the standard library of Python 3.8 and later. Everything happens inside
the attempt's own sandbox, as the agent's user, and ends with the sandbox.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from assay.agents.interface import Attempt
from assay.environments.interface import ExecResult, Workspace
from assay.errors import UserError
from assay.records import canonical_bytes

from .interface import Knowledge

FOREGROUND_S = 20.0
"""Time limit of a script."""
MOST_ARGUMENT = 64 * 1024
"""Half of Linux's limit for one command argument."""
_PLACE = "/tmp/.given"
_FROM_FILES = (
    "import sys; sys.argv = [sys.argv[2], open(sys.argv[1]).read()]; "
    "exec(compile(open(sys.argv[0]).read(), sys.argv[0], 'exec'))"
)
_BEHIND = '"$@" > /dev/null 2>&1 < /dev/null & sleep 0.1'
_UNTIL_READY = """rm -f "$1"; ready=$1; shift
"$@" > /dev/null 2>&1 < /dev/null &
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do
    [ -e "$ready" ] && exit 0
    sleep 0.05
done
"""


@cache
def read_payload(name: str) -> str:
    return (Path(__file__).parent / "payload" / f"{name}.py").read_text(encoding="utf-8")


def workspace_of(attempt: Attempt) -> Workspace:
    """Returns the sandbox. Raises `UserError` if the task has none."""
    if attempt.workspace is None:
        kind = attempt.task.environment.kind
        raise UserError(f"task {attempt.task.id!r}: the environment {kind!r} has no sandbox to cheat in")
    return attempt.workspace


async def plant(
    attempt: Attempt,
    files: Mapping[str, str | bytes],
    *,
    message: str,
    mode: int = 0o644,
    like: Knowledge | None = None,
) -> tuple[str, ...]:
    """Writes files as the agent's user, and reports as a step which ones were written.

    Files that solving changes, as in `like`, get the mode that they then have.
    """
    workspace, planted = workspace_of(attempt), []
    modes = {file.path: file.mode & 0o777 for file in like.changed} if like is not None else {}
    for path, content in files.items():
        data = content.encode() if isinstance(content, str) else content
        try:
            await workspace.write(path, data, mode=modes.get(path, mode))
        except OSError:
            continue
        planted.append(path)
    attempt.say(f"{message}: {', '.join(planted) or 'nothing, no place was writable'}")
    return tuple(planted)


async def _argv(attempt: Attempt, name: str, arguments: Mapping[str, Any]) -> list[str]:
    """Returns the command of a script; one too long for an argument goes through files."""
    source, given = read_payload(name), canonical_bytes(arguments).decode()
    # Isolated: hooks that a cheat planted are for the verifier's interpreter, not for its own.
    if len(given.encode()) <= MOST_ARGUMENT:
        return ["python3", "-I", "-c", source, given]
    places = (f"{_PLACE}/{name}.json", f"{_PLACE}/{name}.py")
    for path, text in zip(places, (given, source), strict=True):
        await workspace_of(attempt).write(path, text.encode())
    return ["python3", "-I", "-c", _FROM_FILES, *places]


async def run_inside(attempt: Attempt, name: str, arguments: Mapping[str, Any], *, message: str) -> ExecResult:
    """Runs a script of `payload` to its end, with its arguments as JSON."""
    return await attempt.shell(await _argv(attempt, name, arguments), message=message, timeout_s=FOREGROUND_S)


async def start_background(attempt: Attempt, name: str, arguments: Mapping[str, Any], *, message: str) -> ExecResult:
    """Starts a script of `payload` that outlives the agent; returns once its file `ready` exists."""
    ready = f"{_PLACE}-{name}"
    argv = await _argv(attempt, name, {**arguments, "ready": ready})
    command = ["/bin/sh", "-c", _UNTIL_READY, "sh", ready, *argv]
    return await attempt.shell(command, message=message, timeout_s=FOREGROUND_S)


async def start_background_shell(attempt: Attempt, script: str, *, message: str) -> ExecResult:
    command = ["/bin/sh", "-c", _BEHIND, "sh", "/bin/sh", "-c", script]
    return await attempt.shell(command, message=message, timeout_s=FOREGROUND_S)
