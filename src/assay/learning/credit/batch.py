"""Builds a credit batch from training rows, and writes credit back to rows.

An attempt's turns may be in several rows (branches, sub-agents); each turn is trained in one of them and counted there.
The reward is the verdict's; the environment's own rewards count only if configured.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np

from assay.learning.rows import TrainingRow, TurnSpan, spread_credit

from .actor_weights import ActorWeight, multiply_by_weight, weights_of_rows
from .compose import CreditConfig, compute_credit
from .evidence import count_attempts
from .interface import BROKE, NOT_JUDGED, OUTCOMES, UNKNOWN, Batch, Credit, make_batch

_NUMBER = re.compile(r"(?:(?:v|version|step|iteration|iter|policy)[-_ ]?)?(\d{1,15})", re.IGNORECASE)

_ACTOR = "@"


class Columns(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Maps row fields to batch columns."""

    reward: Literal["outcome", "score"] = "outcome"
    """`outcome`: 1 for a pass, 0 for a fail. `score`: the verdict's score where it has one."""
    turn_rewards: bool = False
    """Counts per-turn rewards. They are reported by the environment, not by a verifier."""
    versions: dict[str, int] = {}
    """Number of each weight version without a number in its name (`12`, `v12` and `step-12` have one)."""
    sub_agents: bool = False
    """Treats each sub-agent as an attempt of its own, with the outcome of its main attempt (required by `m-grpo`);
    else its turns belong to that attempt. So is each actor of a team, compared with the same actor of other
    attempts."""


class RowBatch(NamedTuple):
    """A batch and the origin of its turns."""

    batch: Batch
    positions: tuple[tuple[int, int], ...]
    """[T] row index, and index in its `turns`."""
    attempts: tuple[tuple[str, str, str], ...]
    """[A] run, chain, and first branch of a sub-agent, or `@` and the name of a team's actor; empty for the main
    agent."""


def build_batch(rows: Sequence[TrainingRow], columns: Columns | None = None, **extra: Any) -> RowBatch:
    """Builds a batch of the turns that the rows train.

    Args:
        rows: Of any attempts, in any order.
        columns: Maps row fields to columns.
        extra: Further columns by name: `value`, `entropy`, `final_value`, `without`; in the order of `positions` or
            `attempts`, which is the same for the same rows.

    Raises:
        ValueError: A column does not fit, or two rows of one attempt disagree about its outcome.
    """
    columns = columns or Columns()
    attempts: dict[tuple[str, str, str], int] = {}
    first: list[TrainingRow] = []
    roots = _sub_agent_roots(rows) if columns.sub_agents else {}
    positions: list[tuple[int, int | None, int, int]] = []
    for number, row in enumerate(rows):
        key = (row.run, row.chain, roots.get((row.run, row.chain, row.branch), ""))
        attempt = attempts.setdefault(key, len(attempts))
        if attempt == len(first):
            first.append(row)
        elif (first[attempt].outcome, first[attempt].integrity) != (row.outcome, row.integrity):
            raise ValueError(
                f"two rows of attempt {row.attempt!r} disagree: {first[attempt].outcome} and {row.outcome}"
            )
        for position, turn in enumerate(row.turns):
            if turn.trained:
                positions.append((attempt, turn.step, number, position))
    # By step where all steps are known: a branch may hold turns older than those of the row before it.
    orderless = {attempt for attempt, step, _, _ in positions if step is None}
    positions.sort(key=lambda entry: (entry[0], 0 if entry[0] in orderless else entry[1] or 0))
    states: dict[str, int] = {}
    batch = make_batch(
        attempt=np.fromiter((entry[0] for entry in positions), np.int64, len(positions)),
        **_of_attempts(first, [key[2] for key in attempts], columns),
        parent=_parents(rows, attempts, roots),
        **_of_turns(
            [(rows[number], rows[number].turns[position]) for _, _, number, position in positions],
            states,
            columns,
        ),
        final_state=_codes([row.final_state for row in first], states),
        **extra,
    )
    return RowBatch(batch, tuple(entry[2:] for entry in positions), tuple(attempts))


