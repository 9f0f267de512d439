"""Turns what a folder says into `records.Task`.

Where Harbor's default is unsound, ours is the sound one, unless the task asks for the literal one by name (see
`assay_config`). Parameters are plain JSON data; keys without a value are left out, so that a reader uses `.get`.

`environment.parameters`: `folder` (`environment` where that has a Dockerfile), `docker_image`, `workdir`, `cpus`,
`memory_mb`, `storage_mb`, `gpus`, `gpu_types`, `tpu`, `env` (templates unresolved), `healthcheck`, `mcp_servers`,
`skills_dir`, `build_timeout_s`, `network_mode`, `network_stated` (the task itself stated it), `allowed_hosts`,
`agent_user`, `verifier_user`, `artifacts`, `collect`, `trajectory`, and of a task with steps `steps` (their names) and
`multi_step_reward_strategy`; from `[metadata.assay.environment]` `processes`, `file_mb`, `open_files`, `tmp_mb`,
`masks`, `requirements`, `masked_packages`, `backend`.

A `script` check's `parameters`: `script` (relative to the folder; absent where the verifier's image holds the tests),
`interpreter`, `timeout_s`, `env`, `mode` (`shared` or `separate`), `literal`, `user`, `network_mode`,
`network_stated`, `allowed_hosts`, `step`, and `environment` (the verifier's own, keys as above).
"""

from __future__ import annotations

import shlex
from typing import Any

import msgspec

from assay.records import Check, EnvironmentSpec, Limits, Oracle, Task

from .assay_config import AssayTable, CheckTable
from .folder import Tree
from .harbor_config import Artifact, EnvironmentTable, HarborAgentTable, HarborTask, StepTable, VerifierTable
from .parts import StepParts, TaskParts, verifier_of

VERIFIER_TIMEOUT_S = 600.0
WORKSPACE_KEYS = ("processes", "file_mb", "open_files", "tmp_mb", "masks", "requirements", "masked_packages", "backend")


def to_task(parts: TaskParts, config: HarborTask, digest: str) -> Task:
    """Returns the task. `parts` must hold no error."""
    assay = parts.assay
    package = config.task
    steps = dict(zip([s.name for s in config.steps], config.steps, strict=True))
    scripts = [script_check(parts, config, part, steps.get(part.name)) for part in parts.steps]
    checks = [_our_check(check, scripts[0]) for check in assay.checks] or scripts
    tags = (*(package.keywords if package else ()), *assay.tags)
    return Task(
        id=package.name if package else parts.tree.root.name,
        instruction=_instruction(parts),
        environment=EnvironmentSpec("workspace", _environment(parts, config), assay.environment.seed),
        checks=tuple(checks),
        digest=digest,
        limits=limits_of(config.agent, assay),
        oracle=_oracle(parts, config),
        split=assay.split,
        tags=tuple(dict.fromkeys(tags)),
        source=assay.source or config.source,
        metadata=config.metadata,
    )


def _our_check(table: CheckTable, script: Check) -> Check:
    """Returns a check of `[[metadata.assay.checks]]`; kind `script` takes missing parameters from the default."""
    given = table.parameters
    return Check(table.name, table.kind, {**script.parameters, **given} if table.kind == "script" else given)


def _oracle(parts: TaskParts, config: HarborTask) -> Oracle | None:
    """Returns the reference solution; for a task with steps, all of theirs in order, run from `steps/`."""
    if not config.steps:
        return oracle_of(parts.tree, parts.steps[0].solution, config)
    commands = []
    for step in parts.steps:
        if step.solution is None or not step.solution.startswith("steps/"):
            return None
        path = f"{step.solution}/solve.sh"
        commands.append(shlex.join([*interpreter(parts.tree, path), f"/solution/{path.removeprefix('steps/')}"]))
    return Oracle(("/bin/sh", "-c", " && ".join(commands)), "steps", dict(config.solution.env))


def _instruction(parts: TaskParts) -> str:
    """Returns the instruction; for a task with steps, all of them in order."""
    if len(parts.steps) == 1:
        return parts.steps[0].instruction
    count = len(parts.steps)
    return "\n\n".join(f"Step {n} of {count}\n\n{s.instruction.strip()}" for n, s in enumerate(parts.steps, start=1))


def limits_of(agent: HarborAgentTable, assay: AssayTable) -> Limits:
    """Returns the limits of an attempt, or of a step's share of it."""
    return Limits(wall_s=agent.timeout_sec, **msgspec.structs.asdict(assay.limits))


def oracle_of(tree: Tree, folder: str | None, config: HarborTask) -> Oracle | None:
    """Returns the reference solution, run from `folder` by the interpreter that the script names."""
    if folder is None:
        return None
    return Oracle((*interpreter(tree, f"{folder}/solve.sh"), "solve.sh"), folder, dict(config.solution.env))


