"""What stands between messages and tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

__all__ = ["Attributed", "Attributes", "Renderer", "Said", "SaidCall"]


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


class Attributed(NamedTuple):
    """Tokens, and whose they are. All lists are of one length."""

    ids: list[int]
    owners: list[int]
    """Place of the message in `messages` that the token belongs to; -1 for none."""
    body: list[bool]
    """Whether it stands for what a message says, and not for the template around it."""
    sampled: list[bool]
    """Whether the model would have said it: bodies of assistants and what ends them."""
    messages: list[dict[str, Any]]
    """The messages as the template was given them."""


@runtime_checkable
class Attributes(Protocol):
    """A renderer that knows which token comes from what."""

    def attribute(self, messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]]) -> Attributed | None:
        """As `Renderer.render`, with each token's owner; None where this template cannot tell."""
        ...

    def said(self, message: dict[str, Any]) -> list[int]:
        """The tokens with which the model would say this, up to and with the one that ends its turn; the arguments of
        calls as they are written."""
        ...

    def attribute_more(
        self, before: Sequence[int], sampled: Sequence[int], messages: Sequence[dict[str, Any]], names: dict[str, str]
    ) -> Attributed | None:
        """As `Renderer.extend`, for the new tokens alone; None where they cannot be, or cannot be told."""
        ...


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