def _sub_agent_roots(rows: Sequence[TrainingRow]) -> dict[tuple[str, str, str], str]:
    """Returns, for each branch of a sub-agent, the sub-agent's first branch; of a team's actor that no other one
    handed its task to, the actor."""
    by_branch = {(row.run, row.chain, row.branch): row for row in rows}
    found = {}
    for run, chain, branch in by_branch:
        row, seen = by_branch.get((run, chain, branch)), set()
        while row is not None and row.cause != "sub_agent" and row.branch not in seen:
            seen.add(row.branch)
            row = by_branch.get((run, chain, row.parent or ""))
        if row is not None and row.cause == "sub_agent":
            found[run, chain, branch] = row.branch
        elif (actor := by_branch[run, chain, branch].actor) is not None:
            found[run, chain, branch] = _ACTOR + actor
    return found


def _parents(
    rows: Sequence[TrainingRow],
    attempts: Mapping[tuple[str, str, str], int],
    roots: Mapping[tuple[str, str, str], str],
) -> list[int]:
    parent_branches = {(row.run, row.chain, row.branch): row.parent for row in rows if row.cause == "sub_agent"}
    mains: dict[tuple[str, str], int] = {}
    for (run, chain, branch), number in attempts.items():
        if branch.startswith(_ACTOR):
            mains.setdefault((run, chain), number)
    found = []
    for run, chain, branch in attempts:
        if branch.startswith(_ACTOR):
            found.append(-1)
            continue
        caller = roots.get((run, chain, parent_branches.get((run, chain, branch)) or ""), "")
        found.append(attempts.get((run, chain, caller), mains.get((run, chain), -1)) if branch else -1)
    return found


def _of_attempts(rows: Sequence[TrainingRow], roots: Sequence[str], columns: Columns) -> dict[str, Any]:
    groups: dict[str, int] = {}
    names = [row.group + root * root.startswith(_ACTOR) for row, root in zip(rows, roots, strict=True)]
    return {
        "group": [groups.setdefault(name, len(groups)) for name in names],
        "reward": [_reward(row, columns) for row in rows],
        "outcome": [_outcome(row) for row in rows],
        "integrity": [NOT_JUDGED if row.integrity is None else OUTCOMES.index(row.integrity) for row in rows],
        "forked": [row.forked_from is not None for row in rows],
    }


def _reward(row: TrainingRow, columns: Columns) -> float:
    if columns.reward == "score" and row.score is not None:
        return float(row.score)
    return {"pass": 1.0, "fail": 0.0}.get(row.outcome or "", float("nan"))


def _outcome(row: TrainingRow) -> int:
    """Returns the outcome code; a pass that re-verification contradicts is `UNKNOWN`, failed integrity has its own
    column.

    What a program of the agent's left when it crashed is judged as what it left; where anything else broke, an outcome
    says nothing of the agent.
    """
    if row.broke is not None and (row.broke != "agent" or row.outcome not in ("pass", "fail")):
        return BROKE
    if row.outcome is None:
        return NOT_JUDGED
    doubted = row.outcome == "pass" and row.doubt is not None and row.integrity in (None, "pass")
    return UNKNOWN if doubted else OUTCOMES.index(row.outcome)


def _of_turns(
    turns: Sequence[tuple[TrainingRow, TurnSpan]], states: dict[str, int], columns: Columns
) -> dict[str, Any]:
    shares = [turn.progress for _, turn in turns]
    return {
        "turn_reward": [turn.reward for _, turn in turns] if columns.turn_rewards else 0.0,
        "state": _codes([turn.state for _, turn in turns], states),
        "tokens": [turn.end - turn.start for _, turn in turns],
        "version": [_version(turn.weight_version, columns.versions) for _, turn in turns],
        "logprob": [_mean_logprob(row, turn) for row, turn in turns],
        "error": [turn.error for _, turn in turns],
        "progress": None if all(share is None for share in shares) else [np.nan if s is None else s for s in shares],
    }


