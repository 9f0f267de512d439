"""Training rows of attempts without tokens: experts without a model, models behind an API, imported records.

Each turn is rendered after the tokens of the turns before it, as the gateway would do, because many templates render a
turn differently once another follows. The tokens are still a guess, so these rows have `origin="rendered"`, no
log-probabilities, and are for supervised training only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from assay.errors import ProviderError, UserError, boundary
from assay.gateway.tokens import AttributingRenderer, TokenAttribution
from assay.gateway.tokens.messages import content_text, tool_call_names
from assay.records import Separation, Trajectory

from .conversation import Opening, Transcript, conversations, stored_pictures
from .roles import HarnessMessages, token_roles
from .rows import ACTION, TrainingRow, TurnSpan
from .sampled import attempt_fields
from .turn_facts import TurnFacts


def rendered_rows(
    trajectory: Trajectory,
    renderer: AttributingRenderer,
    *,
    tokenizer: str | None = None,
    opening: Opening | None = None,
    require: Separation = "unknown",
) -> list[TrainingRow]:
    """Renders one row per transcript; consecutive assistant turns that the template cannot continue start a new row.

    `require` is the weakest grade of separation at which a pass is not doubted.

    Raises:
        UserError: The attempt says nothing that can be rendered, or the template cannot tell whose each token is.
    """
    writing = _ConversationRenderer(renderer, HarnessMessages(trajectory.steps), TurnFacts(trajectory))
    lines = conversations(trajectory, opening)
    return _render_rows(lines, writing, attempt_fields(trajectory, require) | {"tokenizer": tokenizer})


def rows_of_transcript(
    line: Transcript, renderer: AttributingRenderer, *, tokenizer: str | None = None, **fields: Any
) -> list[TrainingRow]:
    """Renders a transcript that no single attempt holds, with `fields` in its rows. Raises as `rendered_rows`."""
    return _render_rows([line], _ConversationRenderer(renderer, HarnessMessages()), fields | {"tokenizer": tokenizer})


def _render_rows(
    lines: Iterable[Transcript], writing: _ConversationRenderer, fields: dict[str, Any]
) -> list[TrainingRow]:
    found = [part for line in lines for part in writing.row_builders(line)]
    return [part.row(fields | {"attempt_rows": len(found), "origin": "rendered"}) for part in found]


class _RowBuilder:
    def __init__(self, branch: str) -> None:
        self.branch = branch
        self.ids: list[int] = []
        self.roles: list[int] = []
        self.turns: list[TurnSpan] = []

    def add(self, ids: Sequence[int], roles: Sequence[int]) -> None:
        """Appends tokens."""
        self.ids += ids
        self.roles += roles

    def row(self, common: dict[str, Any]) -> TrainingRow:
        """Builds the row."""
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


class _ConversationRenderer:
    def __init__(self, renderer: AttributingRenderer, harness: HarnessMessages, facts: TurnFacts | None = None) -> None:
        self._renderer = renderer
        self._harness = harness
        self._facts = facts

    def row_builders(self, line: Transcript) -> Iterator[_RowBuilder]:
        """Yields the rows of a transcript. Raises `UserError`."""
        name = getattr(self._renderer, "name", "this")
        try:
            with boundary(ProviderError, f"conversation {line.branch} cannot be put into the {name} template"):
                yield from list(self._parts(line))
        except ProviderError as exc:
            raise UserError(str(exc)) from exc

    def _parts(self, line: Transcript) -> Iterator[_RowBuilder]:
        positions = [position for position, message in enumerate(line.messages) if message.get("role") == "assistant"]
        part, first_new, sampled_ids = _RowBuilder(line.branch), 0, list[int]()
        for position in positions:
            more = self._extend(part, sampled_ids, line, first_new, position) if part.ids else None
            if more is None:
                branch = line.branch
                if part.ids:
                    part.add(sampled_ids, [ACTION] * len(sampled_ids))
                    yield part
                    branch = f"{branch}+{position}"
                part = _RowBuilder(branch)
                whole = self._require_attribution(self._renderer.attribute(line.messages[:position], line.tools))
                part.add(whole.ids, token_roles(whole, self._harness, acted=False).tolist())
            else:
                part.add(sampled_ids, [ACTION] * len(sampled_ids))
                part.add(more.ids, token_roles(more, self._harness, acted=True).tolist())
            sampled_ids, first_new = (
                self._renderer.render_reply(_template_message(line.messages[position])),
                position + 1,
            )
            part.turns.append(self._turn(line, position, len(part.ids), len(sampled_ids)))
        if part.ids:
            part.add(sampled_ids, [ACTION] * len(sampled_ids))
            yield part

    def _extend(
        self, part: _RowBuilder, sampled_ids: list[int], line: Transcript, first_new: int, position: int
    ) -> TokenAttribution | None:
        """Returns the tokens of the messages since the last turn; None if the template cannot continue."""
        names = tool_call_names(line.messages[:first_new])
        return self._renderer.attribute_extension(part.ids, sampled_ids, line.messages[first_new:position], names)

    def _require_attribution(self, found: TokenAttribution | None) -> TokenAttribution:
        if found is None:
            raise UserError("it does not tell whose each token is: take a model with another renderer")
        return found

    def _turn(self, line: Transcript, position: int, start: int, length: int) -> TurnSpan:
        call = line.calls[position]
        known: dict[str, Any] = {}
        if self._facts is not None:
            known = self._facts.of_step(line.steps[position]) if call is None else self._facts.of_call(call)
        return TurnSpan(
            start=start,
            end=start + length,
            call=call or "",
            trained=line.own[position],
            pictures=stored_pictures(line.messages[:position]),
            **known,
        )


def _template_message(message: dict[str, Any]) -> dict[str, Any]:
    """Returns an assistant's message for a template, with arguments as written."""
    found: dict[str, Any] = {"role": "assistant", "content": content_text(message.get("content"))}
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    if isinstance(reasoning, str) and reasoning:
        found["reasoning_content"] = reasoning
    calls = message.get("tool_calls")
    functions = [c["function"] for c in calls or () if isinstance(c, dict) and isinstance(c.get("function"), dict)]
    if functions:
        found["tool_calls"] = [{"type": "function", "function": dict(function)} for function in functions]
    return found
