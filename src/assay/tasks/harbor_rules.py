"""Rules of `task.toml` that its types cannot say: names, hosts, paths, and fields that exclude each other.

Also turns deprecated keys into present ones. Not for: files (`folder`). Pure: takes records, returns misfits.
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from assay.validation_messages import describe_value

from .harbor_config import (
    SCHEMA_VERSIONS,
    Artifact,
    EnvironmentTable,
    HarborAgentTable,
    HarborTask,
    McpServer,
    StepTable,
    VerifierTable,
)
from .shape import Misfit

_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]*/[a-zA-Z0-9][a-zA-Z0-9._-]*")
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_SERVICE = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]*")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TEMPLATE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*(?::-)?\}")
_SECRET = re.compile(r"KEY|SECRET|TOKEN(?!S)|PASSWORD|CREDENTIAL|AUTH|COOKIE", re.IGNORECASE)
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([GMK])\s*", re.IGNORECASE)
_DEVICE = re.compile(r"(?:CON|PRN|AUX|NUL|CONIN\$|CONOUT\$|(?:COM|LPT)[1-9¹²³])", re.IGNORECASE)
_MEGABYTES = {"G": 1024.0, "M": 1.0, "K": 1 / 1024}
Found = Iterator[Misfit]


def upgrade_deprecated(data: dict[str, Any]) -> tuple[dict[str, Any], list[Misfit], list[Misfit]]:
    """Returns a copy with deprecated keys replaced, then warnings, then errors."""
    data = dict(data)
    warnings: list[Misfit] = []
    errors: list[Misfit] = []
    if "version" in data:
        version = data.pop("version")
        data.setdefault("schema_version", version)
        warnings.append(Misfit("version", "is deprecated", 'write schema_version = "1.4"'))
    for at, holder in _environments(data):
        holder["environment"] = _upgrade_table(holder["environment"], at, warnings, errors)
    return data, warnings, errors


def _environments(data: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields every table that holds an `environment` table, copied in place, with the latter's path."""
    if isinstance(data.get("environment"), dict):
        yield "environment", data
    if isinstance(data.get("verifier"), dict):
        data["verifier"] = dict(data["verifier"])
        if isinstance(data["verifier"].get("environment"), dict):
            yield "verifier.environment", data["verifier"]
    if isinstance(data.get("steps"), list):
        data["steps"] = [dict(step) if isinstance(step, dict) else step for step in data["steps"]]
        for index, step in enumerate(data["steps"]):
            if isinstance(step, dict) and isinstance(step.get("verifier"), dict):
                step["verifier"] = dict(step["verifier"])
                if isinstance(step["verifier"].get("environment"), dict):
                    yield f"steps[{index}].verifier.environment", step["verifier"]


def _upgrade_table(
    environment: dict[str, Any], at: str, warnings: list[Misfit], errors: list[Misfit]
) -> dict[str, Any]:
    table = dict(environment)
    if "allow_internet" in table:
        allowed = table.pop("allow_internet")
        mode = "public" if allowed is True else "no-network"
        warnings.append(Misfit(f"{at}.allow_internet", "is deprecated", f'write network_mode = "{mode}"'))
        if not isinstance(allowed, bool):
            errors.append(
                Misfit(f"{at}.allow_internet", f"expected true or false, got {describe_value(allowed)}", "remove it")
            )
        elif "network_mode" not in table and "allowed_hosts" not in table:
            table["network_mode"] = mode
    for old, new in (("memory", "memory_mb"), ("storage", "storage_mb")):
        if old not in table:
            continue
        size = _megabytes(value := table.pop(old))
        if size is None:
            message = f"expected a size such as '2G' or '512M', got {describe_value(value)}"
            errors.append(Misfit(f"{at}.{old}", message, f"write {new} = 2048"))
            continue
        warnings.append(Misfit(f"{at}.{old}", "is deprecated", f"write {new} = {size}"))
        if table.setdefault(new, size) != size:
            message = f"says {size} MB where {new} says {describe_value(table[new])}"
            errors.append(Misfit(f"{at}.{old}", message, f"keep {new} and remove {old}"))
    return table


def _megabytes(value: object) -> int | None:
    found = _SIZE.fullmatch(value) if isinstance(value, str) and len(value) < 40 else None
    size = int(float(found[1]) * _MEGABYTES[found[2].upper()]) if found else 0
    return size if size > 0 else None


