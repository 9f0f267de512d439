"""Resolves environment templates of a task, `${VAR}` and `${VAR:-default}`, from given variables.

As in Harbor, a template is the whole value; in a header it may be a part. The caller decides which variables a task may
read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from assay.errors import UserError
from assay.records import Check, Task

_TEMPLATE = re.compile(r"\$\{([^}:]+)(?::-(.*))?\}", re.DOTALL)


def resolve_env(
    env: Mapping[str, str], variables: Mapping[str, str], *, where: str = "environment.env"
) -> dict[str, str]:
    """Returns a task's environment with its templates resolved by variables of the host; errors name the table `where`.

    Raises:
        UserError: A variable is not given and has no default; all such variables are named.
    """
    resolved: dict[str, str] = {}
    missing: list[str] = []
    for key, value in env.items():
        template = _TEMPLATE.fullmatch(value)
        if template is None:
            resolved[key] = value
        elif template[1] in variables:
            resolved[key] = variables[template[1]]
        elif template[2] is not None:
            resolved[key] = template[2]
        else:
            missing.append(f"{template[1]} (for {where}.{key})")
    if missing:
        first = missing[0].partition(" ")[0]
        raise UserError(
            f"the task needs variables that are not set: {', '.join(missing)}; set them before the run, or give the "
            f'task a default, as in "${{{first}:-value}}"'
        )
    return resolved


def resolve_headers(headers: Mapping[str, str], variables: Mapping[str, str], *, where: str) -> dict[str, str]:
    """Returns headers with the templates in them resolved, as in `Bearer ${TOKEN}`. Raises as `resolve_env`."""

    def fill(found: re.Match[str]) -> str:
        return resolve_env({"value": found[0]}, variables, where=where)["value"]

    return {name: _TEMPLATE.sub(fill, value) for name, value in headers.items()}


def resolve_task(task: Task, variables: Mapping[str, str]) -> Task:
    """Returns the task with the templates of environment, checks and oracle resolved; never store it.

    Raises:
        UserError: As `resolve_env`.
    """
    parameters = task.environment.parameters
    environment = (
        {**parameters, "env": resolve_env(parameters["env"], variables)} if "env" in parameters else parameters
    )
    oracle = task.oracle
    if oracle is not None:
        filled = resolve_env(oracle.env, variables, where="solution.env")
        oracle = msgspec.structs.replace(oracle, env=filled)
    return msgspec.structs.replace(
        task,
        environment=msgspec.structs.replace(task.environment, parameters=environment),
        checks=tuple(_resolve_check(check, variables) for check in task.checks),
        oracle=oracle,
    )


def _resolve_check(check: Check, variables: Mapping[str, str]) -> Check:
    env = check.parameters.get("env")
    if not isinstance(env, dict):
        return check
    filled = resolve_env({k: str(v) for k, v in env.items()}, variables, where="verifier.env")
    return msgspec.structs.replace(check, parameters={**check.parameters, "env": filled})
