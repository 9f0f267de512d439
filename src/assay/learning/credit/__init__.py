"""Credit assignment: one advantage per turn, from verified attempts. Pure NumPy, one method per module."""

from __future__ import annotations

from .batch import Columns, RowBatch, apply_credit, assign_credit, build_batch
from .compose import CreditConfig, MaskStage, compute_credit
from .evidence import evidence_aware
from .interface import OUTCOMES, Batch, Credit, Method, make_batch

__all__ = ["OUTCOMES", "Batch", "Columns", "Credit", "CreditConfig", "MaskStage", "Method", "RowBatch", "apply_credit",
           "assign_credit", "build_batch", "compute_credit", "evidence_aware", "make_batch"]  # fmt: skip
