"""Runs a test script once more over the reference solution's final state, to compare the text of its judged programs.

Text that a judged program prints can act on the script: a shell may evaluate it as arithmetic or code, a file may be
lent whose name is made of it, a Python program may unpack or load it. The script's own text does not show whether it
does so. If the script could read the same bytes as of the reference solution's programs, no such text came from the
agent.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec

from assay.environments.interface import Snapshot
from assay.environments.solution import SOLUTION, find_solution_folder, solution_command
from assay.errors import EnvironmentFailure, TaskError, VerifierError
from assay.verify.interface import CheckInput
from assay.verify.sanitise import opened
from assay.verify.transcript import Transcript

SOLUTION_S = 600.0
"""Time limit of the solution in seconds, if the task has none."""


async def find_reference_difference(
    given: CheckInput, transcript: Transcript, run: Callable[[CheckInput, Transcript], Awaitable[None]]
) -> str:
    """Returns the first difference of a transcript from the reference solution's, or why it is unknown; empty if none.

    `run` runs the script over the state of another input and fills another transcript.
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
    """Yields the final state of the reference solution in the agent's sandbox. Raises `TaskError` without one."""
    oracle, limit_s = given.task.oracle, given.task.limits.wall_s or SOLUTION_S
    if oracle is None or not oracle.command:
        raise TaskError("the task has no reference solution")
    folder = find_solution_folder(oracle, given.folder)
    if folder is None and oracle.folder is not None:
        raise TaskError(f"the task's solution folder {oracle.folder!r} is not there")
    spec = msgspec.structs.replace(given.spec, tmpfs=tuple(dict.fromkeys((*given.spec.tmpfs, SOLUTION))))
    async with opened(given.backend, spec) as workspace:
        if folder is not None:
            await workspace.upload(folder, SOLUTION)
        result = await workspace.exec(solution_command(oracle, folder), env=oracle.env, timeout_s=limit_s)
        if result.exit_code != 0 or result.timed_out:
            ended = "met its time limit" if result.timed_out else f"ended with exit code {result.exit_code}"
            raise TaskError(f"the reference solution {ended}")
        await workspace.kill_all()
        state = await workspace.snapshot()
    try:
        yield state
    finally:
        await given.backend.release(state)
