"""Triage signals: selects trajectories worth inspection without a model and without their outcome."""

from __future__ import annotations

from .columns import COLUMNS, signals
from .interface import SignalSet, TriageSignals, steps_table
from .names import CATEGORIES, SIGNALS, Signal
from .sets import Signals, count_signals, signals_of

__all__ = [
    "CATEGORIES",
    "COLUMNS",
    "SIGNALS",
    "Signal",
    "SignalSet",
    "Signals",
    "TriageSignals",
    "count_signals",
    "signals",
    "signals_of",
    "steps_table",
]
