"""Digests of tasks that families make: the same in every folder, also where a file of Python code is named by its path.

A task may name its world, its services and its checks as `path/file.py:Class`. Digests, and the seeds that are derived
from them, cover the content of such a file in place of its path; the task itself keeps the path, by which the code is
loaded. Not covered: modules that the file imports.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from assay.plugins import path_in
from assay.records import Check, EnvironmentSpec, Message, Task, digest_bytes, digest_record


def digest_task(instruction: str | tuple[Message, ...], environment: EnvironmentSpec, checks: Sequence[Check]) -> str:
    """Returns the digest of a task without files of its own, from everything that defines it."""
    return digest_record([instruction, _name_environment(environment), [*map(name_by_content, checks)]])


def digest_by_path(task: Task) -> str:
    """Returns the digest of such a task with files of code by their paths, as older stores have it."""
    return digest_record([task.instruction, task.environment, task.checks])


def digest_code(environment: EnvironmentSpec, checks: Iterable[Check]) -> dict[str, str]:
    """Returns the digests of the files of code that an environment and checks name, by name; without files that cannot
    be read."""
    services = environment.parameters.get("services")
    named = [("environments", environment.kind), *(("checks", check.kind) for check in checks)]
    named += [("services", str(name)) for name in services] if isinstance(services, list | tuple) else []
    found = {name: _content_name(kind, name) for kind, name in named}
    return {name: content for name, content in found.items() if content != name}


def name_by_content(check: Check) -> Check:
    """Returns a check with the digest of its file of code in place of the path, to be digested and not to be run."""
    return replace(check, kind=_content_name("checks", check.kind))


def digest_check(check: Check) -> str:
    """Returns the digest that names a check as the verifier of a verdict: the same in every folder."""
    return digest_record(name_by_content(check))


def name_task_by_content(task: Task) -> Task:
    """Returns a task with digests in place of the paths of its code, to be digested and not to be run."""
    checks = tuple(map(name_by_content, task.checks))
    return replace(task, environment=_name_environment(task.environment), checks=checks)


def _name_environment(environment: EnvironmentSpec) -> EnvironmentSpec:
    parameters: dict[str, Any] = environment.parameters
    services = parameters.get("services")
    if isinstance(services, list | tuple):
        parameters = {**parameters, "services": [_content_name("services", str(name)) for name in services]}
    return replace(environment, kind=_content_name("environments", environment.kind), parameters=parameters)


def _content_name(kind: str, name: str) -> str:
    """Returns a plugin's name with the digest of the file in place of its path. The name of a file that cannot be read
    stays as it is: nothing is loaded from it either."""
    file = path_in(kind, name)
    if file is None or not file[0].is_file():
        return name
    try:
        return f"{digest_bytes(file[0].read_bytes())}:{file[1]}"
    except OSError:
        return name
