"""Measures the CPU time of making tasks, and the yield: kept tasks a CPU minute.

A measurement differs from run to run, so it is written to `synthesis-cost.json`, apart from `manifest.json` and from
the task folders, which are the same each time. Counted are this process and all children that it has reaped: read the
meter after closing the backend, because sandboxes belong to a launcher that is reaped then.
"""

from __future__ import annotations

import resource
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from assay.errors import add_filename

if TYPE_CHECKING:
    from .program_tasks import ProgramReport
    from .question_tasks import QuestionReport
    from .report import SynthesisReport

COST_FILE = "synthesis-cost.json"


class SynthesisCost(msgspec.Struct, frozen=True):
    """Yield of one run; the counts are those of the manifest."""

    candidates: int
    kept: int
    not_separate: int
    """Candidates dropped because no test could be judged apart."""
    cpu_s: float
    """User and system time of this run, children included; not of nodes on other machines."""
    kept_per_cpu_minute: float | None
    """None where some outcomes are of an earlier run that was stopped: their CPU time is not known."""
    from_journal: int = 0
    """Candidates whose outcome is an earlier run's."""

    def sentence(self) -> str:
        """Returns a one-line summary."""
        rate = self.kept_per_cpu_minute
        shown = f"{rate:.2f} kept tasks a CPU minute" if rate is not None else f"{self.from_journal} judged before"
        return (
            f"{self.candidates} candidates: {self.kept} kept, {self.not_separate} dropped for want of a separate test; "
            f"{self.cpu_s:.0f} CPU seconds, {shown}"
        )


class CostMeter:
    """Counts CPU time from its creation."""

    def __init__(self) -> None:
        self._before = _cpu_seconds()

    def measure(self, report: SynthesisReport | ProgramReport | QuestionReport, from_journal: int = 0) -> SynthesisCost:
        """Returns the yield of the run that gave a report; `from_journal` candidates were judged by an earlier run."""
        cpu_s = max(_cpu_seconds() - self._before, 1e-3)
        return SynthesisCost(
            candidates=report.candidates,
            kept=report.kept,
            not_separate=report.not_separate,
            cpu_s=round(cpu_s, 3),
            kept_per_cpu_minute=None if from_journal else round(60 * report.kept / cpu_s, 3),
            from_journal=from_journal,
        )


def write_cost(folder: Path, cost: SynthesisCost) -> None:
    """Writes the measurement beside a manifest."""
    aside = folder / f".{COST_FILE}.part"
    with add_filename(folder / COST_FILE):
        aside.write_bytes(msgspec.json.format(msgspec.json.encode(cost), indent=1) + b"\n")
        aside.rename(folder / COST_FILE)


def _cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)
