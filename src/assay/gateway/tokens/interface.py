"""What stands between messages and tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

__all__ = ["Renderer", "Said", "SaidCall"]


class SaidCall(NamedTuple):
    """A tool call as the model wrote it."""

    name: str
    arguments: str
    """The raw text, also where it is no JSON."""
    id: str | None = None
    """Where the model's own format has one."""


class Said(NamedTuple):
    """Sampled tokens, understood."""

    text: str
    reasoning: str
    calls: tuple[SaidCall, ...]


class Renderer(Protocol):
    """Messages to tokens and back, for one family of models.

    Messages and tools are a stranger's: no text in them may become a special token.
    """

    name: str
    stop_ids: tuple[int, ...]
    """Tokens with which the model ends its turn."""

    def render(self, messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]]) -> list[int]:
        """The whole conversation, up to where the assistant speaks."""
        ...

    def extend(
        self, before: Sequence[int], sampled: Sequence[int], messages: Sequence[dict[str, Any]], names: dict[str, str]
    ) -> list[int] | None:
        """`before` and `sampled` as they are, then new messages (none of an assistant), up to where the assistant
        speaks again; None where that cannot be. `names` are the names of earlier tool calls by their ids, in order."""
        ...

    def parse(self, sampled: Sequence[int], before: Sequence[int], tools: Sequence[dict[str, Any]]) -> Said:
        """Reads an answer, whole or cut off."""
        ...

    def text(self, tokens: Sequence[int]) -> str:
        """Tokens as text, special ones included."""
        ...

    def is_plain(self, token: int) -> bool:
        """Whether a token stands for ordinary text."""
        ...
