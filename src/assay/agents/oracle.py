"""Agent that runs the task's reference solution, and alone is given it; a sound verifier passes it."""

from __future__ import annotations

from assay.environments.hooks import SolvesItself
from assay.environments.interface import Workspace
from assay.environments.solution import SOLUTION, solution_command
from assay.environments.wrapping import TEMPORARY_FAILURE, WRAP
from assay.errors import TaskError
from assay.records import Oracle

from .expert import AdvisesActs
from .interface import Attempt

_MOST_TRIES = 21
"""Tries of a solution in a disturbed sandbox, which withholds at most 20 commands in a row."""


class OracleAgent:
    """Uploads the solution to `/solution` and runs the oracle's command, with its variables, in the working folder.

    The variables may be secrets and are not recorded. In an in-process world that knows its solution it makes those
    calls, one per step; in one that only knows the next act, it asks for each. A command argument that names a file of
    the solution folder becomes its path under `/solution`.
    """

    name = "oracle"
    needs_model = False
    takes_solution = True
    attempts_task = False

    async def run(self, attempt: Attempt) -> None:
        """Runs the reference solution. Raises `TaskError` without one, or without an environment to run it in."""
        if attempt.workspace is None and isinstance(attempt.tools, SolvesItself):
            await _play(attempt, attempt.tools)
            return
        if attempt.workspace is None and isinstance(attempt.tools, AdvisesActs):
            await _follow(attempt, attempt.tools)
            return
        oracle, workspace = _required(attempt)
        if attempt.solution is not None:
            await workspace.upload(attempt.solution, SOLUTION)
        argv = solution_command(oracle, attempt.solution)
        tries = _MOST_TRIES if attempt.task.environment.parameters.get(WRAP) else 1
        result = await attempt.shell(argv, message="run the reference solution", env=oracle.env)
        while result.exit_code == TEMPORARY_FAILURE and (tries := tries - 1):
            result = await attempt.shell(argv, message="run the reference solution", env=oracle.env)
        if result.exit_code == 0:
            attempt.finish("ran the reference solution")
        else:
            attempt.finish(f"the reference solution ended with exit code {result.exit_code}")


async def _play(attempt: Attempt, world: SolvesItself) -> None:
    calls = tuple(world.oracle())
    if not calls:
        raise TaskError(f"task {attempt.task.id!r}: its world offers no solution from the initial state")
    for call in calls:
        await attempt.act([call])
        if attempt.ended is not None:
            break
    if attempt.ended is None:
        attempt.finish("played the world's own solution")


async def _follow(attempt: Attempt, world: AdvisesActs) -> None:
    acts = 0
    while (call := world.advice()) is not None:
        await attempt.act([call])
        acts += 1
        if attempt.ended is not None:
            return
    if not acts:
        raise TaskError(f"task {attempt.task.id!r}: its world offers no solution from the initial state")
    attempt.finish("played the world's own solution")


def _required(attempt: Attempt) -> tuple[Oracle, Workspace]:
    oracle, task = attempt.task.oracle, attempt.task
    if oracle is None or not oracle.command:
        raise TaskError(f"task {task.id!r} has no reference solution: add solution/solve.sh, or run another agent")
    if attempt.workspace is None:
        raise TaskError(
            f"task {task.id!r}: the environment {task.environment.kind!r} has no shell to run a solution in"
        )
    if oracle.folder is not None and attempt.solution is None:
        raise TaskError(f"task {task.id!r}: its solution folder {oracle.folder!r} is not there")
    return oracle, attempt.workspace
