"""The ledger of holdouts: which decision used which tasks, and how much of their error budget it spent.

<store>/skills/holdouts.jsonl   one record a use, hash-chained

A use is recorded before the trial's attempts are read, so that a trial whose result displeases is not a free look.
Invariant: the levels spent on one task never sum to more than `HOLDOUT_LEVEL`. The chain of this file shows changes in
the middle; who deletes the whole file starts anew, which a receipt kept elsewhere would show.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from assay.errors import UserError
from assay.records import digest_record
from assay.statistics import HOLDOUT_LEVEL, HoldoutExhaustedError, grant_level, spent_levels

from .chained_file import ChainedFile


class HoldoutUse(msgspec.Struct, frozen=True):
    """One use of a set of tasks for a decision."""

    holdout: str
    """Digest of the sorted task digests."""
    tasks: tuple[str, ...]
    """Digests of the tasks, sorted."""
    skill: str
    version: str
    design: str
    """Digest of how the trial was run: agent, options, model, attempts, seed."""
    alpha: float
    left: float
    at: float
    previous: str = ""

    @property
    def digest(self) -> str:
        """Returns the content address of the record."""
        return digest_record(self)


class HoldoutLedger:
    """The uses of holdouts in one store."""

    def __init__(self, store: Path) -> None:
        self._file = ChainedFile(store / "skills" / "holdouts.jsonl", HoldoutUse)

    def uses(self) -> list[HoldoutUse]:
        """Returns all uses, oldest first. Raises `StoreError` if the file was changed."""
        return self._file.read()

    def spend(
        self, tasks: Sequence[str], requested: float, *, skill: str, version: str, design: str = ""
    ) -> HoldoutUse:
        """Records a use and returns it with the granted level; a repeated trial of one version in the same way
        gets its first use back, because its attempts and so its decision are the same.

        Raises:
            UserError: Nothing is left of the tasks' level.
        """
        ordered = tuple(sorted(set(tasks)))
        holdout = digest_record(ordered)
        with self._file.locked() as append:
            uses = self._file.read()
            for use in uses:
                if (use.holdout, use.skill, use.version, use.design) == (holdout, skill, version, design):
                    return use
            try:
                grant = grant_level(ordered, spent_levels((use.tasks, use.alpha) for use in uses), requested)
            except HoldoutExhaustedError as exc:
                users = [f"{u.skill} {u.version[7:15]}" for u in uses if set(u.tasks) & set(ordered)]
                raise UserError(
                    f"this holdout is used up: its level {HOLDOUT_LEVEL:g} was spent by {', '.join(users[-5:])}. Take "
                    "tasks that no trial has used: another seed of a family opens a new holdout"
                ) from exc
            except ValueError as exc:
                raise UserError(f"--alpha {requested}: {exc}") from exc
            use = HoldoutUse(
                holdout=holdout, tasks=ordered, skill=skill, version=version, design=design, alpha=grant.alpha,
                left=grant.left, at=time.time(), previous=uses[-1].digest if uses else "",
            )  # fmt: skip
            append(use)
        return use
