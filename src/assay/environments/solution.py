"""A task's reference solution: its folder on the host and its command inside a sandbox."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from assay.records import Oracle

SOLUTION = "/solution"
"""Folder of the solution inside the sandbox."""


def find_solution_folder(oracle: Oracle, task_folder: Path | None) -> Path | None:
    """Returns the folder of the solution on the host; None if the task's folder has none."""
    name = oracle.folder or "solution"
    if task_folder is None or ".." in Path(name).parts or not (task_folder / name).is_dir():
        return None
    return task_folder / name


def solution_command(oracle: Oracle, solution: Path | None) -> list[str]:
    """Returns the words of the solution's command; those that name files of its folder on the host, `solution`, are
    paths below `SOLUTION`."""
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
