"""Chooses a sandbox by probing it: each property is tested in a live sandbox before the first attempt.

Invariant: no weaker backend is ever chosen silently. Without a name only `namespaces` and `bubblewrap` are probed, in
that order; a sandbox that fails one property is not used; running without isolation needs both its name (or that no
other backend works) and the flag.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from assay.environments.interface import Backend
from assay.environments.workspace.backend_probe import ProbeResult, probe_backend
from assay.environments.workspace.toolchain import ToolLayer, find_layer
from assay.errors import UserError
from assay.records import LimitHold
from assay.settings import Settings

_ORDER = ("namespaces", "bubblewrap")
_ENGINES = ("podman", "docker")
_UNSAFE = ("process", "none")
_ALL = ("namespaces", "bubblewrap", "podman", "docker", "process")
# With one of these values, a kernel setting forbids what the backend needs.
_SETTINGS = {
    "kernel/unprivileged_userns_clone": ("0", "sysctl kernel.unprivileged_userns_clone=1"),
    "user/max_user_namespaces": ("0", "sysctl user.max_user_namespaces=15000"),
    "kernel/apparmor_restrict_unprivileged_userns": (
        "1",
        "install the package `bubblewrap` and its AppArmor profile, or sysctl "
        "kernel.apparmor_restrict_unprivileged_userns=0",
    ),
}


class BackendReport(msgspec.Struct, frozen=True):
    """Result of probing a backend. `str()` returns it as text for people."""

    name: str
    works: bool
    """True if it can be used, because all properties that it claims held."""
    reason: str | None = None
    """Reason that it cannot be used."""
    properties: dict[str, bool] = {}
    """Description of each probed property to True if it held."""
    limits: tuple[LimitHold, ...] = ()
    users: str = "same"
    advice: tuple[str, ...] = ()
    """Suggestions to make it work, or to reach a better tier."""

    def __str__(self) -> str:
        """Returns result, meaning and advice, one line each."""
        lines = [self._summary()]
        if self.works:
            for hold, meaning in _LIMIT_STRENGTHS.items():
                named = [limit.name.replace("_", " ") for limit in self.limits if limit.hold == hold]
                if named:
                    lines.append(f"  {meaning}: {', '.join(named)}.")
            if self.name != "process":
                lines.append(f"  {_USERS['separate' if self.users == 'separate' else 'same']}")
        return "\n".join([*lines, *(f"  {text}" for text in self.advice)])

    def _summary(self) -> str:
        if self.name == "process":
            return (
                "process: no isolation: a task or an agent can do whatever you can. Only for trusted tasks and agents: "
                "--backend process --allow-unsafe."
            )
        if self.works:
            count = len(self.properties)
            return f"{self.name}: works. {count} {_PROPERTIES[count == 1]} tried in a live sandbox, and all held."
        if self.reason is not None:
            return f"{self.name}: cannot be used. Opening one said: {_end_sentence(self.reason)}"
        failed = "; ".join(name for name, passed in self.properties.items() if not passed)
        return f"{self.name}: must not be used. In a live sandbox this did not hold: {_end_sentence(failed)}"


_PROPERTIES = {True: "property was", False: "properties were"}
_LIMIT_STRENGTHS = {
    "hard": "Limits enforced by the kernel",
    "soft": "Limits enforced by a watchdog, which ends a process within a second after it exceeds one",
    "none": "Limits not enforced here, as records state",
}
_USERS = {
    "separate": "The verifier and the agent are different users, so permissions separate their files too.",
    "same": "The verifier is the same user as the agent: it judges a copy without live processes of the agent, but "
    "permissions do not separate them.",
}


def _end_sentence(text: str) -> str:
    bare = text.strip()
    return bare if bare.endswith((".", "?", "!")) else f"{bare}."


def choose_preferred(reports: Sequence[BackendReport]) -> str | None:
    """Returns the probed backend that a run uses by default; None if none works."""
    working = {report.name for report in reports if report.works}
    return next((name for name in _ORDER if name in working), None)


def require_backend(name: str) -> None:
    """Raises `PluginLoadError`, with the nearest names, where no backend has this name."""
    if name not in {*_ALL, *_UNSAFE}:
        from assay.plugins import load

        load("environments", name)


async def choose_backend(
    name: str | None = None, *, allow_unsafe: bool = False, cache: Path | None = None, sandboxes: int = 16
) -> tuple[Backend, BackendReport]:
    """Returns the probed backend to use, which the caller closes, and its report.

    Args:
        name: Name of the backend; None is the best that works here.
        allow_unsafe: Allow running without any isolation.
        cache: Cache folder with the tool layer; default the settings'.
        sandboxes: Approximate number of sandboxes open at once.

    Raises:
        UserError: No backend works, the named one does not, or it needs the flag; the message says why and what to do.
    """
    if name in _UNSAFE:
        if not allow_unsafe:
            raise UserError(
                f"the backend {name!r} provides no isolation: tasks and agents could do whatever you can. "
                "Add --allow-unsafe if you trust them, or leave out --backend"
            )
        return await _open_and_probe("process", cache)
    reports = []
    for candidate in _ORDER if name is None else (name,):
        backend, report = await _open_and_probe(candidate, cache, sandboxes)
        if report.works:
            return backend, report
        await backend.close()
        reports.append(report)
    if name is None and allow_unsafe:
        return await _open_and_probe("process", cache)
    raise UserError(_no_backend_message(name, reports))


async def probe_all_backends(cache: Path | None = None) -> tuple[BackendReport, ...]:
    reports = []
    for name in _ALL:
        backend, report = await _open_and_probe(name, cache)
        await backend.close()
        reports.append(report)
    return tuple(reports)


def _no_backend_message(name: str | None, reports: list[BackendReport]) -> str:
    reports_text = "\n".join(str(report) for report in reports)
    if name is not None:
        return (
            f"the backend {name!r} does not work here.\n{reports_text}\nLeave out --backend for the best one that does."
        )
    return (
        f"no sandbox works here.\n{reports_text}\n"
        "Alternatives: --backend podman or --backend docker if such an engine runs; or, only for trusted tasks, "
        "--backend process --allow-unsafe (no isolation). `assay doctor` shows all."
    )


async def _open_and_probe(name: str, cache: Path | None, sandboxes: int = 16) -> tuple[Backend, BackendReport]:
    backend = _open_backend(name, cache or Settings.from_environment().cache, sandboxes)
    probe = await probe_backend(backend, isolated=name != "process")
    works = probe.problem is None and (name == "process" or all(probe.passed.values()))
    report = BackendReport(
        name=name,
        works=works,
        reason=probe.problem,
        properties=probe.passed,
        limits=probe.isolation.limits if probe.isolation is not None else (),
        users=probe.isolation.users if probe.isolation is not None else "same",
        advice=_advice(name, probe),
    )
    return backend, report


def _open_backend(name: str, cache: Path, sandboxes: int) -> Backend:
    from assay.environments.workspace.bubblewrap import BubblewrapBackend
    from assay.environments.workspace.engine import DockerBackend, PodmanBackend
    from assay.environments.workspace.namespaces import NamespacesBackend
    from assay.environments.workspace.process import ProcessBackend

    factories: dict[str, Callable[[], Backend]] = {
        "namespaces": lambda: NamespacesBackend(sandboxes=sandboxes),
        "bubblewrap": lambda: BubblewrapBackend(toolchain=_find_tool_layer(cache)),
        "podman": lambda: PodmanBackend(toolchain=_find_tool_layer(cache)),
        "docker": lambda: DockerBackend(toolchain=_find_tool_layer(cache)),
        "process": ProcessBackend,
    }
    if name in factories:
        return factories[name]()
    from assay.plugins import load

    backend = load("environments", name)()
    if not isinstance(backend, Backend):
        raise UserError(f"the environment {name!r} is not a sandbox backend; the backends are {', '.join(factories)}")
    return backend


def _find_tool_layer(cache: Path) -> ToolLayer | None:
    try:
        return find_layer(cache)
    except UserError:
        return None


def _advice(name: str, probe: ProbeResult) -> tuple[str, ...]:
    advice = []
    if probe.problem is not None and name in _ORDER:
        for setting, (value, remedy) in _SETTINGS.items():
            if _read_setting(setting) == value:
                advice.append(
                    f"The kernel setting {setting.replace('/', '.')} is {value}, which forbids it to this user. "
                    f"To change that: {remedy}."
                )
    if probe.problem is not None and name in _ENGINES:
        advice.append(
            f"To use it, install {name} and make `{name} info` work for this user. It is not needed if namespaces "
            "or bubblewrap works."
        )
    elif probe.problem is None and not all(probe.passed.values()) and name != "process":
        advice.append("Use another sandbox: the failed properties protect this machine from agents.")
    limits = probe.isolation.limits if probe.isolation is not None else ()
    soft = [limit.name for limit in limits if limit.hold == "soft"]
    if name == "namespaces" and "memory" in soft and os.geteuid() != 0:
        advice.append(
            "To have the kernel enforce the memory limit, start Assay under a delegated cgroup: "
            "systemd-run --user --scope -p Delegate=yes assay ..."
        )
    if name == "namespaces" and "disk" in soft:
        advice.append(
            "To have the kernel enforce the disk limit, use Linux 6.6 or newer, or give tasks a smaller storage limit."
        )
    return tuple(advice)


def _read_setting(name: str) -> str | None:
    try:
        return Path("/proc/sys", name).read_text(encoding="utf-8").strip()
    except OSError:
        return None