def interpreter(tree: Tree, path: str) -> tuple[str, ...]:
    """Returns the interpreter in a script's first line; `/bin/sh` without one."""
    with (tree.root / path).open("rb") as file:
        first = file.readline(256)
    if not first.startswith(b"#!"):
        return ("/bin/sh",)
    words = first[2:].decode(errors="replace").split(maxsplit=1)
    return tuple(word.strip() for word in words) or ("/bin/sh",)


def _set(**values: object) -> dict[str, Any]:
    """Returns the named values without None, as plain JSON data."""
    plain = {key: msgspec.json.decode(msgspec.json.encode(value)) for key, value in values.items()}
    return {key: value for key, value in plain.items() if value not in (None, [], {})}


def network_of(
    phase: HarborAgentTable | VerifierTable | EnvironmentTable, environment: EnvironmentTable, assay: AssayTable
) -> dict[str, Any]:
    """Returns `network_mode`, `network_stated` and `allowed_hosts` of a phase: its own, its environment's, or the
    default."""
    stated = phase if phase.network_mode is not None else environment
    unstated = "public" if "network" in assay.harbor_literal else "no-network"
    return {
        "network_mode": stated.network_mode or unstated,
        "network_stated": stated.network_mode is not None,
        "allowed_hosts": list(stated.allowed_hosts or ()),
    }


def _environment_keys(table: EnvironmentTable, folder: str | None) -> dict[str, Any]:
    return _set(
        folder=folder,
        docker_image=table.docker_image,
        workdir=table.workdir,
        cpus=table.cpus,
        memory_mb=table.memory_mb,
        storage_mb=table.storage_mb,
        gpus=table.gpus,
        gpu_types=table.gpu_types,
        tpu=table.tpu,
        env=table.env,
        healthcheck=_whole(table.healthcheck),
        mcp_servers=[_whole(server) for server in table.mcp_servers],
        skills_dir=table.skills_dir,
        build_timeout_s=table.build_timeout_sec,
    )


def _whole(record: msgspec.Struct | None) -> dict[str, Any] | None:
    return None if record is None else msgspec.to_builtins(msgspec.structs.asdict(record))


def _environment(parts: TaskParts, config: HarborTask) -> dict[str, Any]:
    ours = parts.assay.environment
    folder = "environment" if parts.tree.has_file("environment/Dockerfile") else None
    return {
        **_environment_keys(config.environment, folder),
        **network_of(config.agent, config.environment, parts.assay),
        **_set(
            agent_user=config.agent.user,
            verifier_user=config.verifier.user,
            artifacts=artifacts_of(config.artifacts),
            collect=[_whole(collect) for collect in config.verifier.collect],
            trajectory=parts.steps[0].trajectory if not config.steps else None,
            steps=[s.name for s in config.steps],
            multi_step_reward_strategy=(config.multi_step_reward_strategy or "mean") if config.steps else None,
        ),
        **_set(**{key: getattr(ours, key) for key in WORKSPACE_KEYS}),
    }


def artifacts_of(entries: tuple[str | Artifact, ...]) -> list[dict[str, Any]]:
    """Returns artifacts as tables of `source` and, where given, `destination`, `exclude`, `service`."""
    return [_set(source=e) if isinstance(e, str) else _set(**msgspec.structs.asdict(e)) for e in entries]


def script_check(parts: TaskParts, config: HarborTask, part: StepParts, step: StepTable | None) -> Check:
    """Returns Harbor's check: a test script and its reward file; a step's settings override the task's."""
    mode, environment = verifier_of(config, step)
    whole = config.verifier
    own = step.verifier if step else whole
    phase = own if own.network_mode is not None else whole
    tests = part.tests
    parameters = {
        **_set(
            script=f"{tests}/test.sh" if tests else None,
            interpreter=interpreter(parts.tree, f"{tests}/test.sh") if tests else None,
            step=part.name or None,
            user=own.user if own.user is not None else whole.user,
            environment=_verifier_environment(parts, environment, part),
        ),
        "timeout_s": own.timeout_sec or whole.timeout_sec or VERIFIER_TIMEOUT_S,
        "env": {**whole.env, **own.env},
        "mode": mode,
        "literal": "verifier" in parts.assay.harbor_literal,
        **network_of(phase, environment or config.environment, parts.assay),
    }
    return Check(f"tests/{part.name}" if part.name else "tests", "script", parameters)


def _verifier_environment(
    parts: TaskParts, environment: EnvironmentTable | None, part: StepParts
) -> dict[str, Any] | None:
    folders = [f"steps/{part.name}/tests", "tests"] if part.name else ["tests"]
    built = next((f for f in folders if parts.tree.has_file(f"{f}/Dockerfile")), None)
    if environment is None and built is None:
        return None
    return _environment_keys(environment or EnvironmentTable(), built)
