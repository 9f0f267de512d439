"""The ledger of holdouts: which decision used which tasks, and how much of their error budget it spent.

<store>/skills/holdouts.jsonl   one record a use, hash-chained

A use is recorded before the trial's attempts are made, so that an aborted trial has spent its level too.
Invariant: the levels spent on one task, under whatever name (`kinship`), never sum to more than `HOLDOUT_LEVEL`. The
chain shows changes in the middle of the file; a cut end shows where a skill's ledger holds a trial whose use is missing
(`require_uses`), and where an aborted trial left runs. Deleting the whole folder `skills` goes unnoticed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import msgspec

from assay.errors import StoreError, UserError
from assay.records import digest_record
from assay.statistics import HOLDOUT_LEVEL, HoldoutExhaustedError, grant_level, spent_levels
from assay.store import list_runs
from assay.store.chained_file import ChainedFile

HOLDOUT_FILE = "holdouts.jsonl"
_TRIAL_RUN = re.compile(
    r"(?P<name>.+)-(trial|gate)-(?P<use>[0-9a-f]{12}|[0-9a-f]{8})-(none|skill|placebo|base|winner)-\w+"
)


class HoldoutUse(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One use of a set of tasks for a decision."""

    holdout: str
    """Digest of the sorted task digests."""
    tasks: tuple[str, ...]
    """Digests of the tasks, sorted."""
    skill: str
    version: str
    design: str
    """Digest of how the trial was run and decided: agent, model, attempts, seed, arms, looks, protected tasks."""
    alpha: float
    left: float
    earlier: int
    """Uses before this one that share a task with it."""
    at: float
    kin: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    """Keys of the tasks by content (`kinship`), sorted; not set in records of earlier versions."""
    previous: str = ""

    @property
    def digest(self) -> str:
        """Returns the content address of the record."""
        return digest_record(self)

    @property
    def names(self) -> tuple[str, ...]:
        """Returns all by which its tasks are known."""
        return self.tasks + (() if self.kin is msgspec.UNSET else self.kin)


class HoldoutLedger:
    """The uses of holdouts in one store."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._file = ChainedFile(store / "skills" / HOLDOUT_FILE, HoldoutUse)

    def uses(self) -> list[HoldoutUse]:
        """Returns all uses, oldest first. Raises `StoreError` if the file was changed."""
        return self._file.read()

    def require_uses(self, uses: Iterable[str]) -> None:
        """Raises `StoreError` if the ledger lacks one of these uses, which a trial has recorded."""
        missing = set(uses) - {use.digest for use in self.uses()}
        if missing:
            raise StoreError(
                f"{self._file.path} lacks {len(missing)} of the uses that trials recorded (first {min(missing)}): "
                "its end was cut off; restore it from a copy"
            )

    def _require_uses_of_runs(self, uses: Sequence[HoldoutUse]) -> None:
        """Raises `StoreError` if a trial of this store has runs, and its use is missing: a trial that was aborted has
        left nothing else."""
        known = {use.digest.partition(":")[2] for use in uses}
        for run in list_runs(self._store):
            named = _TRIAL_RUN.fullmatch(run)
            if named is None or any(digest.startswith(named["use"]) for digest in known):
                continue
            folders = (self._store / "skills" / named["name"], self._store / "evolution" / f"{named['name']}.jsonl")
            if any(one.exists() for one in folders):  # else the run was copied here from another store
                raise StoreError(
                    f"{self._file.path} lacks the use of the tasks for which run {run} was made: its end was cut off; "
                    "restore it from a copy"
                )

    def spend(
        self,
        tasks: Sequence[str],
        requested: float,
        *,
        skill: str,
        version: str,
        design: str = "",
        kin: Collection[str] = (),
    ) -> HoldoutUse:
        """Records a use and returns it with the granted level.

        A trial of the same version in the same way gets its use back: it continues the same runs, and its decision is
        the same.

        Args:
            tasks: Digests of the tasks.
            requested: The level.
            skill: Name of what is tried.
            version: Its digest.
            design: Digest of how it is tried.
            kin: Keys of the tasks by content: the level of a task is spent under its other names, too.

        Raises:
            UserError: Nothing is left of the tasks' level.
            StoreError: The ledger lacks a use that runs of the store rest on.
        """
        ordered = tuple(sorted(set(tasks)))
        holdout, names = digest_record(ordered), {*ordered, *kin}
        with self._file.locked() as append:
            uses = self._file.read()
            self._require_uses_of_runs(uses)
            for use in uses:
                if (use.holdout, use.skill, use.version, use.design) == (holdout, skill, version, design):
                    return use
            try:
                grant = grant_level(names, spent_levels((use.names, use.alpha) for use in uses), requested)
            except HoldoutExhaustedError as exc:
                users = [f"{u.skill} {u.version[7:15]}" for u in uses if not names.isdisjoint(u.names)]
                raise UserError(
                    f"this holdout is used up: its level {HOLDOUT_LEVEL:g} was spent by {', '.join(users[-5:])}. Take "
                    "tasks that no trial has used: another seed of a family opens a new holdout"
                ) from exc
            except ValueError as exc:
                raise UserError(f"--alpha {requested}: {exc}") from exc
            earlier = sum(not names.isdisjoint(use.names) for use in uses)
            use = HoldoutUse(
                holdout=holdout, tasks=ordered, skill=skill, version=version, design=design, alpha=grant.alpha,
                left=grant.left, earlier=earlier, at=time.time(), kin=tuple(sorted(kin)),
                previous=uses[-1].digest if uses else "",
            )  # fmt: skip
            append(use)
        return use
