"""Renderers: messages to tokens and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable


class ParsedCall(NamedTuple):
    """A tool call as the model wrote it."""

    name: str
    arguments: str
    """Raw text, even if it is not JSON."""
    id: str | None = None
    """The model's own id, if its format has one."""


class ParsedReply(NamedTuple):
    """A parsed reply."""

    text: str
    reasoning: str
    calls: tuple[ParsedCall, ...]


class TokenAttribution(NamedTuple):
    """Tokens with the messages they come from. All lists have the same length."""

    ids: list[int]
    owners: list[int]
    """Index in `messages` of the message of each token; -1 for none."""
    body: list[bool]
    """True for message bodies, False for template scaffolding."""
    sampled: list[bool]
    """True for tokens that the model generates: assistant bodies and their end tokens."""
    messages: list[dict[str, Any]]
    """The messages as given to the template."""


@runtime_checkable
class AttributingRenderer(Protocol):
    """A renderer that attributes tokens to messages."""

    def attribute(self, messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]]) -> TokenAttribution | None:
        """Renders like `Renderer.render`, with each token's owner; None if the template does not report owners."""
        ...

    def render_reply(self, message: dict[str, Any]) -> list[int]:
        """Returns the tokens of an assistant message, including its end token; call arguments stay as written."""
        ...

    def attribute_extension(
        self, before: Sequence[int], sampled: Sequence[int], messages: Sequence[dict[str, Any]], names: dict[str, str]
    ) -> TokenAttribution | None:
        """Attributes the tokens that `Renderer.extend` would add; None if unsupported."""
        ...


class Renderer(Protocol):
    """Converts messages to tokens and back for one model family.

    Messages and tools are untrusted: no text in them may become a special token.
    """

    name: str
    stop_ids: tuple[int, ...]
    """End-of-turn tokens."""

    def render(self, messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]]) -> list[int]:
        """Renders the conversation up to the assistant's turn."""
        ...

    def extend(
        self, before: Sequence[int], sampled: Sequence[int], messages: Sequence[dict[str, Any]], names: dict[str, str]
    ) -> list[int] | None:
        """Returns `before` and `sampled` unchanged, then the new messages (none of an assistant) up to the assistant's
        turn; None if unsupported. `names` maps earlier tool-call ids to names, in order."""
        ...

    def parse(self, sampled: Sequence[int], before: Sequence[int], tools: Sequence[dict[str, Any]]) -> ParsedReply:
        """Parses a reply, whole or truncated."""
        ...

    def text(self, tokens: Sequence[int]) -> str:
        """Decodes tokens, special ones included."""
        ...

    def is_plain(self, token: int) -> bool:
        """Returns whether a token is ordinary text."""
        ...
