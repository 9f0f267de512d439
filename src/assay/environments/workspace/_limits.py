"""Chooses how requested limits are enforced and describes the result for the isolation record."""

from __future__ import annotations

from pathlib import Path

import msgspec

from assay.environments.interface import ResourceLimits, WorkspaceSpec
from assay.environments.workspace._launch import LauncherFacts
from assay.records import Hold, Isolation, LimitHold

MIB = 1024 * 1024
WATCHDOG_S = 0.2
_WHOLE_ROOT = "whole-root image: its agent may change system programs, which a verifier in a fork would then run"


class Budget(msgspec.Struct, frozen=True):
    """Enforcement of one sandbox's limits."""

    memory_group: int | None
    """Memory limit of the cgroup, in bytes."""
    memory_watch: int | None
    """Memory limit of the watchdog, in bytes, without a cgroup."""
    cpus: float | None
    disk: int | None
    """Size of the writable layer's tmpfs in bytes; None for a layer on disk."""
    disk_watch: int | None


def memory_available() -> int:
    """Returns the bytes that the kernel estimates to be available without swapping."""
    with Path("/proc/meminfo").open(encoding="ascii") as lines:
        for line in lines:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 0


def choose_budget(limits: ResourceLimits, facts: LauncherFacts, *, prefer_disk: bool) -> Budget:
    """Returns the strongest available enforcement of each limit."""
    memory = limits.memory_mib * MIB if limits.memory_mib is not None else None
    grouped = "memory" in facts.controllers
    disk = limits.disk_mib * MIB if limits.disk_mib is not None else None
    in_memory = facts.tmpfs_layers and disk is not None and not prefer_disk and disk <= memory_available() // 2
    return Budget(
        memory_group=memory if grouped else None,
        memory_watch=None if grouped else memory,
        cpus=limits.cpus if "cpu" in facts.controllers else None,
        disk=disk if in_memory else None,
        disk_watch=None if in_memory else disk,
    )


def process_limits(limits: ResourceLimits, budget: Budget) -> dict[str, int]:
    """Returns the resource limits of every process in the sandbox. NPROC counts within its own user namespace."""
    limits_by_name = {
        "NPROC": limits.processes + 1 if limits.processes is not None else None,
        "NOFILE": limits.open_files,
        "FSIZE": limits.file_mib * MIB if limits.file_mib is not None else None,
        "DATA": budget.memory_watch,
        "CORE": 0,
        "MEMLOCK": 64 * 1024,
        "MSGQUEUE": 819_200,
    }
    return {name: value for name, value in limits_by_name.items() if value is not None}


def limit_shares(counted: dict[str, int], sandboxes: int) -> dict[str, int]:
    """Returns the share of one sandbox in each counted limit: an equal part of a quarter, at least one. A sandbox has
    one namespace of each kind, and its filter prevents it from creating more."""
    return {
        name: 1 if name.endswith("_namespaces") else max(1, limit // 4 // sandboxes) for name, limit in counted.items()
    }


def sandbox_capacity(counted: dict[str, int], shares: dict[str, int]) -> int | None:
    """Returns the number of sandboxes for which three quarters of the host's limits suffice; None for unlimited."""
    return min((max(1, (limit - limit // 4) // shares[name]) for name, limit in counted.items()), default=None)


def describe_isolation(spec: WorkspaceSpec, budget: Budget, facts: LauncherFacts) -> Isolation:
    """Returns the isolation record: each limit and its enforcement."""
    limits = spec.limits
    watchdog = f"watchdog {WATCHDOG_S * 1000:.0f} ms"
    rows: list[LimitHold] = []

    def add_row(name: str, value: float | None, unit: str, hold: Hold, by: str) -> None:
        if value is not None:
            rows.append(LimitHold(name, hold, float(value), unit, by))

    group = f"cgroup v{facts.cgroup}"
    if budget.memory_group is not None:
        add_row("memory", limits.memory_mib, "MiB", "hard", group)
    else:
        add_row("memory", limits.memory_mib, "MiB", "soft", f"{watchdog}; RLIMIT_DATA for each process")
    add_row("processes", limits.processes, "", "hard", "RLIMIT_NPROC in its user namespace")
    add_row("cpu", limits.cpus, "cores", "hard" if budget.cpus else "none", group if budget.cpus else "")
    if budget.disk is not None:
        add_row("disk", limits.disk_mib, "MiB", "hard", "tmpfs size and inodes")
    else:
        add_row("disk", limits.disk_mib, "MiB", "soft", watchdog)
    add_row("tmp", limits.tmp_mib, "MiB", "hard", "tmpfs size and inodes")
    add_row("file_size", limits.file_mib, "MiB", "hard", "RLIMIT_FSIZE")
    add_row("open_files", limits.open_files, "", "hard", "RLIMIT_NOFILE")
    rows.append(LimitHold("wall_time", "hard", None, "s", "given with each exec; everything is killed"))
    add_row("output", limits.output_mib, "MiB", "hard", "the reader stops the command")
    return Isolation(
        name="namespaces",
        limits=tuple(rows),
        network="none" if spec.network == "none" else "host",
        users="separate" if facts.separate_users else "same",
        notes=(*spec.notes, _WHOLE_ROOT) if spec.image.root else spec.notes,
    )
