"""Converts a task's environment parameters to the specification of its sandbox.

The keys mirror the `[environment]` table of a task folder, with additional ones. An unknown key, a negative limit or a
network that was not allowed is a `UserError` that names the key or the flag. Keys that a sandbox does not use itself
(`healthcheck`, `mcp_servers`, `skills_dir`) are only checked for their shape here.

Not covered: no local backend can enforce a list of allowed hosts. A task that asks for one is refused, unless the whole
network was explicitly accepted; then the isolation record states what was open.
"""

from __future__ import annotations

import posixpath
from typing import Annotated, Any, Literal

import msgspec

from assay.environments.interface import Image, ResourceLimits, WorkspaceSpec
from assay.environments.workspace.toolchain import HOME, ToolLayer
from assay.errors import UserError

_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_NOTE_LIST = "the task asks for a list of allowed hosts, which nothing held: the whole network was open"
_Count = Annotated[int, msgspec.Meta(ge=1)]
_Amount = Annotated[float, msgspec.Meta(gt=0)]


class WorkspaceParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of an environment of the kind `workspace`. Sizes are in MiB; an absent limit is the default."""

    folder: str | None = None
    """Relative folder that contains the image's Dockerfile."""
    docker_image: str | None = None
    """Name of an image instead; local backends need a base that it is mapped to."""
    workdir: str | None = None
    """Working directory of commands; default the image's."""
    cpus: _Amount | None = None
    memory_mb: _Count | None = None
    storage_mb: _Count | None = None
    """Everything written outside /tmp and /dev/shm."""
    network_mode: Literal["no-network", "public", "allowlist"] = "no-network"
    allowed_hosts: tuple[str, ...] = ()
    env: dict[str, str] = {}
    """Variables; templates are resolved by the caller, and a remaining `${` is an error."""
    healthcheck: dict[str, Any] | None = None
    mcp_servers: tuple[dict[str, Any], ...] = ()
    skills_dir: str | None = None
    build_timeout_s: _Amount = 600.0
    processes: _Count | None = None
    file_mb: _Count | None = None
    """The largest single file."""
    open_files: _Count | None = None
    tmp_mb: _Count | None = None
    masks: tuple[str, ...] = ()
    """Paths replaced by empty files or folders."""
    layers: tuple[str, ...] = ()
    """Pinned requirements (`name==version`) of the task's code that the tool layer must contain."""


def workspace_parameters(parameters: dict[str, Any]) -> WorkspaceParameters:
    """Parses and checks the parameters; a null is an absent key. Raises `UserError` that names the key."""
    fields = WorkspaceParameters.__struct_fields__
    unknown = sorted(set(parameters) - set(fields))
    if unknown:
        raise UserError(f"environment: unknown key {unknown[0]!r}; the keys are {', '.join(fields)}")
    try:
        checked = msgspec.convert({k: v for k, v in parameters.items() if v is not None}, type=WorkspaceParameters)
    except msgspec.ValidationError as exc:
        raise UserError(f"environment: {exc}") from exc
    for path in (*checked.masks, *([checked.workdir] if checked.workdir else [])):
        if not path.startswith("/") or ".." in path.split("/") or "\0" in path:
            raise UserError(f"environment: {path!r} must be an absolute path inside the sandbox, without '..'")
    for name, value in checked.env.items():
        if not name or "=" in name or "\0" in name + value or "${" in value:
            raise UserError(
                f"environment: env {name!r} is not a plain name and value (a template must be resolved before)"
            )
    return checked


def workspace_spec(
    parameters: dict[str, Any],
    *,
    image: Image,
    toolchain: ToolLayer | None,
    user: Literal["agent", "verifier"] = "agent",
    allow_network: bool = False,
    accept_whole_network: bool = False,
) -> WorkspaceSpec:
    """Returns the specification of a task's sandbox; without a toolchain, nothing is mounted at `/opt/assay`.

    With `allow_network` the user allowed the task to use the network; with `accept_whole_network`, the whole one for a
    task that asks for a list of hosts.

    Raises:
        UserError: A parameter is wrong, the network is not allowed, or the tool layer lacks a package.
    """
    checked = workspace_parameters(parameters)
    network = _choose_network(checked, allow_network=allow_network, accept_whole_network=accept_whole_network)
    is_widened = checked.network_mode == "allowlist" and network == "host"
    _check_packages(checked, toolchain)
    return WorkspaceSpec(
        image=image,
        workdir=posixpath.normpath(checked.workdir or image.workdir),
        env=environment(image, checked.env, tools=toolchain is not None),
        limits=_resource_limits(checked),
        network=network,
        user=user,
        mounts=(toolchain.mount(),) if toolchain is not None else (),
        masks=checked.masks,
        notes=(_NOTE_LIST,) if is_widened else (),
    )


def _choose_network(
    checked: WorkspaceParameters, *, allow_network: bool, accept_whole_network: bool
) -> Literal["none", "host"]:
    is_allowlist = checked.network_mode == "allowlist"
    if checked.network_mode == "no-network" or (is_allowlist and not checked.allowed_hosts):
        return "none"
    if allow_network and (accept_whole_network or not is_allowlist):
        return "host"
    requested = f"some hosts alone ({', '.join(checked.allowed_hosts)[:200]})" if is_allowlist else "the public network"
    reason = "a local sandbox has the whole network or none" if is_allowlist else "it was not allowed"
    flags = "--allow-network --accept-whole-network" if is_allowlist else "--allow-network"
    raise UserError(
        f'environment: network_mode = "{checked.network_mode}": the task asks for {requested}, and {reason}: '
        f'give {flags} to run it with the whole network, or set network_mode = "no-network" in the task'
    )


def _check_packages(checked: WorkspaceParameters, toolchain: ToolLayer | None) -> None:
    installed = set(toolchain.packages) if toolchain is not None else set()
    missing = [pin for pin in checked.layers if _normalise_pin(pin) not in installed]
    if missing:
        raise UserError(
            f"environment: the tool layer lacks {', '.join(missing)}: run `assay setup` with this task's folder"
        )


def _normalise_pin(pin: str) -> str:
    """Returns a pin with its name as listed by the tool layer."""
    from packaging.utils import canonicalize_name

    name, _, version = pin.partition("==")
    return f"{canonicalize_name(name.partition('[')[0])}=={version}"


def environment(image: Image, added: dict[str, str], *, tools: bool) -> dict[str, str]:
    """Returns the variables of a sandbox on `image`, with the tool layer's programs on the PATH if it is mounted."""
    env = {**image.env, **added}
    path = env.get("PATH", _SYSTEM_PATH)
    if tools and f"{HOME}/bin" not in path.split(":"):
        # A whole root file system has its own tools, which take precedence over the host's Python.
        path = f"{path}:{HOME}/bin" if image.root else f"{HOME}/bin:{path}"
    return {**env, "PATH": path}


def _resource_limits(checked: WorkspaceParameters) -> ResourceLimits:
    requested = {
        "memory_mib": checked.memory_mb,
        "processes": checked.processes,
        "cpus": checked.cpus,
        "disk_mib": checked.storage_mb,
        "tmp_mib": checked.tmp_mb,
        "file_mib": checked.file_mb,
        "open_files": checked.open_files,
    }
    return msgspec.structs.replace(ResourceLimits(), **{k: v for k, v in requested.items() if v is not None})
