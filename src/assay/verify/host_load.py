"""How busy the host is while a state is judged: evidence against blaming an agent for a time limit.

A time limit counts seconds of the wall clock, and a process on a busy host gets a part of them. The slowdown is the
number of runnable threads for each CPU; disk and memory count where the kernel says (`/proc/pressure`) that all tasks
waited for them at once. A host without these files counts as idle.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import msgspec

__all__ = ["MAX_PATIENCE", "HostLoad", "LoadMeter", "current_patience", "measure_load"]

PROC = Path("/proc")
SAMPLE_S = 0.25
MAX_PATIENCE = 6.0
"""The most that a time limit is multiplied by."""
MAX_STALLED = 0.5
_FULL = re.compile(r"^full .*\btotal=([0-9]{1,18})$", re.MULTILINE)


class HostLoad(msgspec.Struct, frozen=True):
    """The load over some span of time."""

    slowdown: float = 1.0
    """Runnable threads for each CPU, in the mean; at least 1."""
    stalled: float = 0.0
    """The larger of two shares of the time: that in which all tasks waited for a disk, and for memory."""

    def is_beyond(self, patience: float) -> bool:
        """Returns whether a program may have got less than its time limit, multiplied by `patience`, grants it."""
        return self.slowdown > patience or self.stalled > MAX_STALLED


class LoadMeter:
    """Collects the load until it is read."""

    def __init__(self) -> None:
        self._samples = [_read_load().slowdown]
        self._began, self._before = time.monotonic(), _stalls()

    async def sample(self) -> None:
        """Takes samples until it is cancelled."""
        while True:
            await asyncio.sleep(SAMPLE_S)
            self._samples.append(_read_load().slowdown)

    def read(self) -> HostLoad:
        """Returns the load since the meter was made."""
        samples = [*self._samples, _read_load().slowdown]
        span_us = max(time.monotonic() - self._began, 1e-3) * 1e6
        stalls = [after - before for before, after in zip(self._before, _stalls(), strict=True)]
        return HostLoad(round(sum(samples) / len(samples), 2), round(min(1.0, max(stalls) / span_us), 3))


@contextlib.asynccontextmanager
async def measure_load() -> AsyncIterator[LoadMeter]:
    """Samples the load while the block runs."""
    meter = LoadMeter()
    async with asyncio.TaskGroup() as group:
        sampling = group.create_task(meter.sample())
        try:
            yield meter
        finally:
            sampling.cancel()


class _Loads(NamedTuple):
    """Runnable threads for each CPU, at least 1."""

    slowdown: float
    """At this moment, without the reader."""
    last_minute: float


def current_patience(least: float = 1.0) -> float:
    """Returns what time limits are multiplied by on the host as busy as it is now and was in the last minute."""
    return min(MAX_PATIENCE, max(least, *_read_load()))


def _read_load() -> _Loads:
    try:
        fields = (PROC / "loadavg").read_text().split()
        runnable, minute = int(fields[3].partition("/")[0]) - 1, float(fields[0])
    except (OSError, ValueError, IndexError):
        return _Loads(1.0, 1.0)
    processors = len(os.sched_getaffinity(0))
    return _Loads(max(1.0, runnable / processors), max(1.0, minute / processors))


def _stalls() -> list[int]:
    """Microseconds in which all tasks waited, since the host was started: for a disk, and for memory."""
    totals = []
    for name in ("io", "memory"):
        try:
            match = _FULL.search((PROC / "pressure" / name).read_text())
        except OSError:
            match = None
        totals.append(int(match[1]) if match else 0)
    return totals