def check_rules(task: HarborTask) -> Found:
    """Yields every broken rule."""
    yield from _version(task.schema_version)
    if task.task is not None and (not _NAME.fullmatch(task.task.name) or ".." in task.task.name):
        message = (
            f"expected org/name of letters, digits, dots, hyphens and underscores, got {describe_value(task.task.name)}"
        )
        yield Misfit("task.name", message, 'write for example name = "local/my-task"')
    yield from _environment(task.environment, "environment")
    yield from _phase(task.agent, "agent")
    yield from _verifier(task.verifier, "verifier")
    yield from _names(task.solution.env, "solution.env")
    yield from _artifacts(task.artifacts, "artifacts")
    yield from _steps(task)


def _version(version: str) -> Found:
    if version in SCHEMA_VERSIONS:
        return
    newest = SCHEMA_VERSIONS[-1]
    if re.fullmatch(r"\d{1,6}\.\d{1,6}", version) and tuple(map(int, version.split("."))) > (1, 4):
        message = f"is {version}, newer than what is read here ({SCHEMA_VERSIONS[0]} to {newest})"
        yield Misfit("schema_version", message, f'update Assay, or write the task as schema_version = "{newest}"')
    else:
        message = f"expected one of {', '.join(SCHEMA_VERSIONS)}, got {describe_value(version)}"
        yield Misfit("schema_version", message, f'write schema_version = "{newest}"')


def _steps(task: HarborTask) -> Found:
    if task.multi_step_reward_strategy is not None and not task.steps:
        message = "is set in a task without steps"
        yield Misfit("multi_step_reward_strategy", message, "remove it, or add [[steps]]")
    names: dict[str, str] = {}
    for index, step in enumerate(task.steps):
        at = f"steps[{index}]"
        if not is_step_name(step.name):
            message = f"expected a plain folder name, got {describe_value(step.name)}"
            yield Misfit(f"{at}.name", message, "use letters, digits, hyphens and underscores")
        key = unicodedata.normalize("NFC", step.name).casefold()
        if key in names:
            message = f"is {step.name!r}, the name of another step ({names[key]!r})"
            yield Misfit(f"{at}.name", message, "give every step its own name; case does not count")
        names.setdefault(key, step.name)
        yield from _step(step, at)


def _step(step: StepTable, at: str) -> Found:
    yield from _phase(step.agent, f"{at}.agent")
    yield from _verifier(step.verifier, f"{at}.verifier")
    yield from _artifacts(step.artifacts, f"{at}.artifacts")


def is_step_name(name: str) -> bool:
    """Returns whether it is a portable folder name."""
    stem = name.partition(".")[0].rstrip(" ")
    bad = name in (".", "..") or name.endswith((".", " ")) or re.search(r'[<>:"/\\|?*\x00-\x1f\x7f]', name)
    return bool(name.strip()) and not bad and not _DEVICE.fullmatch(stem) and len(name.encode()) <= 255


def _verifier(table: VerifierTable, at: str) -> Found:
    yield from _phase(table, at)
    yield from _names(table.env, f"{at}.env")
    for index, collect in enumerate(table.collect):
        yield from _service(collect.service, f"{at}.collect[{index}].service")
    if table.environment is None:
        return
    if table.environment_mode == "shared":
        message = f"is 'shared' although [{at}.environment] is given"
        yield Misfit(f"{at}.environment_mode", message, f"write 'separate', or remove [{at}.environment]")
    yield from _environment(table.environment, f"{at}.environment")


def _environment(table: EnvironmentTable, at: str) -> Found:
    yield from _phase(table, at)
    yield from _names(table.env, f"{at}.env")
    if table.os == "windows":
        yield Misfit(f"{at}.os", "is 'windows': only Linux tasks run here", "run this task with Harbor itself")
    if table.tpu is not None and not re.fullmatch(r"[1-9]\d*(?:x[1-9]\d*)+", table.tpu.topology.strip()):
        message = f"expected dimensions joined by x, got {describe_value(table.tpu.topology)}"
        yield Misfit(f"{at}.tpu.topology", message, 'write for example topology = "2x2x1"')
    for key in ("workdir", "skills_dir"):
        value = getattr(table, key)
        if value is not None and (value[:1] != "/" or "\0" in value or ".." in PurePosixPath(value).parts):
            message = f"expected an absolute path without '..', got {describe_value(value)}"
            yield Misfit(f"{at}.{key}", message, f'write for example {key} = "/workspace"')
    seen: set[str] = set()
    for index, server in enumerate(table.mcp_servers):
        if server.name in seen:
            yield Misfit(f"{at}.mcp_servers[{index}].name", f"{server.name!r} is used twice", "give each its own name")
        seen.add(server.name)
        yield from _mcp(server, f"{at}.mcp_servers[{index}]")


