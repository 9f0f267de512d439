"""The command of a task's reference solution inside a sandbox."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from assay.records import Oracle

__all__ = ["SOLUTION", "solution_command"]

SOLUTION = "/solution"
"""Folder of the solution inside the sandbox."""


def solution_command(oracle: Oracle, solution: Path | None) -> list[str]:
    """Returns the words of the solution's command; those that name files of its folder are paths below `SOLUTION`.

    Args:
        oracle: The reference solution, with a command.
        solution: Its folder on the host; None for a solution without one.
    """
    program, *arguments = oracle.command
    if solution is not None:
        arguments = [_inside(solution, argument) for argument in arguments]
        if not arguments or "/" in program:
            program = _inside(solution, program)
    return [program, *arguments]


def _inside(solution: Path, argument: str) -> str:
    path = PurePosixPath(argument)
    if not argument or path.is_absolute() or ".." in path.parts or not (solution / path).is_file():
        return argument
    return str(PurePosixPath(SOLUTION) / path)
