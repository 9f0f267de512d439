"""API dialects, one module each. A dialect parses a request into the canonical call and encodes the reply."""

from __future__ import annotations

from assay.http.messages import Response

from ._deltas import normalize_tool_calls, split_reply
from .anthropic_messages import AnthropicMessages
from .gemini import Gemini
from .interface import ApiProblem, BadRequest, Dialect, ParsedRequest, RequestTarget, StreamWriter
from .openai_chat import OpenAIChat
from .openai_responses import OpenAIResponses

__all__ = [
    "DIALECTS",
    "ApiProblem",
    "BadRequest",
    "Dialect",
    "ParsedRequest",
    "RequestTarget",
    "Response",
    "StreamWriter",
    "normalize_tool_calls",
    "split_reply",
]

DIALECTS: tuple[Dialect, ...] = (AnthropicMessages(), OpenAIResponses(), Gemini(), OpenAIChat())
"""Match order; the last dialect also answers requests that match none."""
