"""Training rows of attempts that know no tokens: experts without a model, models behind an API, imported records.

Their conversation is put into a template, and the renderer's own attribution says which tokens a model would have said.
That is a guess at what somebody else's tokens would have been, so these rows say `origin="rendered"`, have no
log-probability, and are for supervised training alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from assay.errors import ProviderError, UserError, boundary
from assay.gateway.tokens import Attributed, Attributes
from assay.records import Trajectory

from .conversation import Conversation, Opening, conversations
from .roles import Roles, Words, roles_in
from .rows import ACTION, TrainingRow, TurnSpan
from .sampled import about
from .turn_facts import TurnFacts

__all__ = ["rendered_rows"]


def rendered_rows(
    trajectory: Trajectory,
    renderer: Attributes,
    *,
    tokenizer: str | None = None,
    opening: Opening | None = None,
) -> list[TrainingRow]:
    """One row for each conversation of an attempt.

    Args:
        trajectory: With all verdicts that count.
        renderer: Of the model that is to learn.
        tokenizer: Content address of its tokenizer.
        opening: See `conversations`.

    Raises:
        UserError: The attempt says nothing that can be rendered, or the template cannot tell whose each token is.
    """
    found = list(conversations(trajectory, opening))
    words = Words(trajectory)
    common = about(trajectory) | {"attempt_rows": len(found), "tokenizer": tokenizer, "origin": "rendered"}
    facts = TurnFacts(trajectory)
    return [_row(one, renderer, words, facts, common) for one in found]


def _row(
    told: Conversation, renderer: Attributes, words: Words, facts: TurnFacts, common: dict[str, Any]
) -> TrainingRow:
    found = _attributed(told, renderer)
    turns = _turns(found, told, facts)
    ids = np.array(found.ids, dtype=np.int32)
    mask = np.zeros(len(ids), dtype=np.bool_)
    for turn in turns:
        mask[turn.start : turn.end] = turn.trained
    return TrainingRow(
        token_ids=ids,
        roles=_roles(found, words),
        loss_mask=mask,
        logprobs=np.zeros(len(ids), dtype=np.float32),
        versions=np.full(len(ids), -1, dtype=np.int16),
        branch=told.branch,
        turns=turns,
        **common,
    )


def _attributed(told: Conversation, renderer: Attributes) -> Attributed:
    name = getattr(renderer, "name", "this")
    try:
        with boundary(ProviderError, f"conversation {told.branch} cannot be put into the {name} template"):
            found = renderer.attribute(told.messages, told.tools, asks=False)
    except ProviderError as exc:
        raise UserError(str(exc)) from exc
    if found is None:
        message = f"the {name} template does not tell whose each token is: take a model with another renderer"
        raise UserError(message)
    return found


def _roles(found: Attributed, words: Words) -> Roles:
    roles = roles_in(found, words, acted=False)
    roles[np.array(found.sampled, dtype=np.bool_)] = ACTION
    return roles


def _turns(found: Attributed, told: Conversation, facts: TurnFacts) -> tuple[TurnSpan, ...]:
    """The runs of tokens that the model would have said, each with the message that it is."""
    said = [place for place, message in enumerate(told.messages) if message.get("role") == "assistant"]
    theirs = [place for place, message in enumerate(found.messages) if message["role"] == "assistant"]
    ours = dict(zip(theirs, said, strict=True))  # a template joins no turns of an assistant
    turns: list[TurnSpan] = []
    at = 0
    while at < len(found.ids):
        if not found.sampled[at]:
            at += 1
            continue
        end = at
        while end < len(found.ids) and found.sampled[end] and found.owners[end] == found.owners[at]:
            end += 1
        place = ours[found.owners[at]]
        call = told.calls[place]
        known = facts.of_step(told.steps[place]) if call is None else facts.of_call(call)
        turns.append(TurnSpan(start=at, end=end, call=call or "", trained=told.own[place], **known))
        at = end
    return tuple(turns)
