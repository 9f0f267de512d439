"""Makes tasks and environments."""

from __future__ import annotations

from .config import SynthesisConfig
from .report import SynthesisReport
from .repository import synthesise

__all__ = ["SynthesisConfig", "SynthesisReport", "synthesise"]
