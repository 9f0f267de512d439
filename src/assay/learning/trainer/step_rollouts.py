"""Where a recipe's attempts come from: runs of this process, or batches of a rollout service.

The service is asked for batches ahead of the training, as far as the bound on staleness allows. What a step trained on
is acknowledged after the step's checkpoint, and the new weights are posted last: a trainer that is killed anywhere
takes the same groups again, or none of them.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from assay.errors import UserError
from assay.learning.row_json import row_from_json
from assay.learning.rows import TrainingRow
from assay.learning.service.config import AcknowledgeRequest, BatchRequest, PolicyRequest, VersionRequest
from assay.learning.service.groups import GroupAttempt

from .policy import TrainedPolicy, atomic_folder
from .recipe import ImproveRecipe
from .rollouts import (
    EndedAttempt,
    TaskSelection,
    TrainingStoppedError,
    find_lost,
    longest_lost_streak,
)
from .service_client import ServiceClient

PAGE_GROUPS = 50
WAIT_S = 20
"""Seconds for which the service waits for a group before it answers."""


class StepAttempts(NamedTuple):
    """The attempts of one training step."""

    run: str
    rows: list[TrainingRow]
    """By task and attempt."""
    counts: dict[str, Any]
    """`attempts`, and `dropped` by reason."""


class StepRollouts(Protocol):
    """Makes attempts with the weights that the trainer publishes."""

    async def publish(self, step: int, policy: TrainedPolicy) -> None:
        """Makes the weights after `step` steps those that act, once the step's checkpoint is written."""
        ...

    async def attempt(self, step: int) -> StepAttempts:
        """Returns the attempts of a step. Raises `TrainingStoppedError` if too many in a row were lost."""
        ...

    def state(self) -> dict[str, Any]:
        """Returns what the step's checkpoint must hold."""
        ...


def count_lost(ended: Sequence[EndedAttempt], run: str, most_in_a_row: int) -> dict[str, Any]:
    """Returns the number of attempts and of lost ones by reason. Raises `TrainingStoppedError` for a long streak."""
    streak = longest_lost_streak(ended)
    if len(streak) >= most_in_a_row:
        raise TrainingStoppedError(
            f"{len(streak)} attempts of run {run} in a row were lost (the last: {streak[-1].attempt}, "
            f"{streak[-1].reason}): see `assay ls --run {run}`. Training stops rather than learn from the rest"
        )
    reasons: dict[str, int] = {}
    for one in find_lost(ended):
        reasons[one.reason] = reasons.get(one.reason, 0) + 1
    return {"attempts": len(ended), "dropped": reasons}


class _HandedGroup(msgspec.Struct, frozen=True):
    """A group as the service hands it over."""

    id: str
    task: str
    attempts: tuple[GroupAttempt, ...]
    rows: list[Any] = []
    dropped: str | None = None


class _Page(msgspec.Struct, frozen=True):
    next: int
    end: bool
    state: str
    groups: tuple[_HandedGroup, ...]


