"""Runs a test script once more over what the reference solution leaves, to compare what its judged programs print.

Text that a judged program prints can act on the script: a shell may evaluate it as arithmetic or code, a file may be
lent whose name is made of it, a Python program may unpack or load it. Which scripts do so cannot be told from their
text. Where the script could read byte for byte what it reads of the reference solution's programs, no such text came
from the agent.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import msgspec

from assay.environments.interface import Snapshot
from assay.environments.solution import SOLUTION, solution_command
from assay.errors import EnvironmentFailure, TaskError, VerifierError
from assay.records import Oracle
from assay.verify.interface import CheckInput
from assay.verify.sanitise import opened
from assay.verify.transcript import Transcript

__all__ = ["find_reference_difference"]

SOLUTION_S = 600.0
"""Seconds that the solution may take, where the task has no limit of its own."""


async def find_reference_difference(
    given: CheckInput, transcript: Transcript, run: Callable[[CheckInput, Transcript], Awaitable[None]]
) -> str:
    """Returns how a transcript differs from the reference solution's, or why that is not known; else an empty text.

    Args:
        given: The check's input, whose state is the agent's.
        transcript: What the script could read over that state.
        run: Runs the script over the state of another input and fills another transcript.
    """
    if not transcript.readings:
        return ""
    reference = Transcript(expected=transcript)
    try:
        async with _solved_state(given) as state:
            await run(given._replace(state=state, changes=()), reference)
    except (EnvironmentFailure, OSError, TaskError, ValueError, VerifierError) as exc:
        return f"what the script reads is not compared with the reference solution's: {str(exc)[:300]}"
    return transcript.find_difference(reference)


@contextlib.asynccontextmanager
async def _solved_state(given: CheckInput) -> AsyncIterator[Snapshot]:
    """Gives the state that the reference solution leaves in the agent's sandbox. Raises `TaskError` without one."""
    oracle, limit_s = given.task.oracle, given.task.limits.wall_s or SOLUTION_S
    if oracle is None or not oracle.command:
        message = "the task has no reference solution"
        raise TaskError(message)
    folder = _solution_folder(given, oracle)
    spec = msgspec.structs.replace(given.spec, tmpfs=tuple(dict.fromkeys((*given.spec.tmpfs, SOLUTION))))
    async with opened(given.backend, spec) as workspace:
        if folder is not None:
            await workspace.upload(folder, SOLUTION)
        result = await workspace.exec(solution_command(oracle, folder), env=oracle.env, timeout_s=limit_s)
        if result.exit_code != 0 or result.timed_out:
            ended = "met its time limit" if result.timed_out else f"ended with exit code {result.exit_code}"
            message = f"the reference solution {ended}"
            raise TaskError(message)
        await workspace.kill_all()
        state = await workspace.snapshot()
    try:
        yield state
    finally:
        await given.backend.release(state)


def _solution_folder(given: CheckInput, oracle: Oracle) -> Path | None:
    """Returns the solution's folder on the host; None for a solution that needs none."""
    name = oracle.folder or "solution"
    if given.folder is not None and ".." not in Path(name).parts and (given.folder / name).is_dir():
        return given.folder / name
    if oracle.folder is None:
        return None
    message = f"the task's solution folder {name!r} is not there"
    raise TaskError(message)
