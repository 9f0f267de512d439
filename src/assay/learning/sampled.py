"""Training rows of sampled tokens: one per line of calls, from certified spans only.

Covered: a span without a certificate, or with an incomplete chain, is refused, or masked and reported; an imported
record cannot certify itself. Not covered: the integrity of the hash chain, which `reading` verifies first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np

from assay.formats.shared.output_files import outcome_verdict
from assay.gateway.tokens import AttributingRenderer, TokenRow, TokenSpan, UncertifiedSpan, build_token_rows
from assay.gateway.tokens.rows import Uncertified
from assay.records import ModelCall, Separation, SpanProof, Trajectory
from assay.store import restore_messages
from assay.store.calls import shared_prefix
from assay.verdicts import current_verdicts_of, is_imported_record, trust_of

from .conversation import stored_pictures
from .roles import HarnessMessages, Roles, prompt_roles
from .rows import ACTION, TrainingRow, TurnSpan
from .turn_facts import TurnFacts, forked_from

_SAMPLING_OPTIONS = ("temperature", "top_p", "top_k", "min_p", "seed")


def sampled_rows(
    trajectory: Trajectory,
    *,
    renderer: AttributingRenderer | None = None,
    tokenizer: str | None = None,
    uncertified: Uncertified = "refuse",
    on_refused: Callable[[UncertifiedSpan], None] | None = None,
    require: Separation = "unknown",
) -> list[TrainingRow]:
    """Returns the rows of an attempt, in the order in which its lines of calls end; empty if no tokens are known.

    Without a renderer the roles of prompt tokens are `unknown`. Uncertified spans are handled as `uncertified` says:
    `refuse` raises; `mask` keeps them as context; `keep` trains them all the same, with `TurnSpan.certified` False; the
    last two are logged and passed to `on_refused`. `require` is the weakest grade of separation at which a pass is not
    doubted.

    Raises:
        UserError: A span is not certified and `uncertified` is `refuse`.
    """
    calls = _calls(trajectory)
    found, refused = build_token_rows(calls.values(), uncertified=uncertified)
    if on_refused is not None:
        for one in refused:
            on_refused(one)
    if not found:
        return []
    builder = _RowBuilder(trajectory, calls, renderer)
    before: list[bytes] = []
    common = attempt_fields(trajectory, require) | {"attempt_rows": len(found), "tokenizer": tokenizer}
    # A row that trains a span comes before those that hold it as context, so that context is what was there before.
    return [builder.row(row, before, common) for row in sorted(found, key=_first_trained)]


def _first_trained(row: TokenRow) -> int:
    return next((span.start for span in row.spans if span.trained), len(row.token_ids))


def _calls(trajectory: Trajectory) -> dict[str, ModelCall]:
    calls = {call.id: call for call in trajectory.calls}
    if not is_imported_record(trajectory.started):
        return calls
    imported = SpanProof(certified=False, reason="it was imported: its sampling context was not recorded here")
    replace = msgspec.structs.replace
    return {name: replace(c, certificate=imported) if c.completion_token_ids else c for name, c in calls.items()}


def attempt_fields(trajectory: Trajectory, require: Separation = "unknown") -> dict[str, Any]:
    """Returns the attempt's fields of a row."""
    verdict, finished = outcome_verdict(trajectory), trajectory.finished
    current, trust = current_verdicts_of(trajectory), trust_of(trajectory, require=require)
    return {
        "run": trajectory.run,
        "chain": trajectory.chain,
        "attempt": trajectory.attempt,
        "group": group_name(trajectory),
        "task": trajectory.task,
        "agent": trajectory.agent,
        "model": trajectory.model,
        "outcome": trajectory.outcome,
        "score": verdict.score if verdict is not None else None,
        "doubt": trust.doubt,
        "ended": finished.ended if finished else None,
        "stopped": finished.stopped if finished else None,
        "broke": finished.broke if finished else None,
        "final_state": next((step.state for step in reversed(trajectory.steps) if step.state is not None), None),
        "integrity": current.integrity,
        "process": current.process,
        "safety": current.safety,
        "separation": trust.separation,
        "forked_from": forked_from(trajectory),
    }


def group_name(trajectory: Trajectory) -> str:
    """Returns the group of an attempt: run, task, agent, model and initial state, which is a snapshot for a forked
    attempt."""
    parts = trajectory.run, trajectory.task_digest, trajectory.agent, trajectory.model, forked_from(trajectory)
    return "|".join(str(part or "") for part in parts)


