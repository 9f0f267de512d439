"""Triage signals: selects trajectories worth inspection without a model and without their outcome."""

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
