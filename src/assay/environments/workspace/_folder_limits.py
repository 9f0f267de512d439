"""Limits of sandboxes over plain folders: rlimits and tmpfs sizes, and a watchdog for sums."""

from __future__ import annotations

from assay.environments.interface import ResourceLimits
from assay.environments.workspace._watch import DISK_EVERY, WATCH_S
from assay.records import LimitHold

MIB = 1024 * 1024


def folder_rlimits(limits: ResourceLimits) -> dict[str, int]:
    """Returns the limits of every process; NPROC counts within the sandbox's own user namespace."""
    limits_by_name = {
        "NPROC": limits.processes + 1 if limits.processes is not None else None,
        "NOFILE": limits.open_files,
        "FSIZE": limits.file_mib * MIB if limits.file_mib is not None else None,
        "DATA": limits.memory_mib * MIB if limits.memory_mib is not None else None,
        "CORE": 0,
        "MEMLOCK": 64 * 1024,
    }
    return {name: value for name, value in limits_by_name.items() if value is not None}


def folder_limits(limits: ResourceLimits) -> tuple[LimitHold, ...]:
    """Returns the limits for the isolation record."""
    watchdog = f"watchdog {WATCH_S * 1000:.0f} ms"
    rows = [
        LimitHold("memory", "soft", limits.memory_mib, "MiB", f"{watchdog}; RLIMIT_DATA for each process"),
        LimitHold("processes", "hard", limits.processes, "", "RLIMIT_NPROC in its user namespace"),
        LimitHold("cpu", "none", limits.cpus, "cores"),
        LimitHold("disk", "soft", limits.disk_mib, "MiB", f"watchdog {DISK_EVERY * WATCH_S * 1000:.0f} ms"),
        LimitHold("tmp", "hard", limits.tmp_mib, "MiB", "tmpfs size"),
        LimitHold("file_size", "hard", limits.file_mib, "MiB", "RLIMIT_FSIZE"),
        LimitHold("open_files", "hard", limits.open_files, "", "RLIMIT_NOFILE"),
    ]
    reported = tuple(add_row for add_row in rows if add_row.value is not None)
    wall = LimitHold("wall_time", "hard", None, "s", "given with each exec; all processes are killed")
    return (*reported, wall, LimitHold("output", "hard", limits.output_mib, "MiB", "the reader stops the command"))
