"""Token truth: the gateway renders, so what is stored is what the model saw, and every sampled span can prove it."""

from __future__ import annotations

from .interface import AttributingRenderer, ParsedCall, ParsedReply, Renderer, TokenAttribution
from .model import RenderedBackend, TokenModel
from .rows import (
    BrokenChain,
    TokenRow,
    TokenRows,
    TokenSpan,
    UncertifiedSpan,
    build_token_rows,
    certify,
    context_of,
)

__all__ = [
    "AttributingRenderer",
    "BrokenChain",
    "ParsedCall",
    "ParsedReply",
    "RenderedBackend",
    "Renderer",
    "TokenAttribution",
    "TokenModel",
    "TokenRow",
    "TokenRows",
    "TokenSpan",
    "UncertifiedSpan",
    "build_token_rows",
    "certify",
    "context_of",
]
