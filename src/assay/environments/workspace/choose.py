"""Chooses a sandbox by trying it: each property is tested for real, in a live sandbox, before the first attempt.

Invariant: nothing weaker is ever taken silently. Without a name only `namespaces` and `bubblewrap` are tried, in that
order; a sandbox that fails one property is not used; no isolation at all needs both its name (or that nothing else
works) and the flag.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from assay.environments.interface import Backend
from assay.environments.workspace.toolchain import ToolLayer, find_layer
from assay.environments.workspace.trial import Trial, try_backend
from assay.errors import UserError
from assay.records import LimitHold
from assay.settings import Settings

__all__ = ["BackendReport", "choose_backend", "survey"]

_ORDER = ("namespaces", "bubblewrap")
_UNSAFE = ("process", "none")
_ALL = ("namespaces", "bubblewrap", "podman", "docker", "process")
# Where it has one of these values, a kernel setting forbids what the backend needs.
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
    """What trying a backend found. `str()` of it is sentences for a person."""

    name: str
    works: bool
    """Whether it can be used: everything that it promises held."""
    reason: str | None = None
    """Why it cannot be used."""
    properties: dict[str, bool] = {}
    """What was tried, in words, and whether it held."""
    limits: tuple[LimitHold, ...] = ()
    users: str = "same"
    advice: tuple[str, ...] = ()
    """How to get it to work, or to a better tier."""

    def __str__(self) -> str:
        """One line on whether it works, one each for limits and advice."""
        failed = [name for name, held in self.properties.items() if not held]
        if self.name == "process":
            head = "process: no isolation at all; for trusted tasks only, with --backend process --allow-unsafe."
        elif self.works:
            head = f"{self.name}: works; {len(self.properties)} properties were tried and held."
        else:
            head = f"{self.name}: cannot be used: {self.reason or 'not held: ' + '; '.join(failed)}."
        lines = [head]
        if self.works:
            for hold in ("hard", "soft", "none"):
                named = [limit.name for limit in self.limits if limit.hold == hold]
                if named:
                    lines.append(f"  {_HOLDS[hold]}: {', '.join(named)}.")
            if self.name != "process":
                lines.append(f"  Agent and verifier are {self.users} users.")
        return "\n".join([*lines, *(f"  {text}" for text in self.advice)])


_HOLDS = {"hard": "Held by the kernel", "soft": "Held by a watchdog", "none": "Not held"}


async def choose_backend(
    name: str | None = None, *, allow_unsafe: bool = False, cache: Path | None = None
) -> tuple[Backend, BackendReport]:
    """The backend to use, tried, and what trying it found. The caller closes it.

    Args:
        name: Which one; None is the best that works here.
        allow_unsafe: Whether running without any isolation was allowed.
        cache: Where the tool layer is; default the settings'.

    Raises:
        UserError: None works, the named one does not, or it needs the flag; the message says why and what to do.
    """
    if name in _UNSAFE:
        if not allow_unsafe:
            message = (
                f"the backend {name!r} isolates nothing: tasks and agents could do whatever you can. "
                "Add --allow-unsafe if you trust them, or leave out --backend"
            )
            raise UserError(message)
        return await _opened("process", cache)
    reports = []
    for candidate in _ORDER if name is None else (name,):
        backend, report = await _opened(candidate, cache)
        if report.works:
            return backend, report
        await backend.close()
        reports.append(report)
    if name is None and allow_unsafe:
        return await _opened("process", cache)
    raise UserError(_none_works(name, reports))


async def survey(cache: Path | None = None) -> tuple[BackendReport, ...]:
    """Tries every backend of this package."""
    reports = []
    for name in _ALL:
        backend, report = await _opened(name, cache)
        await backend.close()
        reports.append(report)
    return tuple(reports)


def _none_works(name: str | None, reports: list[BackendReport]) -> str:
    told = "\n".join(str(report) for report in reports)
    if name is not None:
        return f"the backend {name!r} does not work here.\n{told}\nLeave out --backend for the best one that does."
    return (
        f"no sandbox works here.\n{told}\n"
        "Other ways: --backend podman or --backend docker where such an engine runs; or, for trusted tasks alone, "
        "--backend process --allow-unsafe (no isolation). `assay doctor` shows all."
    )


async def _opened(name: str, cache: Path | None) -> tuple[Backend, BackendReport]:
    backend = _made(name, cache or Settings.from_environment().cache)
    trial = await try_backend(backend, isolated=name != "process")
    works = trial.problem is None and (name == "process" or all(trial.held.values()))
    report = BackendReport(
        name=name,
        works=works,
        reason=trial.problem,
        properties=trial.held,
        limits=trial.isolation.limits if trial.isolation is not None else (),
        users=trial.isolation.users if trial.isolation is not None else "same",
        advice=_advice(name, trial),
    )
    return backend, report


def _made(name: str, cache: Path) -> Backend:
    from assay.environments.workspace.bubblewrap import BubblewrapBackend
    from assay.environments.workspace.engine import DockerBackend, PodmanBackend
    from assay.environments.workspace.namespaces import NamespacesBackend
    from assay.environments.workspace.process import ProcessBackend

    makers: dict[str, Callable[[], Backend]] = {
        "namespaces": NamespacesBackend,
        "bubblewrap": lambda: BubblewrapBackend(toolchain=_layer(cache)),
        "podman": lambda: PodmanBackend(toolchain=_layer(cache)),
        "docker": lambda: DockerBackend(toolchain=_layer(cache)),
        "process": ProcessBackend,
    }
    if name in makers:
        return makers[name]()
    from assay.plugins import load

    made = load("environments", name)()
    if not isinstance(made, Backend):
        message = f"the environment {name!r} is no sandbox backend; the backends are {', '.join(makers)}"
        raise UserError(message)
    return made


def _layer(cache: Path) -> ToolLayer | None:
    try:
        return find_layer(cache)
    except UserError:
        return None


def _advice(name: str, trial: Trial) -> tuple[str, ...]:
    found = []
    if trial.problem is not None and name in _ORDER:
        for setting, (value, remedy) in _SETTINGS.items():
            if _setting(setting) == value:
                found.append(f"The kernel setting {setting.replace('/', '.')} is {value}: {remedy}.")
    limits = trial.isolation.limits if trial.isolation is not None else ()
    soft = [limit.name for limit in limits if limit.hold == "soft"]
    if name == "namespaces" and "memory" in soft and os.geteuid() != 0:
        found.append(
            "For memory held by the kernel, start under a delegated cgroup: "
            "systemd-run --user --scope -p Delegate=yes assay ..."
        )
    if name == "namespaces" and "disk" in soft:
        found.append("For disk held by the kernel, a Linux 6.6 or newer is needed, or a smaller storage limit.")
    return tuple(found)


def _setting(name: str) -> str | None:
    try:
        return Path("/proc/sys", name).read_text(encoding="utf-8").strip()
    except OSError:
        return None
