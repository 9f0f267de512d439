"""Processes of a sandbox, as seen by its init: listing, memory, and killing."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

PAGE = os.sysconf("SC_PAGE_SIZE")
SHOWN, COMMAND_BYTES, MOST_DESCRIPTORS = 512, 200, 4096


def _stat(pid: int) -> tuple[str, str, int] | None:
    """Returns name, state and parent of a process; None if it is gone. A process whose first thread has ended is a
    zombie (`Z`) only once the others have."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as handle:
            text = handle.read().decode(errors="replace")
    except OSError:
        return None
    head, _, tail = text.rpartition(")")
    fields = tail.split()
    state = "S" if fields[0] in "ZX" and int(fields[17]) > 1 else fields[0]
    return head.partition("(")[2], state, int(fields[1])


def others() -> dict[int, tuple[str, str, int]]:
    """Returns every other process: all in the PID namespace, or all descendants if the namespace is shared."""
    own = os.getpid()
    processes = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != own:
            status = _stat(int(name))
            if status is not None:
                processes[int(name)] = status
    if own == 1:
        return processes
    family = {own}
    changed = True
    while changed:
        added = {pid for pid, (_, _, parent) in processes.items() if parent in family} - family
        family |= added
        changed = bool(added)
    return {pid: status for pid, status in processes.items() if pid in family}


def table() -> list[dict[str, Any]]:
    """Returns at most `SHOWN` processes, with shortened command lines."""
    rows = []
    for pid, (name, state, parent) in sorted(others().items())[:SHOWN]:
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as handle:
                line = handle.read(COMMAND_BYTES).replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            line = ""
        rows.append({"pid": pid, "parent": parent, "state": state, "command": line or f"[{name}]"})
    return rows


def _unmapped(pid: int, counted: set[tuple[int, int]], remaining: int) -> tuple[int, int]:
    """Returns the bytes of a process's open, uncounted memory files, and the remaining number of descriptors."""
    total = 0
    try:
        names = os.listdir(f"/proc/{pid}/fd")[:remaining]
    except OSError:
        return 0, remaining
    for name in names:
        try:
            if os.readlink(f"/proc/{pid}/fd/{name}").startswith("/memfd:"):
                status = os.stat(f"/proc/{pid}/fd/{name}")
                if (status.st_dev, status.st_ino) not in counted:
                    counted.add((status.st_dev, status.st_ino))
                    total += status.st_blocks * 512
        except OSError:
            continue
    return total, remaining - len(names)


def memory() -> int:
    """Returns the resident bytes of all other processes and of their open memory files, unless these are hidden. Shared
    memory counts once for each process."""
    total, remaining = 0, MOST_DESCRIPTORS
    counted: set[tuple[int, int]] = set()
    for pid in others():
        file_bytes, remaining = _unmapped(pid, counted, remaining)
        total += file_bytes
        try:
            with open(f"/proc/{pid}/statm", "rb") as handle:
                total += int(handle.read().split()[1]) * PAGE
        except (OSError, IndexError):
            continue
    return total


def alive() -> frozenset[int]:
    """Returns the ids of every process in the PID namespace, including zombies."""
    return frozenset(int(name) for name in os.listdir("/proc") if name.isdigit())


def kill_since(before: frozenset[int], spared: frozenset[int], passes: int = 200) -> int:
    """Kills the processes started since `before`, regardless of session, group or parent.

    Spared are the processes of `before` and `spared` and their children. If processes multiply faster than they can be
    distinguished, everything is killed. Returns the number of remaining processes.
    """
    for _ in range(passes):
        processes = others()
        spared_pids = (before | spared) & processes.keys()
        changed = True
        while changed:
            added = {pid for pid, (_, _, parent) in processes.items() if parent in spared_pids} - spared_pids
            spared_pids |= added
            changed = bool(added)
        victims = [pid for pid, (_, state, _) in processes.items() if pid not in spared_pids and state not in "ZX"]
        if not victims:
            return 0
        for pid in victims:
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
        time.sleep(0.001)
    return kill_all()


def kill_all(limit_s: float = 5.0) -> int:
    """Kills every other process until none is alive; returns the number still alive (0, unless the kernel is stuck)."""
    end = time.monotonic() + limit_s
    while True:
        if os.getpid() == 1:
            try:
                os.kill(-1, signal.SIGKILL)
            except ProcessLookupError:
                return 0
        alive = [pid for pid, (_, state, _) in others().items() if state not in "ZX"]
        if not alive:
            return 0
        if os.getpid() != 1:
            for pid in alive:
                try:
                    os.kill(pid, signal.SIGKILL)
                except (ProcessLookupError, PermissionError):
                    continue
        if time.monotonic() > end:
            return len(alive)
        time.sleep(0.001)
