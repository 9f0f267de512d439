"""The agent that runs the task's own reference solution: a sound verifier passes it.

It is the only agent that is given the solution. It does not judge: whether the solution solves is the verifier's word.
"""

from __future__ import annotations

from assay.environments.hooks import SolvesItself
from assay.environments.interface import Workspace
from assay.environments.solution import SOLUTION, solution_command
from assay.errors import TaskError
from assay.records import Oracle

from .interface import Attempt

__all__ = ["OracleAgent"]


class OracleAgent:
    """Uploads the solution to `/solution` and runs the oracle's command, with its variables, in the working folder.
    The variables are not recorded: they may be secrets that the run was given by name. In an in-process world that
    knows its own solution it makes those calls, one a step.

    An argument of the command that names a file of the solution folder is given as its path under `/solution`.
    """

    name = "oracle"
    needs_model = False
    takes_solution = True
    attempts_task = False

    async def run(self, attempt: Attempt) -> None:
        """See `Agent.run`.

        Raises:
            TaskError: The task has no reference solution, or nowhere to run it.
        """
        if attempt.workspace is None and isinstance(attempt.tools, SolvesItself):
            await _play(attempt, attempt.tools)
            return
        oracle, workspace = _required(attempt)
        if attempt.solution is not None:
            await workspace.upload(attempt.solution, SOLUTION)
        argv = solution_command(oracle, attempt.solution)
        result = await attempt.shell(argv, message="run the reference solution", env=oracle.env)
        if result.exit_code == 0:
            attempt.finish("ran the reference solution")
        else:
            attempt.finish(f"the reference solution ended with exit code {result.exit_code}")


async def _play(attempt: Attempt, world: SolvesItself) -> None:
    calls = tuple(world.oracle())
    if not calls:
        message = f"task {attempt.task.id!r}: its world knows no way to solve it from its first state"
        raise TaskError(message)
    for call in calls:
        await attempt.act([call])
        if attempt.ended is not None:
            break
    if attempt.ended is None:
        attempt.finish("played the world's own solution")


def _required(attempt: Attempt) -> tuple[Oracle, Workspace]:
    oracle, task = attempt.task.oracle, attempt.task
    if oracle is None or not oracle.command:
        message = f"task {task.id!r} has no reference solution: add solution/solve.sh, or run another agent"
        raise TaskError(message)
    if attempt.workspace is None:
        message = f"task {task.id!r}: the environment {task.environment.kind!r} has no shell to run a solution in"
        raise TaskError(message)
    if oracle.folder is not None and attempt.solution is None:
        message = f"task {task.id!r}: its solution folder {oracle.folder!r} is not there"
        raise TaskError(message)
    return oracle, attempt.workspace
