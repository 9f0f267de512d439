"""From training rows to columns, and credit back onto rows.

An attempt's turns may lie in several rows (branches, sub-agents); each turn is trained in one of them, and only there
it is a turn of the batch. The reward is the verdict's, never what the world reported, unless it is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np

from assay.learning.rows import TrainingRow, TurnSpan, spread

from .compose import CreditConfig, credit_of
from .interface import BROKE, NOT_JUDGED, OUTCOMES, UNKNOWN, Batch, Credit, batch

__all__ = ["Batched", "Columns", "batch_of", "credited", "onto"]

_NUMBER = re.compile(r"(?:(?:v|version|step|iteration|iter|policy)[-_ ]?)?(\d{1,15})", re.IGNORECASE)


class Columns(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What of a row becomes which column."""

    reward: Literal["outcome", "score"] = "outcome"
    """`outcome`: 1 for a pass, 0 for a fail. `score`: the verdict's score where it has one."""
    turn_rewards: bool = False
    """Whether what the world gave on the way counts. It comes from the world, not from a verifier."""
    versions: dict[str, int] = {}
    """Number of each weight version that is not one itself (`12`, `v12` and `step-12` are)."""
    sub_agents: bool = False
    """Whether each sub-agent is an attempt of its own, with the outcome of the one that it worked for (`m-grpo` needs
    it); else its turns are turns of that attempt."""


class Batched(NamedTuple):
    """A batch and where its turns come from."""

    batch: Batch
    places: tuple[tuple[int, int], ...]
    """[T] row, and position in its `turns`."""
    attempts: tuple[tuple[str, str, str], ...]
    """[A] run, chain, and branch with which a sub-agent began; empty for the main agent."""


def batch_of(rows: Sequence[TrainingRow], columns: Columns | None = None, **extra: Any) -> Batched:
    """The turns that the rows train, as one batch.

    Args:
        rows: Of any attempts; an attempt's rows need not stand together.
        columns: What becomes what.
        extra: Columns that no row has, by name: `value`, `entropy`, `final_value`, `without`; in the order of `places`
            or `attempts`, which is the same for the same rows.

    Raises:
        ValueError: A column does not fit, or two rows of one attempt disagree about its outcome.
    """
    given = columns or Columns()
    attempts: dict[tuple[str, str, str], int] = {}
    first: list[TrainingRow] = []
    began = _began(rows) if given.sub_agents else {}
    places: list[tuple[int, int | None, int, int]] = []
    for number, row in enumerate(rows):
        key = (row.run, row.chain, began.get((row.run, row.chain, row.branch), ""))
        at = attempts.setdefault(key, len(attempts))
        if at == len(first):
            first.append(row)
        elif (first[at].outcome, first[at].integrity) != (row.outcome, row.integrity):
            raise ValueError(f"two rows of attempt {row.attempt!r} disagree: {first[at].outcome} and {row.outcome}")
        for position, turn in enumerate(row.turns):
            if turn.trained:
                places.append((at, turn.step, number, position))
    # By step where all steps are known: a branch may hold turns older than those of the row before it.
    orderless = {at for at, step, _, _ in places if step is None}
    places.sort(key=lambda place: (place[0], 0 if place[0] in orderless else place[1] or 0))
    states: dict[str, int] = {}
    made = batch(
        attempt=np.fromiter((place[0] for place in places), np.int64, len(places)),
        **_of_attempts(first, given),
        parent=_parents(rows, attempts, began),
        **_of_turns([(rows[number], rows[number].turns[position]) for _, _, number, position in places], states, given),
        final_state=_codes([row.final_state for row in first], states),
        **extra,
    )
    return Batched(made, tuple(place[2:] for place in places), tuple(attempts))


def _began(rows: Sequence[TrainingRow]) -> dict[tuple[str, str, str], str]:
    """Branch to the branch with which its sub-agent began; branches of main agents are not in it."""
    held = {(row.run, row.chain, row.branch): row for row in rows}
    found = {}
    for run, chain, branch in held:
        at, seen = held.get((run, chain, branch)), set()
        while at is not None and at.cause != "sub_agent" and at.branch not in seen:
            seen.add(at.branch)
            at = held.get((run, chain, at.parent or ""))
        if at is not None and at.cause == "sub_agent":
            found[run, chain, branch] = at.branch
    return found


