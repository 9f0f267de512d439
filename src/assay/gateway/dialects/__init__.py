"""What clients speak, one file each. A dialect parses a request into the canonical call and writes the answer."""

from __future__ import annotations

from ._pieces import answerable, deltas_of, is_too_deep
from .anthropic_messages import AnthropicMessages
from .gemini import Gemini
from .interface import BadRequest, Dialect, Parsed, Problem, StreamWriter, Target, Written
from .openai_chat import OpenAIChat
from .openai_responses import OpenAIResponses

__all__ = [
    "DIALECTS",
    "BadRequest",
    "Dialect",
    "Parsed",
    "Problem",
    "StreamWriter",
    "Target",
    "Written",
    "answerable",
    "deltas_of",
    "is_too_deep",
]

DIALECTS: tuple[Dialect, ...] = (AnthropicMessages(), OpenAIResponses(), Gemini(), OpenAIChat())
"""In the order in which they are asked whether a request is theirs; the last answers what is nobody's."""
