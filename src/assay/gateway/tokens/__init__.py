"""Token truth: the gateway renders, so what is stored is what the model saw, and every sampled span can prove it."""

from __future__ import annotations

from .interface import Attributed, Attributes, Renderer, Said, SaidCall
from .model import RenderedBackend, TokenModel
from .rows import BrokenChain, Refusal, Row, Rows, Span, certify, context_of, rows_of, strict_rows

__all__ = [
    "Attributed",
    "Attributes",
    "BrokenChain",
    "Refusal",
    "RenderedBackend",
    "Renderer",
    "Row",
    "Rows",
    "Said",
    "SaidCall",
    "Span",
    "TokenModel",
    "certify",
    "context_of",
    "rows_of",
    "strict_rows",
]
