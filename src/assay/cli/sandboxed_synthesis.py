"""Task synthesis in a sandbox with progress on stderr, shared by `synth`, `setup` and `demo`."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from assay.settings import Settings

from .output import format_seconds, say

if TYPE_CHECKING:
    from assay.rollout.cluster.node_session import PlacedRunOptions
    from assay.synthesis import ProgramReport, QuestionReport, SynthesisCost, SynthesisReport

Config = TypeVar("Config")
Report = TypeVar("Report", bound="SynthesisReport | ProgramReport | QuestionReport")

LINE_EVERY_S = 5.0
DEMO_SOURCE = "networkx"
"""A real library whose wheel contains its tests."""


def demo_layers() -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Returns requirements and masked distributions of the demo's tool layers."""
    return [((), (DEMO_SOURCE,))]


async def make_tasks(
    config: Config, synthesise: Callable[..., Awaitable[Report]], nodes: PlacedRunOptions | None = None
) -> tuple[Report, SynthesisCost]:
    """Runs a function of `assay.synthesis` in the best available sandbox; with `nodes`, these judge for it. Returns its
    report and cost."""
    if nodes is None:
        return await _make_in_sandbox(config, synthesise)
    from assay.admission.synthesis_on_nodes import judge_on_nodes
    from assay.rollout.progress import SpokenTally
    from assay.synthesis import CostMeter

    meter = CostMeter()  # read when local nodes have ended
    async with judge_on_nodes(Settings.from_environment(), nodes, SpokenTally(say)) as elsewhere:
        report, cost = await _make_in_sandbox(config, partial(synthesise, elsewhere=elsewhere))
    return report, meter.measure(report, cost.from_journal)


async def _make_in_sandbox(
    config: Config, synthesise: Callable[..., Awaitable[Report]]
) -> tuple[Report, SynthesisCost]:
    from assay.environments.workspace.choose import choose_backend
    from assay.synthesis import CostMeter

    settings, lines, meter = Settings.from_environment(), ProgressLines(), CostMeter()
    backend, _ = await choose_backend(None)
    try:
        report = await synthesise(config, backend=backend, cache=settings.cache, progress=lines)
    finally:
        await backend.close()
    return report, meter.measure(report, lines.from_journal)


class ProgressLines:
    """Prints a line for each new activity, and at intervals while it lasts, with an estimate of the time left."""

    def __init__(self) -> None:
        self._what, self._last = "", 0.0
        self._paces: dict[str, _Pace] = {}
        self.from_journal = 0

    def __call__(self, what: str, done: int, total: int) -> None:
        from assay.synthesis import FROM_JOURNAL

        now = time.monotonic()
        pace = self._paces.get(what)
        if pace is None or done < pace.done:
            pace = _Pace(now, done, done)
        self._paces[what] = pace = pace._replace(done=done)
        if what == FROM_JOURNAL:
            self.from_journal += done
            self._paces = {what: pace}  # outcomes that were only read say nothing of the pace
        if what != self._what or now - self._last > LINE_EVERY_S:
            self._what, self._last = what, now
            left = pace.seconds_left(now, total)
            rest = f", about {format_seconds(left)} left" if left is not None else ""
            say(f"{what} ..." if total <= 1 else f"{what}: {done} of {total}{rest}")


class _Pace(NamedTuple):
    """Progress of one activity since `began`, when `first` units were done."""

    began: float
    first: int
    done: int

    def seconds_left(self, now: float, total: int) -> float | None:
        """Estimates the remaining seconds; None before a unit is done, and at the end."""
        fresh = self.done - self.first
        return (now - self.began) / fresh * (total - self.done) if fresh and self.done < total else None
