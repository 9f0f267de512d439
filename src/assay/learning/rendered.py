"""Training rows of attempts that know no tokens: experts without a model, models behind an API, imported records.

A conversation becomes the tokens that the gateway would have told and a model of this template would have said, turn by
turn: what was said stays as it was said, and only what is new is rendered after it. (Rendered in one go, many templates
write a turn otherwise once another follows: a model would be trained on what it is never asked.) It is a guess all the
same at what somebody else's tokens would have been, so these rows say `origin="rendered"`, have no log-probability, and
are for supervised training alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from assay.errors import ProviderError, UserError, boundary
from assay.gateway.tokens import AttributingRenderer, TokenAttribution
from assay.gateway.tokens.messages import content_text, tool_call_names
from assay.records import Separation, Trajectory

from .conversation import Conversation, Opening, conversations
from .roles import Words, roles_in
from .rows import ACTION, TrainingRow, TurnSpan
from .sampled import about
from .turn_facts import TurnFacts

__all__ = ["rendered_rows"]


def rendered_rows(
    trajectory: Trajectory,
    renderer: AttributingRenderer,
    *,
    tokenizer: str | None = None,
    opening: Opening | None = None,
    require: Separation = "unknown",
) -> list[TrainingRow]:
    """One row for each conversation of an attempt; more where an assistant speaks twice in a row, because a template
    cannot go on there: then the rest stands in a row of its own.

    Args:
        trajectory: With all verdicts that count.
        renderer: Of the model that is to learn.
        tokenizer: Content address of its tokenizer.
        opening: See `conversations`.
        require: The weakest grade of separation at which a pass is not doubted.

    Raises:
        UserError: The attempt says nothing that can be rendered, or the template cannot tell whose each token is.
    """
    writing = _Writing(renderer, Words(trajectory), TurnFacts(trajectory))
    found = [part for told in conversations(trajectory, opening) for part in writing.parts(told)]
    common = about(trajectory, require) | {"attempt_rows": len(found), "tokenizer": tokenizer, "origin": "rendered"}
    return [part.row(common) for part in found]


class _Part:
    """A row while it is written."""

    def __init__(self, branch: str) -> None:
        self.branch = branch
        self.ids: list[int] = []
        self.roles: list[int] = []
        self.turns: list[TurnSpan] = []

    def add(self, ids: Sequence[int], roles: Sequence[int]) -> None:
        """Puts tokens at the end."""
        self.ids += ids
        self.roles += roles

    def row(self, common: dict[str, Any]) -> TrainingRow:
        """What was written."""
        mask = np.zeros(len(self.ids), dtype=np.bool_)
        for turn in self.turns:
            mask[turn.start : turn.end] = turn.trained
        return TrainingRow(
            token_ids=np.array(self.ids, dtype=np.int32),
            roles=np.array(self.roles, dtype=np.uint8),
            loss_mask=mask,
            logprobs=np.zeros(len(self.ids), dtype=np.float32),
            versions=np.full(len(self.ids), -1, dtype=np.int16),
            branch=self.branch,
            turns=tuple(self.turns),
            **common,
        )


class _Writing:
    """Puts conversations of one attempt into tokens."""

    def __init__(self, renderer: AttributingRenderer, words: Words, facts: TurnFacts) -> None:
        self._renderer = renderer
        self._words = words
        self._facts = facts

    def parts(self, told: Conversation) -> Iterator[_Part]:
        """The rows of a conversation. Raises `UserError`."""
        name = getattr(self._renderer, "name", "this")
        try:
            with boundary(ProviderError, f"conversation {told.branch} cannot be put into the {name} template"):
                yield from list(self._parts(told))
        except ProviderError as exc:
            raise UserError(str(exc)) from exc

    def _parts(self, told: Conversation) -> Iterator[_Part]:
        places = [place for place, message in enumerate(told.messages) if message.get("role") == "assistant"]
        part, before, said = _Part(told.branch), 0, list[int]()
        for place in places:
            more = self._more(part, said, told, before, place) if part.ids else None
            if more is None:
                branch = told.branch
                if part.ids:
                    part.add(said, [ACTION] * len(said))
                    yield part
                    branch = f"{branch}+{place}"
                part = _Part(branch)
                whole = self._known(self._renderer.attribute(told.messages[:place], told.tools))
                part.add(whole.ids, roles_in(whole, self._words, acted=False).tolist())
            else:
                part.add(said, [ACTION] * len(said))
                part.add(more.ids, roles_in(more, self._words, acted=True).tolist())
            said, before = self._renderer.render_reply(_plain(told.messages[place])), place + 1
            part.turns.append(self._turn(told, place, len(part.ids), len(said)))
        if part.ids:
            part.add(said, [ACTION] * len(said))
            yield part

    def _more(
        self, part: _Part, said: list[int], told: Conversation, before: int, place: int
    ) -> TokenAttribution | None:
        """The tokens of the messages since the last turn; None where the template cannot go on."""
        names = tool_call_names(told.messages[:before])
        return self._renderer.attribute_extension(part.ids, said, told.messages[before:place], names)

    def _known(self, found: TokenAttribution | None) -> TokenAttribution:
        if found is None:
            raise UserError("it does not tell whose each token is: take a model with another renderer")
        return found

    def _turn(self, told: Conversation, place: int, start: int, length: int) -> TurnSpan:
        call = told.calls[place]
        known = self._facts.of_step(told.steps[place]) if call is None else self._facts.of_call(call)
        return TurnSpan(start=start, end=start + length, call=call or "", trained=told.own[place], **known)


def _plain(message: dict[str, Any]) -> dict[str, Any]:
    """An assistant's message with what a template takes, its arguments as they were written."""
    found: dict[str, Any] = {"role": "assistant", "content": content_text(message.get("content"))}
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    if isinstance(reasoning, str) and reasoning:
        found["reasoning_content"] = reasoning
    calls = message.get("tool_calls")
    functions = [c["function"] for c in calls or () if isinstance(c, dict) and isinstance(c.get("function"), dict)]
    if functions:
        found["tool_calls"] = [{"type": "function", "function": dict(function)} for function in functions]
    return found