def _parents(
    rows: Sequence[TrainingRow],
    attempts: Mapping[tuple[str, str, str], int],
    began: Mapping[tuple[str, str, str], str],
) -> list[int]:
    left = {(row.run, row.chain, row.branch): row.parent for row in rows if row.cause == "sub_agent"}
    found = []
    for run, chain, branch in attempts:
        caller = began.get((run, chain, left.get((run, chain, branch)) or ""), "")
        found.append(attempts.get((run, chain, caller), -1) if branch else -1)
    return found


def _of_attempts(first: Sequence[TrainingRow], given: Columns) -> dict[str, Any]:
    groups: dict[str, int] = {}
    return {
        "group": [groups.setdefault(row.group, len(groups)) for row in first],
        "reward": [_reward(row, given) for row in first],
        "outcome": [_outcome(row) for row in first],
        "integrity": [NOT_JUDGED if row.integrity is None else OUTCOMES.index(row.integrity) for row in first],
    }


def _reward(row: TrainingRow, given: Columns) -> float:
    if given.reward == "score" and row.score is not None:
        return float(row.score)
    return {"pass": 1.0, "fail": 0.0}.get(row.outcome or "", float("nan"))


def _outcome(row: TrainingRow) -> int:
    """A pass that did not hold when it was judged again is not known to be one; doubt of integrity has its column.

    What a program of the agent's left when it crashed is judged as what it left; where anything else broke, an outcome
    says nothing of the agent.
    """
    if row.broke is not None and (row.broke != "agent" or row.outcome not in ("pass", "fail")):
        return BROKE
    if row.outcome is None:
        return NOT_JUDGED
    doubted = row.outcome == "pass" and row.doubt is not None and row.integrity in (None, "pass")
    return UNKNOWN if doubted else OUTCOMES.index(row.outcome)


def _of_turns(held: Sequence[tuple[TrainingRow, TurnSpan]], states: dict[str, int], given: Columns) -> dict[str, Any]:
    shares = [turn.progress for _, turn in held]
    return {
        "turn_reward": [turn.reward for _, turn in held] if given.turn_rewards else 0.0,
        "state": _codes([turn.state for _, turn in held], states),
        "tokens": [turn.end - turn.start for _, turn in held],
        "version": [_version(turn.weight_version, given.versions) for _, turn in held],
        "logprob": [_likely(row, turn) for row, turn in held],
        "error": [turn.error for _, turn in held],
        "progress": None if all(share is None for share in shares) else [np.nan if s is None else s for s in shares],
    }


def _codes(digests: Iterable[str | None], known: dict[str, int]) -> list[int]:
    return [-1 if digest is None else known.setdefault(digest, len(known)) for digest in digests]


def _likely(row: TrainingRow, turn: TurnSpan) -> float:
    if row.origin == "rendered" or turn.end <= turn.start:
        return float("nan")
    return float(np.mean(row.logprobs[turn.start : turn.end], dtype=np.float64))


def _version(said: str | None, known: Mapping[str, int]) -> int:
    if said is None:
        return -1
    if said in known:
        return known[said]
    number = _NUMBER.fullmatch(said)
    return int(number[1]) if number else -1


def onto(rows: Sequence[TrainingRow], held: Batched, credit: Credit) -> list[TrainingRow]:
    """The rows with each turn's credit on its tokens; turns that are masked leave the loss mask.

    Raises:
        ValueError: The rows are not those that the batch was made of.
    """
    numbers = [np.zeros(len(row.turns), dtype=np.float32) for row in rows]
    masks = [np.ones(len(row.turns), dtype=np.bool_) for row in rows]
    if len(held.places) != len(credit.advantage):
        raise ValueError(f"credit for {len(credit.advantage)} turns and a batch of {len(held.places)}")
    for turn, (number, position) in enumerate(held.places):
        numbers[number][position] = credit.advantage[turn]
        masks[number][position] = credit.mask[turn]
    return spread(rows, numbers, masks)


class Given(NamedTuple):
    """Rows with credit, and what became of their turns."""

    rows: list[TrainingRow]
    credit: Credit
    batch: Batch


def credited(
    rows: Iterable[TrainingRow], config: CreditConfig | None = None, columns: Columns | None = None, **extra: Any
) -> Given:
    """Rows with credit as configured.

    Where no columns are given, sub-agents are attempts of their own for `m-grpo` and for nothing else.

    Raises:
        UserError: An option does not exist, or the rows lack what the method needs.
        ValueError: The rows make no batch.
    """
    held = list(rows)
    asked = config or CreditConfig()
    made = batch_of(held, columns or Columns(sub_agents=asked.method == "m-grpo"), **extra)
    given = credit_of(made.batch, asked)
    return Given(onto(held, made, given), given, made.batch)
