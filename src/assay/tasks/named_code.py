"""Python code that a task names for its environment, its services or its checks, as `module:Class` or `file.py:Class`.

Such code runs in this process, outside every sandbox, so that a task of somebody else's runs it only by permission
(`--allow-task-code`). Installed plugins are named without it.
"""

from __future__ import annotations

from collections.abc import Iterable

from assay.errors import UserError
from assay.plugins import names_code

from .load import LoadedTask

FLAG = "--allow-task-code"


def find_code_of(loaded: LoadedTask) -> tuple[str, ...]:
    """Returns the names of code in a task and its steps, each once."""
    environment, checks = loaded.task.environment, (*loaded.task.checks, *(step.check for step in loaded.steps))
    named = [("checks", check.kind) for check in checks]
    if environment.kind != "workspace":
        services = environment.parameters.get("services", ())
        listed = services if isinstance(services, list | tuple) else ()
        named = [("environments", environment.kind), *(("services", str(name)) for name in listed), *named]
    return tuple(dict.fromkeys(name for kind, name in named if names_code(kind, name)))


def require_no_code_of_folders(tasks: Iterable[LoadedTask]) -> None:
    """Raises `UserError` if the file of a task folder names code. Tasks without a folder come from a family, whose code
    the user named."""
    for loaded in tasks:
        names = find_code_of(loaded) if loaded.folder is not None else ()
        if names:
            raise UserError(
                f"the task {loaded.task.id!r} names Python code, {', '.join(names)}, which runs in this process and "
                f"not in a sandbox: {FLAG} permits it"
            )