def _codes(digests: Iterable[str | None], codes: dict[str, int]) -> list[int]:
    return [-1 if digest is None else codes.setdefault(digest, len(codes)) for digest in digests]


def _mean_logprob(row: TrainingRow, turn: TurnSpan) -> float:
    if row.origin == "rendered" or turn.end <= turn.start:
        return float("nan")
    return float(np.mean(row.logprobs[turn.start : turn.end], dtype=np.float64))


def _version(version_name: str | None, codes: Mapping[str, int]) -> int:
    if version_name is None:
        return -1
    if version_name in codes:
        return codes[version_name]
    number = _NUMBER.fullmatch(version_name)
    return int(number[1]) if number else -1


def apply_credit(rows: Sequence[TrainingRow], row_batch: RowBatch, credit: Credit) -> list[TrainingRow]:
    """Returns rows with each turn's credit on its tokens; masked turns leave the loss mask."""
    numbers = [np.zeros(len(row.turns), dtype=np.float32) for row in rows]
    masks = [np.ones(len(row.turns), dtype=np.bool_) for row in rows]
    if len(row_batch.positions) != len(credit.advantage):
        raise ValueError(f"credit for {len(credit.advantage)} turns and a batch of {len(row_batch.positions)}")
    for turn, (number, position) in enumerate(row_batch.positions):
        numbers[number][position] = credit.advantage[turn]
        masks[number][position] = credit.mask[turn]
    return spread_credit(rows, numbers, masks)


class CreditedRows(NamedTuple):
    """Rows with credit, the credit, and its batch."""

    rows: list[TrainingRow]
    credit: Credit
    batch: Batch
    actors: Mapping[tuple[str, str], ActorWeight] = MappingProxyType({})
    """Weights by group and actor; empty unless they were asked for."""


def assign_credit(
    rows: Iterable[TrainingRow], config: CreditConfig | None = None, columns: Columns | None = None, **extra: Any
) -> CreditedRows:
    """Returns rows with credit as configured.

    Where no columns are given, sub-agents are attempts of their own for `m-grpo` and for nothing else.

    Raises:
        UserError: An option does not exist, or the rows lack what the method needs.
        ValueError: The rows make no batch.
    """
    listed = list(rows)
    config = config or CreditConfig()
    made = build_batch(listed, columns or Columns(sub_agents=config.method == "m-grpo"), **extra)
    credit = compute_credit(made.batch, config)
    if config.actors == "equal":
        return CreditedRows(apply_credit(listed, made, credit), credit, made.batch)
    weights = _weights(listed, made, config)
    of_turns = [(listed[number].group, listed[number].actor) for number, _ in made.positions]
    weighed = multiply_by_weight(credit.advantage.astype(np.float64), of_turns, weights).astype(np.float32)
    credit = credit._replace(advantage=weighed)
    return CreditedRows(apply_credit(listed, made, credit), credit, made.batch, weights)


def _weights(rows: Sequence[TrainingRow], made: RowBatch, config: CreditConfig) -> dict[tuple[str, str], ActorWeight]:
    """Returns the weights of actors by the attempts that count, with their rewards as the method sees them."""
    batch, cheated, used = made.batch, np.zeros(len(made.attempts), dtype=bool), ~np.isnan(made.batch.reward)
    if config.evidence == "aware":
        batch, reasons, cheated = count_attempts(
            batch, dishonest=config.dishonest, need_integrity=config.need_integrity
        )
        used &= reasons == ""
    outcomes = {made.attempts[at][:2]: float(batch.reward[at]) for at in np.flatnonzero(used)}
    return weights_of_rows(rows, outcomes, {made.attempts[at][:2] for at in np.flatnonzero(cheated)})
