"""Who deserves what: one advantage a turn, from verified attempts. Pure NumPy, one method a file."""

from __future__ import annotations

from .compose import CreditConfig, Stage, credit_of
from .evidence import evidence_aware
from .interface import OUTCOMES, Batch, Credit, Method, batch

__all__ = ["OUTCOMES", "Batch", "Credit", "CreditConfig", "Method", "Stage", "batch", "credit_of", "evidence_aware"]
