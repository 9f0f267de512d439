"""Makes tasks and environments."""

from __future__ import annotations

from .config import SynthesisConfig
from .cost import CostMeter, SynthesisCost, write_cost
from .report import SynthesisReport
from .repository import FROM_JOURNAL, synthesise

__all__ = [
    "FROM_JOURNAL",
    "CostMeter",
    "SynthesisConfig",
    "SynthesisCost",
    "SynthesisReport",
    "synthesise",
    "write_cost",
]
