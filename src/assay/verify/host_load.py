"""Measures the host's load while a state is judged, as evidence about time limits that were met.

A time limit counts seconds of the wall clock, and a process on a busy host gets a part of them. The slowdown is the
number of threads outside the judged sandboxes that run or wait for a processor, with one of the judged ones, for each
processor that the runner may use. What runs in the sandboxes of the run itself is left out, so that an agent gains no
time by its own load. It is weighted by the share of time in which the run wanted a processor: load does not slow a
sleeping process.

Covered: affinity and quotas of control groups; disk and memory where the kernel says (`/proc/pressure`) that all tasks
waited for them at once, and other processes did. A host without these files counts as idle. Where a tier does not say
which process a sandbox begins with, only the moments count in which the run has no sandbox. A runner in a container
sees no other processes of the host: there the kernel's count of all runnable threads is taken, and in controls only.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import time
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar
from pathlib import Path

import msgspec

from assay.environments.capabilities import HasHostProcess

from ._processes import count_threads

PROC = Path("/proc")
CGROUPS = Path("/sys/fs/cgroup")
SAMPLE_S = 0.5
MAX_PATIENCE = 6.0
"""Largest factor of a time limit."""
MAX_STALLED = 0.5
_FULL = re.compile(r"^full .*\btotal=([0-9]{1,18})$", re.MULTILINE)
_QUOTA = re.compile(r"^([0-9]{1,15}) ([0-9]{1,15})$")
_FIRST_NAMESPACE = "pid:[4026531836]"
_UNIFIED = re.compile(r"^0::(/.*)$", re.MULTILINE)


class HostLoad(msgspec.Struct, frozen=True):
    """Load over a span of time."""

    slowdown: float = 1.0
    """Mean number of running or waiting threads for each processor; at least 1."""
    stalled: float = 0.0
    """The larger of two shares of time: all tasks waited for a disk, or for memory."""
    demand: float = 1.0
    """Share of time in which the judged sandboxes wanted a processor."""

    complete: bool = False
    """All processes of the host were visible, and those of the judged sandboxes identified."""

    def required_patience(self, slowdown: float = 1.0) -> float:
        """Returns the factor with which a time limit grants as much computation as on an idle host; for an incomplete
        load, `slowdown` is that of a control, in which all threads count."""
        slowdown = self.slowdown if self.complete else max(self.slowdown, slowdown)
        return 1 / (1 - self.demand + self.demand / slowdown)

    def is_beyond(self, patience: float, slowdown: float = 1.0) -> bool:
        """Returns whether a program may have received less computation than its time limit times `patience` grants."""
        return self.required_patience(slowdown) > patience + 1e-6

    @property
    def is_stalled(self) -> bool:
        """Returns whether the host waited for a device most of the time."""
        return self.stalled > MAX_STALLED


class LoadMeter:
    """Collects the load until it is read; with `is_control` no agent's code runs, so all counts are the host's."""

    def __init__(self, *, is_control: bool) -> None:
        self._is_control = is_control
        self._complete = _sees_all()
        self._processors = _processors()
        self._sandboxes: list[object] = []
        self._firsts: set[int] = set()
        self._slowdowns: list[float] = []
        self._demands: list[bool] = []
        self._waited: list[bool] = []
        self._began, self._before = time.monotonic(), _stalls()

    @contextlib.contextmanager
    def sandbox(self, workspace: object) -> Iterator[None]:
        """Counts a sandbox as part of the run while the block runs."""
        self._sandboxes.append(workspace)
        try:
            yield
        finally:
            self._sandboxes.remove(workspace)

    async def sample(self) -> None:
        """Takes samples until it is cancelled."""
        while True:
            await self.take()
            await asyncio.sleep(SAMPLE_S)

    async def take(self) -> None:
        firsts = [one.host_pid() if isinstance(one, HasHostProcess) else None for one in self._sandboxes]
        # Those of closed sandboxes stay: the table of processes may be older than the end of a sandbox.
        self._firsts.update(pid for pid in firsts if pid is not None)
        threads = await asyncio.to_thread(count_threads, PROC, frozenset(self._firsts))
        runnable = threads.runnable + 1
        if self._is_control and not self._complete:
            runnable = max(runnable, _all_runnable())
        elif None in firsts:
            self._complete = False
            return
        self._slowdowns.append(runnable / self._processors)
        self._waited.append(threads.waiting > 0)
        if firsts:
            self._demands.append(threads.own_runnable > 0)

    async def read(self) -> HostLoad:
        """Takes a last sample; returns the load since the meter was made."""
        await self.take()
        span_us = max(time.monotonic() - self._began, 1e-3) * 1e6
        stalls = [after - before for before, after in zip(self._before, _stalls(), strict=True)]
        stalled = min(1.0, max(stalls) / span_us)
        if not self._is_control:  # the agent's own writes fill a disk's queue, and are no trouble of the host's
            stalled = min(stalled, _mean(self._waited))
        slowdown = max(1.0, _mean(self._slowdowns))
        demand = _mean(self._demands) if self._demands else 1.0
        return HostLoad(round(slowdown, 2), round(stalled, 3), round(demand, 3), self._complete)


_METER: ContextVar[LoadMeter | None] = ContextVar("meter", default=None)


@contextlib.asynccontextmanager
async def measure_load(*, is_control: bool = False) -> AsyncIterator[LoadMeter]:
    """Samples the load while the block runs. Sandboxes that the block opens are those of the run."""
    meter = LoadMeter(is_control=is_control)
    token = _METER.set(meter)
    sampling = asyncio.get_running_loop().create_task(meter.sample())
    try:
        yield meter
    finally:
        _METER.reset(token)
        sampling.cancel()
        await asyncio.gather(sampling, return_exceptions=True)


@contextlib.contextmanager
def metered_sandbox(workspace: object) -> Iterator[None]:
    """Registers a sandbox of the run with the active meter, if there is one."""
    meter = _METER.get()
    with contextlib.nullcontext() if meter is None else meter.sandbox(workspace):
        yield


def _mean(values: list[bool] | list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _sees_all() -> bool:
    """Returns whether the runner is in the PID namespace that holds all others."""
    try:
        return (PROC / "self" / "ns" / "pid").readlink().name == _FIRST_NAMESPACE
    except OSError:
        return False


def _all_runnable() -> int:
    """Returns the kernel's count of runnable threads in all containers, without the reader."""
    try:
        return int((PROC / "loadavg").read_text().split()[3].partition("/")[0]) - 1
    except (OSError, ValueError, IndexError):
        return 1


def _processors() -> float:
    """Returns the number of processors that the runner may use."""
    return min([float(len(os.sched_getaffinity(0))), *_quotas()])


def _quotas() -> Iterator[float]:
    """Yields the processor quota of each control group that contains the runner."""
    try:
        match = _UNIFIED.search((PROC / "self" / "cgroup").read_text())
    except OSError:
        return
    place = CGROUPS / match[1].strip("/") if match and ".." not in match[1] else CGROUPS
    while place.is_relative_to(CGROUPS):
        with contextlib.suppress(OSError):
            quota = _QUOTA.match((place / "cpu.max").read_text().strip())
            if quota and int(quota[1]) and int(quota[2]):
                yield int(quota[1]) / int(quota[2])
        place = place.parent


def _stalls() -> list[int]:
    """Returns the microseconds since boot in which all tasks waited for a disk, and for memory."""
    totals = []
    for name in ("io", "memory"):
        try:
            match = _FULL.search((PROC / "pressure" / name).read_text())
        except OSError:
            match = None
        totals.append(int(match[1]) if match else 0)
    return totals
