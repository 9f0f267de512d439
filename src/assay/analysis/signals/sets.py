"""Counts the signals of every installed set: entry points `assay.signals`, the published 25 among them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from assay import plugins
from assay.errors import PluginLoadError
from assay.records import Trajectory

from .columns import signals
from .interface import SignalSet, StepsOfChain, TriageSignals, steps_table
from .names import CATEGORIES


class Signals(msgspec.Struct, frozen=True):
    """Signals of one trajectory."""

    counts: dict[str, int]
    """Counts by name over all installed sets, zeros omitted."""
    severities: dict[str, int]
    """Severity by category of the published signals, 0 to 3."""
    quality: float
    """Published score of 0 to 100, from the published signals alone."""
    bucket: str


def count_signals(trajectories: Sequence[StepsOfChain]) -> list[dict[str, int]]:
    """Returns the signals of all installed sets that each of some trajectories raises, with their counts.

    The trajectories have steps, and different chains.

    Raises:
        PluginLoadError: A set does not load or fails, two sets have a signal of one name, or a set does not return one
            row for each trajectory, with a whole number for each of its signals.
    """
    return _count(steps_table(trajectories), len(trajectories), None) if trajectories else []


def _count(steps: Any, trajectories: int, published: Any) -> list[dict[str, int]]:
    """Counts over a table of steps; `published` are the published signals of these steps, where they are known."""
    owners: dict[str, str] = {}
    counts: list[dict[str, int]] = [{} for _ in range(trajectories)]
    for name, one in _load_sets():
        known = published is not None and isinstance(one, TriageSignals)
        table = published if known else plugins.call(f"signals {name!r}", one.counts, steps)
        for signal in one.signals:
            if owners.setdefault(signal, name) != name:
                raise PluginLoadError(f"signals {owners[signal]!r} and {name!r} both have {signal!r}; remove one")
            column = table[signal].to_pylist() if signal in table.column_names else None
            if column is None or len(column) != trajectories or not all(isinstance(n, int) for n in column):
                raise PluginLoadError(
                    f"signals {name!r}: `counts` must return one row for each attempt with a whole number in the "
                    f"column {signal!r}; got {'no such column' if column is None else column[:3]}"
                )
            for found, number in zip(counts, column, strict=True):
                if number:
                    found[signal] = number
    return counts


def _load_sets() -> Iterator[tuple[str, SignalSet]]:
    for name in sorted(plugins.names("signals")):
        found = plugins.construct(f"signals {name!r}", plugins.load("signals", name), {})
        if not isinstance(found, SignalSet):
            raise PluginLoadError(f"signals {name!r} is not a set of signals: it needs `name`, `signals` and `counts`")
        yield name, found


def signals_of(trajectory: Trajectory) -> Signals:
    """Returns the signals of one trajectory; all zero without steps. Raises `PluginLoadError` as `count_signals`."""
    if not trajectory.steps:
        return Signals({}, dict.fromkeys(CATEGORIES, 0), 50.0, "neutral")
    steps = steps_table([trajectory])
    published = signals(steps)
    row = published.to_pylist()[0]
    return Signals(
        counts=_count(steps, 1, published)[0],
        severities={category: row[f"signals.{category}.severity"] for category in CATEGORIES},
        quality=row["signals.quality"],
        bucket=row["signals.bucket"],
    )