class _RowBuilder:
    def __init__(
        self, trajectory: Trajectory, calls: dict[str, ModelCall], renderer: AttributingRenderer | None
    ) -> None:
        self._calls = calls
        self._facts = TurnFacts(trajectory)
        self._has_pictures = any(stored_pictures(call.request.get("messages") or ()) for call in calls.values())
        words = HarnessMessages(trajectory.steps)
        self._roles: dict[str, Roles] = {
            call.id: prompt_roles(calls, call, renderer, words)
            for call in calls.values()
            if call.prompt_token_ids is not None
        }

    def row(self, row: TokenRow, before: list[bytes], common: dict[str, Any]) -> TrainingRow:
        """Builds a row. `before` holds the tokens of earlier rows; its own are added."""
        pieces = self._pieces(row)
        turns = tuple(self._turn(span) for span in row.spans)
        versions, names = _versions(row)
        temperatures = {turn.sampling.get("temperature") for turn in turns if turn.trained}
        first_trained = next((span for span in row.spans if span.trained), row.spans[-1])
        first = self._calls[first_trained.call]
        token_ids = np.array(row.token_ids, dtype=np.int32)
        token_bytes = token_ids.tobytes()
        shared = max((shared_prefix(other, token_bytes) for other in before), default=0) // token_ids.itemsize
        before.append(token_bytes)
        return TrainingRow(
            token_ids=token_ids,
            roles=self._roles_of(pieces, len(row.token_ids)),
            loss_mask=np.array(row.mask, dtype=np.bool_),
            logprobs=_logprobs(row),
            versions=versions,
            weight_versions=names,
            temperature=float(value)
            if len(temperatures) == 1 and (value := next(iter(temperatures))) is not None
            else None,
            shared=min(shared, _first_trained(row)),
            branch=row.branch,
            cause=first.cause,
            parent=self._parent(first),
            actor=first.actor_name,
            turns=turns,
            **common,
        )

    def _parent(self, first: ModelCall) -> str | None:
        left = self._calls.get(first.parent or "")
        return left.branch or left.id if left is not None else None

    def _pieces(self, row: TokenRow) -> list[tuple[str, int, int]]:
        """Returns (call, start, end) of each call's own tokens in a row."""
        found: list[tuple[str, int, int]] = []
        needed = len(row.token_ids)
        call: ModelCall | None = self._calls[row.spans[-1].call]
        while call is not None and needed > 0:
            if needed > call.shared_tokens:
                found.append((call.id, call.shared_tokens, needed))
                needed = call.shared_tokens
            call = self._calls.get(call.parent or "")
        return found[::-1]

    def _roles_of(self, pieces: Sequence[tuple[str, int, int]], length: int) -> Roles:
        roles = np.full(length, ACTION, dtype=np.uint8)
        for name, start, end in pieces:
            own = self._roles[name][: end - start]
            roles[start : start + len(own)] = own
        return roles

    def _turn(self, span: TokenSpan) -> TurnSpan:
        call, facts = self._calls[span.call], self._facts.of_call(span.call)
        if call.state is not None:
            facts["state"] = call.state
        return TurnSpan(
            start=span.start,
            end=span.end,
            call=span.call,
            weight_version=span.weight_version,
            certified=span.certified,
            trained=span.trained,
            sampling=_sampling(call),
            finish=_finish(call),
            pictures=stored_pictures(restore_messages(self._calls, call)) if self._has_pictures else (),
            **facts,
        )


def _versions(row: TokenRow) -> tuple[np.ndarray[Any, np.dtype[np.int16]], tuple[str, ...]]:
    """Returns each token's index into the names of the weight versions, -1 if unknown, and the names.

    Where a server names several versions without positions, all tokens count as the first one's, and the others are
    named all the same, so that a bound on their age can hold for each.
    """
    versions = np.full(len(row.token_ids), -1, dtype=np.int16)
    numbers: dict[str, int] = {}
    for span in row.spans:
        start = span.start
        if span.weight_version is not None:
            versions[start : span.end] = numbers.setdefault(span.weight_version, len(numbers))
        for part in span.weight_spans:
            number = numbers.setdefault(part.version, len(numbers))
            if part.end is not None:
                end = min(span.start + part.end, span.end)
                versions[start:end] = number
                start = end
    return versions, tuple(numbers)


def _logprobs(row: TokenRow) -> np.ndarray[Any, np.dtype[np.float32]]:
    found = np.zeros(len(row.token_ids), dtype=np.float32)
    for span in row.spans:
        found[span.start : span.end] = [math.nan if p is None else p for p in row.logprobs[span.start : span.end]]
    return found


def _sampling(call: ModelCall) -> dict[str, Any]:
    """Returns the sampling options as used by the gateway, which may force some, else as requested."""
    details = (call.response or {}).get("assay")
    used = details.get("sampling") if isinstance(details, dict) else None
    options = used if isinstance(used, dict) else call.sampling
    return {name: options[name] for name in _SAMPLING_OPTIONS if isinstance(options.get(name), int | float)}


def _finish(call: ModelCall) -> str | None:
    choices = (call.response or {}).get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    finish = first.get("finish_reason") if isinstance(first, dict) else None
    return finish if isinstance(finish, str) else None
