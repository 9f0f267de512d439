"""Training rows: one line of model calls as flat columns over its tokens.

Each sampled token was sampled under exactly the tokens before it: rows consist of certified spans
(`assay.gateway.tokens.rows`), and no text is tokenized again. Rows of `origin` "rendered" are the exception: their runs
have no tokens.

Invariants, validated by `check_row`: all columns of a row have its length; `loss_mask` holds tokens of trained spans
only; `logprobs` is 0 off the spans, and `advantages` off the mask; all numbers are finite except unknown
log-probabilities. A sampled token is trained in one row of its attempt; `shared` is the number of leading tokens that
an earlier row of the attempt holds, so that other tokens count once too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from assay.records import BranchCause, Separation, VerdictStatus

ROLES = ("template", "prompt", "action", "observation", "warning", "unknown")
"""Token roles: template scaffolding; prompt before the first action; sampled by the model; returned by the environment;
written by the harness instead (malformed call, guard's refusal); unknown."""
TEMPLATE, PROMPT, ACTION, OBSERVATION, WARNING, UNKNOWN = range(6)
WEIGHTS = ("rl", "ce", "ref_kl")
"""Weight streams: policy gradient, cross-entropy, divergence from a reference."""


class TurnSpan(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Tokens sampled by one model call: positions `start` to `end` of its row."""

    start: int
    end: int
    call: str
    step: int | None = None
    """Index of its step; None if the agent made none of it."""
    state: str | None = None
    """State digest before the turn, or the name of the task's initial state; None if not observed."""
    weight_version: str | None = None
    """Version of the weights that sampled the first token; `TrainingRow.versions` has each token's."""
    certified: bool = False
    trained: bool = True
    """False for context trained in another row, and for uncertified spans."""
    sampling: dict[str, Any] = {}
    """Sampling options, as far as known: `temperature`, `top_p`, `top_k`, `min_p`, `seed`."""
    finish: str | None = None
    """Finish reason: `stop`, `tool_calls`, or `length`."""
    reward: float = 0.0
    """Reward of this turn alone: the environment's, unless `turn_rewards` of the export says otherwise."""
    error: bool = False
    """True if the action failed."""
    progress: float | None = None
    """Share of the goal reached after the turn, in [0, 1], if reported."""
    pictures: tuple[str, ...] = ()
    """Digests of the pictures in the turn's request, which are in the blob store. The row holds none of them: in their
    place are words, or the tokens that the server put there."""


class TrainingRow(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """One line of calls. N is its length in tokens."""

    token_ids: NDArray[np.int32]
    """[N]"""
    roles: NDArray[np.uint8]
    """[N] indices of `ROLES`."""
    loss_mask: NDArray[np.bool_]
    """[N] tokens that are trained."""
    logprobs: NDArray[np.float32]
    """[N] under the sampling distribution, in nats; 0 where not sampled, NaN if unknown."""
    advantages: NDArray[np.float32] | None = None
    """[N] None before credit assignment; 0 off the mask."""
    weights: dict[str, NDArray[np.float32]] = {}
    """[N] each; names in `WEIGHTS`. A missing stream is the loss mask for `rl` and 0 otherwise."""
    versions: NDArray[np.int16]
    """[N] index of `weight_versions`; -1 if not sampled or unknown."""
    weight_versions: tuple[str, ...] = ()
    """The versions of its weights; also those that are of no known token (`unplaced_versions`)."""
    temperature: float | None = None
    """Temperature of all sampled tokens; None if unknown or mixed (see `TurnSpan.sampling`)."""
    origin: Literal["sampled", "rendered"] = "sampled"
    shared: int = 0
    """Leading tokens shared with an earlier row of the same attempt, not trained here."""
    run: str
    chain: str
    attempt: str
    group: str
    """Group of competing attempts: same run, task, initial state, agent and model."""
    task: str
    agent: str
    model: str | None = None
    tokenizer: str | None = None
    """Content digest of the tokenizer; None if unknown."""
    branch: str
    turns: tuple[TurnSpan, ...]
    outcome: VerdictStatus | None = None
    score: float | None = None
    integrity: VerdictStatus | None = None
    """None if not judged."""
    process: VerdictStatus | None = None
    safety: VerdictStatus | None = None
    doubt: str | None = None
    """Reason to doubt a pass, or None."""
    ended: str | None = None
    stopped: str | None = None
    broke: str | None = None
    final_state: str | None = None
    """State digest after the attempt's last turn."""
    cause: BranchCause | None = None
    """Cause of this branch; `sub_agent` if another agent's began."""
    parent: str | None = None
    """Parent branch in the same attempt."""
    attempt_rows: int = 1
    """Number of rows of its attempt, for losses that weigh attempts equally."""
    separation: Separation = "unknown"
    """Separation grade of the outcome: isolation of the deciding process from what the agent wrote."""
    actor: str | None = None
    """Name of the actor of a team whose calls these are; None outside teams. The outcome is the whole team's."""
    forked_from: str | None = None
    """Digest of the recorded state that the attempt continues from; None for one that begins with its task."""

    def __len__(self) -> int:
        """Tokens."""
        return len(self.token_ids)

    @property
    def verified_pass(self) -> bool:
        """True for an undoubted pass."""
        return self.outcome == "pass" and self.doubt is None

    @property
    def unplaced_versions(self) -> tuple[str, ...]:
        """The versions that a server named without saying for which tokens: any of the row's may be of them."""
        placed = set(self.versions.tolist())
        return tuple(name for number, name in enumerate(self.weight_versions) if number not in placed)


def check_row(row: TrainingRow) -> None:
    """Validates a row. Raises `ValueError` naming the first violated invariant."""
    problem = next(_problems(row), None)
    if problem is not None:
        raise ValueError(f"row {row.branch!r} of attempt {row.attempt!r}: {problem}")


def _problems(row: TrainingRow) -> Iterator[str]:
    length = len(row.token_ids)
    columns: dict[str, NDArray[Any] | None] = {name: getattr(row, name) for name in _COLUMNS}
    columns |= {f"weights[{name!r}]": column for name, column in row.weights.items()}
    for name, column in columns.items():
        if column is not None and column.shape != (length,):
            yield f"{name} has shape {column.shape}, expected ({length},)"
            return
    unknown = sorted(row.weights.keys() - set(WEIGHTS))
    if unknown:
        yield f"a weight stream is called {unknown[0]!r}; they are called {', '.join(WEIGHTS)}"
    trained, sampled = np.zeros(length, dtype=np.bool_), np.zeros(length, dtype=np.bool_)
    end = 0
    for turn in row.turns:
        if not end <= turn.start <= turn.end <= length:
            yield f"turn of call {turn.call} stands at {turn.start}:{turn.end}, after {end} and in {length} tokens"
            return
        end = turn.end
        trained[turn.start : turn.end] = turn.trained
        sampled[turn.start : turn.end] = True
    yield from _wrong_numbers(row, sampled)
    if bool(np.any(row.loss_mask & ~trained)):
        yield f"token {int(np.argmax(row.loss_mask & ~trained))} is in the loss mask and in no trained turn"
    if length and (int(row.token_ids.min()) < 0 or int(row.roles.max()) >= len(ROLES)):
        yield "a token is negative, or a role is not in ROLES"
    if length and not -1 <= int(row.versions.min()) <= int(row.versions.max()) < len(row.weight_versions):
        yield f"a token names weight version {int(row.versions.max())} of {len(row.weight_versions)}"
    if not 0 <= row.shared <= length or row.attempt_rows < 1:
        yield f"it shares {row.shared} of {length} tokens, and is one of {row.attempt_rows} rows"


def _wrong_numbers(row: TrainingRow, sampled: NDArray[np.bool_]) -> Iterator[str]:
    """Yields invalid or misplaced numbers."""
    if bool(np.any(np.isinf(row.logprobs))) or bool(np.any(row.logprobs[~sampled] != 0)):
        yield "a log-probability is infinite, or stands where nothing was sampled"
    values = row.advantages
    if values is not None and (not np.all(np.isfinite(values)) or bool(np.any(values[~row.loss_mask] != 0))):
        yield "an advantage is not finite, or stands off the loss mask"
    for name, stream in row.weights.items():
        if not np.all(np.isfinite(stream)):
            yield f"weights[{name!r}] are not finite"
    numbers = [row.score, row.temperature, *(turn.reward for turn in row.turns), *(turn.progress for turn in row.turns)]
    if not all(number is None or math.isfinite(number) for number in numbers):
        yield "a score, reward, progress or temperature is not finite"


_COLUMNS = ("token_ids", "roles", "loss_mask", "logprobs", "advantages", "versions")


def spread_credit(
    rows: Sequence[TrainingRow], turn_advantages: Sequence[Any], masks: Sequence[Any] | None = None
) -> list[TrainingRow]:
    """Returns rows with each turn's credit on its trained tokens.

    `turn_advantages` has, for each row, a number a turn; a turn that is not trained here takes its credit in the row
    that trains it. `masks` likewise has a truth a turn; False takes the turn out of the loss mask (unknown is not
    zero).

    Raises:
        ValueError: A row and its numbers differ in length, or a number is not finite.
    """
    if len(rows) != len(turn_advantages) or (masks is not None and len(masks) != len(rows)):
        raise ValueError(f"{len(rows)} rows and credit for {len(turn_advantages)}")
    turn_masks: Sequence[Any] = [None] * len(rows) if masks is None else masks
    return [_spread_row(row, values, mask) for row, values, mask in zip(rows, turn_advantages, turn_masks, strict=True)]


def _spread_row(row: TrainingRow, values: Any, mask: Any) -> TrainingRow:
    numbers = np.asarray(values, dtype=np.float32)
    if numbers.shape != (len(row.turns),) or not np.all(np.isfinite(numbers)):
        raise ValueError(f"row {row.branch!r}: expected {len(row.turns)} finite numbers, one a turn, got {values!r}")
    advantages, loss_mask = np.zeros(len(row), dtype=np.float32), row.loss_mask.copy()
    for position, turn in enumerate(row.turns):
        if mask is not None and not mask[position]:
            loss_mask[turn.start : turn.end] = False
        advantages[turn.start : turn.end] = numbers[position]
    advantages[~loss_mask] = 0
    return msgspec.structs.replace(row, advantages=advantages, loss_mask=loss_mask)
