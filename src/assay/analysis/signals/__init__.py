"""Triage signals: which of many trajectories are worth a look, without a model and without knowing how they ended."""

from __future__ import annotations

from .columns import COLUMNS, signals
from .names import CATEGORIES, SIGNALS, Signal
from .one import Signals, SignalSet, TriageSignals, signals_of, steps_table

__all__ = [
    "CATEGORIES",
    "COLUMNS",
    "SIGNALS",
    "Signal",
    "SignalSet",
    "Signals",
    "TriageSignals",
    "signals",
    "signals_of",
    "steps_table",
]
