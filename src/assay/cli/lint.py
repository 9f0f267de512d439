"""`assay lint`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from assay.errors import UserError

from .output import console, emit_json
from .shared import JsonOption
from .tables import print_rows


def lint(
    folders: Annotated[list[Path], typer.Argument(help="Task folders, or folders of task folders.")],
    as_json: JsonOption = False,
) -> None:
    """Checks task folders and reports errors with their place and fix. Exits with 1 on an error.

    Examples:

      assay lint tasks/

      assay lint tasks/hello tasks/other --json
    """
    from assay.environments.workspace.images import find_build_problems
    from assay.tasks import lint_task

    looked_at = _task_folders(folders)
    found = [(folder, finding) for folder in looked_at for finding in lint_task(folder, find_build_problems)]
    if as_json:
        emit_json({"findings": [{"task": str(f), "finding": finding} for f, finding in found]})
    elif not found:
        console().print(f"{len(looked_at)} task{'s' * (len(looked_at) != 1)}, nothing wrong")
    else:
        print_rows([{"task": str(f), "finding": str(finding)} for f, finding in found])
    if any(finding.severity == "error" for _, finding in found):
        raise typer.Exit(1)


def _task_folders(paths: list[Path]) -> list[Path]:
    from assay.tasks.sources import names_family

    found: list[Path] = []
    for path in paths:
        if str(path).startswith("family:"):
            raise UserError(f"{path}: a family has no task folders to lint")
        if names_family(path):
            raise UserError(f"{path}: it names tasks of a family, which has no task folders to lint")
        inner = [] if (path / "task.toml").exists() else sorted(p.parent for p in path.glob("*/task.toml"))
        found += inner or [path]
    return found