class ServiceRollouts:
    """Attempts by a rollout service. Implements `StepRollouts`.

    Args:
        recipe: The recipe, whose `rollout.service` is set.
        name: Prefix of the batches.
        tasks_of: Returns the tasks of a step.
        state: What the newest checkpoint holds of `state`.
    """

    def __init__(
        self,
        recipe: ImproveRecipe,
        name: str,
        tasks_of: Callable[[int], TaskSelection],
        state: Mapping[str, Any] | None,
    ) -> None:
        options = recipe.rollout.service
        assert options is not None
        self._recipe, self._options, self._name = recipe, options, name
        self._tasks_of = lru_cache(recipe.policy_gradient.most_lag + 2)(tasks_of)
        certificate = None if options.certificate is None else Path(options.certificate)
        self._client = ServiceClient(options.url, Path(options.token_file), certificate, options.patience_s)
        self._cursors: dict[str, int] = dict(state or {})
        """Cursor after the groups of the last step, by batch."""

    async def publish(self, step: int, policy: TrainedPolicy) -> None:
        """Writes the weights, acknowledges the step's groups, posts the version, and asks for the batches that it
        admits."""
        version = version_name(policy.version)
        folder = Path(self._options.weights)
        if not (folder / version / "config.json").is_file():
            with atomic_folder(folder / version) as partial:
                policy.save(partial)
        for batch, cursor in self._cursors.items():
            await self._client.post("batches", batch, "acknowledge", body=AcknowledgeRequest(cursor))
        await self._client.post("policies", self._options.policy, "versions", body=VersionRequest(version, step))
        self._forget(folder, version)
        for ahead in range(step + 1, min(self._recipe.steps, step + 1 + self._most_lag) + 1):
            await self._client.post("batches", body=self._request(ahead))

    @property
    def _most_lag(self) -> int:
        return self._recipe.policy_gradient.most_lag

    def _forget(self, folder: Path, version: str) -> None:
        """Deletes the weights that no batch can begin with: all but the present ones and those before them."""
        written = [path for path in folder.iterdir() if path.name.startswith(_PREFIX) and path.is_dir()]
        # A kill may have left a partial folder, which is the oldest.
        written.sort(key=lambda path: (path.name == version, path.suffix != ".partial", path.stat().st_mtime_ns))
        for path in written[:-2]:
            shutil.rmtree(path, ignore_errors=True)

    def _request(self, step: int) -> BatchRequest:
        rollout = self._recipe.rollout
        return BatchRequest(
            id=self._batch(step),
            policy=PolicyRequest(self._options.policy),
            tasks=self._tasks_of(step).names,
            agent=rollout.agent,
            agent_options=rollout.agent_options,
            attempts=rollout.attempts,
            seed=seed_of_step(self._recipe, step),
            limits=rollout.limits,
            credit=None,
            step=step - 1,
            most_lag=self._most_lag,
        )

    def _batch(self, step: int) -> str:
        return f"{self._name}-step-{step:04d}"

    async def attempt(self, step: int) -> StepAttempts:
        """Waits for all groups of the step's batch, and returns their attempts.

        Raises:
            TrainingStoppedError: Too many attempts in a row were lost, or the batch failed.
            UserError: Another training of this name took groups of the batch, or an answer is invalid.
        """
        batch = self._batch(step)
        groups, cursor = await self._take(batch)
        expected = len(self._tasks_of(step).loaded)
        if len(groups) != expected:
            raise UserError(
                f"batch {batch!r} gave {len(groups)} groups of {expected}: the others were acknowledged by another "
                "training of this name. Choose another name"
            )
        self._cursors = {batch: cursor}
        groups.sort(key=lambda group: group.task)
        ended = [attempt for group in groups for attempt in group.attempts]
        counts = count_lost(ended, f"batch-{batch}", self._recipe.rollout.most_lost_in_a_row)
        for group in groups:
            if group.dropped is not None:
                counts["dropped"][group.dropped] = counts["dropped"].get(group.dropped, 0) + len(group.attempts)
        rows = [_own_versions(row_from_json(row)) for group in groups for row in group.rows]
        counts["groups"] = [group.id for group in groups if group.dropped is None]
        return StepAttempts(f"batch-{batch}", rows, counts)

    async def _take(self, batch: str) -> tuple[list[_HandedGroup], int]:
        """Returns the groups of a batch that are not acknowledged, and the cursor after them."""
        groups: list[_HandedGroup] = []
        query = {"most": PAGE_GROUPS, "wait": WAIT_S}
        while True:
            data = await self._client.get("batches", batch, "groups", **query)
            try:
                page = msgspec.convert(data, _Page)
            except msgspec.ValidationError as exc:
                raise UserError(f"the rollout service sent an invalid page of batch {batch!r}: {exc}") from exc
            groups += page.groups
            query["after"] = page.next
            if page.end:
                if page.state != "done":
                    status = await self._client.get("batches", batch)
                    raise TrainingStoppedError(
                        f"batch {batch!r} of the rollout service is {page.state}: {status.get('error', 'cancelled')}"
                    )
                return groups, page.next

    def state(self) -> dict[str, Any]:
        """Returns the cursor to acknowledge after the checkpoint, by batch."""
        return dict(self._cursors)


_PREFIX = "blake3-"


def version_name(version: str) -> str:
    """Returns a version's name at the service, whose names hold no colon."""
    return version.replace("blake3:", _PREFIX)


def _own_versions(row: TrainingRow) -> TrainingRow:
    """Returns a row with the versions' names of the trainer."""
    turns = tuple(
        turn
        if turn.weight_version is None
        else msgspec.structs.replace(turn, weight_version=_own_version(turn.weight_version))
        for turn in row.turns
    )
    return msgspec.structs.replace(row, turns=turns, weight_versions=tuple(map(_own_version, row.weight_versions)))


def _own_version(name: str) -> str:
    return f"blake3:{name.removeprefix(_PREFIX)}" if name.startswith(_PREFIX) else name


def seed_of_step(recipe: ImproveRecipe, step: int) -> int:
    """Returns the seed of a step's run; -1 is the evaluations'."""
    return recipe.seed * 1_000_003 + step + 1
