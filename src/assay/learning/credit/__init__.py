"""Who deserves what: one advantage a turn, from verified attempts. Pure NumPy, one method a file."""

from __future__ import annotations

from .batch import Batched, Columns, batch_of, credited, onto
from .compose import CreditConfig, Stage, credit_of
from .evidence import evidence_aware
from .interface import OUTCOMES, Batch, Credit, Method, batch

__all__ = ["OUTCOMES", "Batch", "Batched", "Columns", "Credit", "CreditConfig", "Method", "Stage", "batch", "batch_of",
           "credit_of", "credited", "evidence_aware", "onto"]  # fmt: skip