def _phase(table: HarborAgentTable | VerifierTable | EnvironmentTable, at: str) -> Found:
    """Yields misfits of network fields and of the user, which every phase has."""
    hosts = table.allowed_hosts
    if hosts is not None and table.network_mode != "allowlist":
        message = "is given although network_mode is not 'allowlist'"
        yield Misfit(f"{at}.allowed_hosts", message, 'write network_mode = "allowlist", or remove allowed_hosts')
    for index, host in enumerate(hosts or ()):
        if not _is_host(host):
            expected = "a host name, *.name, an address or a network such as 192.0.2.0/24"
            message = f"expected {expected}, got {describe_value(host)}"
            yield Misfit(f"{at}.allowed_hosts[{index}]", message, "leave out scheme, port and path")
    user = getattr(table, "user", None)
    if isinstance(user, str) and not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,63}", user):
        message = f"expected a user name or number, got {describe_value(user)}"
        yield Misfit(f"{at}.user", message, 'write for example user = "agent" or user = 1000')


def _is_host(host: str) -> bool:
    host = host.strip().lower().rstrip(".")
    if "%" in host:
        return False
    if "/" in host or ":" in host:
        return _is_network(host)
    name = host.removeprefix("*.")
    if name != host and _is_network(name):
        return False
    return all(_LABEL.fullmatch(label) for label in name.split("."))


def _is_network(host: str) -> bool:
    try:
        ipaddress.ip_network(host, strict=True)
    except ValueError:
        return False
    return True


def _names(env: dict[str, str], at: str) -> Found:
    for name, value in env.items():
        if not _VARIABLE.fullmatch(name):
            message = f"{describe_value(name)} is not a valid environment variable name"
            yield Misfit(at, message, "use letters, digits and underscores, no digit first")
        if "\0" in value:
            yield Misfit(f"{at}.{name}", "holds a NUL character", "remove it")


def _mcp(server: McpServer, at: str) -> Found:
    needed = "command" if server.transport == "stdio" else "url"
    if not getattr(server, needed):
        message = f"is required for transport {server.transport!r} and missing"
        yield Misfit(f"{at}.{needed}", message, f'add {needed} = "...", or change transport')
    if server.transport == "stdio" and server.headers:
        yield Misfit(f"{at}.headers", "is only for HTTP transports", "remove headers, or change transport")
    for name, value in server.headers.items():
        if not _HEADER.fullmatch(name) or "\r" in value or "\n" in value:
            message = f"{describe_value(name)} is not a valid HTTP header, or its value has a line break"
            yield Misfit(f"{at}.headers", message, "write one header a key")
        elif _SECRET.search(name) and re.sub(r"^[A-Za-z]+\s+", "", _TEMPLATE.sub("", value)).strip(" :-"):
            message = "holds a credential in the open"
            yield Misfit(f"{at}.headers.{name}", message, 'refer to a variable, as in "Bearer ${TOKEN}"')


def _service(service: str | None, at: str) -> Found:
    if service is not None and not _SERVICE.fullmatch(service.strip()):
        message = f"expected a service name, got {describe_value(service)}"
        yield Misfit(at, message, "use letters, digits, hyphens, dots and underscores")
    elif service is not None and service.strip() != "main":
        message = f"is {service!r}: there is one service here, 'main'"
        yield Misfit(at, message, "collect from 'main', or run this task with Harbor itself")


def _artifacts(entries: tuple[str | Artifact, ...], at: str) -> Found:
    for index, entry in enumerate(entries):
        where = f"{at}[{index}]"
        artifact = Artifact(entry) if isinstance(entry, str) else entry
        source = where if isinstance(entry, str) else f"{where}.source"
        if not artifact.source or ".." in PurePosixPath(artifact.source).parts or "\0" in artifact.source:
            message = f"expected a path inside without '..', got {describe_value(artifact.source)}"
            yield Misfit(source, message, 'write for example "/workspace/out.txt"')
        if artifact.destination:
            yield from _destination(artifact.destination, f"{where}.destination")
        yield from _service(artifact.service, f"{where}.service")


def _destination(path: str, at: str) -> Found:
    parts = PurePosixPath(path).parts
    if path.startswith("/") or "\\" in path or "\0" in path or ".." in parts or not parts:
        message = f"expected a relative path without '..' or backslash, got {describe_value(path)}"
        yield Misfit(at, message, 'write for example destination = "out/result.json"')
    elif path.rstrip("/") == "manifest.json":
        yield Misfit(at, "is 'manifest.json', which the collection itself writes", "choose another name")
