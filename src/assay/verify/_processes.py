"""Counts the host's running and waiting threads by `/proc`, inside and outside the given sandboxes.

Agents influence these numbers only by the threads of their own sandboxes, which are identified by ancestry: a sandbox's
first process is the ancestor of every process in it, including orphans.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

FRESH_S = 0.4
"""A table that is younger serves every reader."""
MAX_SPENT = 20
"""A table serves for at least this many times as long as reading it took."""
MAX_THREADS = 512
"""Limit of the threads of one process that are read one by one."""
_KERNEL_THREAD = 0x00200000
_MAX_DEPTH = 200
_STAT_BYTES = 4096
"""More than a line of `/proc/PID/stat` has."""


class Threads(NamedTuple):
    """Counts of user-space threads at one time."""

    runnable: int
    """Outside the given sandboxes: those that run or wait for a processor."""
    waiting: int
    """Outside the given sandboxes: those that wait for a disk, or for memory to be read back."""
    own_runnable: int
    """Inside the given sandboxes."""


class _Process(NamedTuple):
    parent: int
    runnable: int
    waiting: int


class _Table:
    """Table of all processes, read again if the last reading is too old."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._proc: Path | None = None
        self._until = 0.0
        self._processes: dict[int, _Process] = {}

    def read(self, proc: Path) -> dict[int, _Process]:
        with self._lock:
            began = time.monotonic()
            if proc != self._proc or began > self._until:
                self._processes = _read_all(proc)
                ended = time.monotonic()
                self._proc, self._until = proc, ended + max(FRESH_S, MAX_SPENT * (ended - began))
            return self._processes


_TABLE = _Table()


def count_threads(proc: Path, sandboxes: Collection[int]) -> Threads:
    """Returns the threads that run or wait, without the caller; `sandboxes` are the first processes of those that are
    told apart. A process that lost its parent while the table was read is in none for sure, and is not counted."""
    processes = _TABLE.read(proc)
    runnable = waiting = own = 0
    for number, process in processes.items():
        if not process.runnable and not process.waiting:
            continue
        inside = _is_inside(number, processes, sandboxes)
        if inside:
            own += process.runnable
        elif inside is not None:
            runnable += process.runnable
            waiting += process.waiting
    return Threads(runnable, waiting, own)


def _is_inside(number: int, processes: dict[int, _Process], sandboxes: Collection[int]) -> bool | None:
    """Returns whether a process descends from a sandbox's first process; None where its ancestors are not known."""
    for _ in range(_MAX_DEPTH):
        if number in sandboxes:
            return True
        process = processes.get(number)
        if process is None:
            return None
        if process.parent == 0:
            return False
        number = process.parent
    return None


def _read_all(proc: Path) -> dict[int, _Process]:
    try:
        with os.scandir(proc) as entries:
            numbers = [int(entry.name) for entry in entries if entry.name.isdigit()]
    except OSError:
        return {}
    found = ((number, _read_process(f"{proc}/{number}", number)) for number in numbers)
    return {number: process for number, process in found if process is not None}


def _read_process(folder: str, number: int) -> _Process | None:
    """Returns a process of user space; None for one of the kernel, and for one that has ended."""
    try:
        fields = _fields(f"{folder}/stat")
        state, parent, flags, threads = fields[0], int(fields[1]), int(fields[6]), int(fields[17])
    except (OSError, ValueError, IndexError):
        return None
    if flags & _KERNEL_THREAD:
        return None
    states = {str(number): state} if threads <= 1 else _states(f"{folder}/task")
    states.pop(str(threading.get_native_id()), None)
    return _Process(parent, _count(states, b"R"), _count(states, b"D"))


def _count(states: dict[str, bytes], state_code: bytes) -> int:
    return sum(state == state_code for state in states.values())


def _states(tasks: str) -> dict[str, bytes]:
    """Returns the state of each of a process's threads."""
    states: dict[str, bytes] = {}
    try:
        with os.scandir(tasks) as entries:
            names = [entry.name for entry in entries][:MAX_THREADS]
    except OSError:
        return states
    for name in names:
        try:
            states[name] = _fields(f"{tasks}/{name}/stat")[0]
        except (OSError, IndexError):
            continue
    return states


def _fields(path: str) -> list[bytes]:
    """Returns what follows a process's name, which is text of its own. Without `Path`, which takes twice as long: a
    busy host has thousands of threads."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = os.read(descriptor, _STAT_BYTES)
    finally:
        os.close(descriptor)
    return data.rpartition(b")")[2].split()
