"""Versions of policies by the trainer's step, stored, and what follows from them: admission and staleness.

Invariant: a version is on disk before a client or a batch learns of it; steps never go back.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import msgspec

from assay.errors import StoreError, UserError, boundary

from .config import BatchRequest
from .ledger import replace_file, require_own_name

STALE, UNKNOWN_VERSION = "stale", "unknown version"


class VersionConflictError(UserError):
    """A posted version contradicts those that are known."""


class PolicyVersion(msgspec.Struct, frozen=True):
    """Weights and the number of updates that they have had."""

    step: int
    version: str


class PolicyState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The posted versions of a policy."""

    name: str
    versions: tuple[PolicyVersion, ...] = ()
    """Oldest first."""

    @property
    def newest(self) -> PolicyVersion | None:
        """The present version; None before the first."""
        return self.versions[-1] if self.versions else None

    @property
    def step(self) -> int:
        """The present step; -1 before the first version."""
        return self.versions[-1].step if self.versions else -1

    def find(self, step: int) -> str | None:
        """Returns the version of a step, or None."""
        return next((one.version for one in reversed(self.versions) if one.step == step), None)

    def newest_step(self, version: str) -> int | None:
        """Returns the last step with these weights, or None."""
        return next((one.step for one in reversed(self.versions) if one.version == version), None)


class Handover(NamedTuple):
    """Decision on handing over a group with its rows."""

    lag: int | None
    """Updates between the oldest trained token's weights and the present ones; None if not known."""
    dropped: str | None
    """Reason for leaving its rows out; None if they are handed over."""


class PolicyBook:
    """The policies of a service, one file each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with boundary(StoreError, f"making {folder}"):
            folder.mkdir(parents=True, exist_ok=True)
        self._paused = folder / "paused"
        """A file that exists while the service is paused."""
        self._states: dict[str, PolicyState] = {}
        for path in folder.glob("*.json"):
            try:
                state = msgspec.json.decode(path.read_bytes(), type=PolicyState)
            except (OSError, msgspec.DecodeError, UnicodeDecodeError) as exc:
                raise StoreError(f"{path} is not a policy of this version ({exc}): move it away, or delete it") from exc
            require_own_name(path, state.name)
            self._states[state.name] = state

    @property
    def is_paused(self) -> bool:
        """Returns whether the service is paused."""
        return self._paused.exists()

    def set_paused(self, *, is_paused: bool) -> None:
        """Stores whether the service is paused. Raises `StoreError`."""
        if is_paused:
            replace_file(self._paused, b"")
        else:
            with boundary(StoreError, f"removing {self._paused}"):
                self._paused.unlink(missing_ok=True)

    def names(self) -> list[str]:
        """Returns the policies with a version."""
        return sorted(self._states)

    def find(self, name: str) -> PolicyState:
        """Returns the state of a policy."""
        return self._states.get(name) or PolicyState(name)

    def check(self, name: str, new: PolicyVersion) -> bool:
        """Returns whether a version is new. Raises `VersionConflictError` if its step goes back or has another
        version."""
        state = self.find(name)
        known = state.find(new.step)
        if known == new.version:
            return False
        if known is not None:
            raise VersionConflictError(f"step {new.step} of policy {name!r} has version {known}, not {new.version}")
        if new.step < state.step:
            raise VersionConflictError(f"policy {name!r} is at step {state.step}: {new.step} would go back")
        return True

    def add(self, name: str, new: PolicyVersion) -> None:
        """Stores a version that `check` found to be new."""
        state = self.find(name)
        self._save(msgspec.structs.replace(state, versions=(*state.versions, new)))

    def _save(self, state: PolicyState) -> None:
        replace_file(self._folder / f"{state.name}.json", msgspec.json.encode(state))
        self._states[state.name] = state

    def admits(self, request: BatchRequest) -> bool:
        """Returns whether a batch with a step may begin: its tokens will be fresh enough at its step."""
        state = self.find(request.policy.name)
        if request.step is None or not state.versions:
            return False
        return request.most_lag is None or state.step >= request.step - request.most_lag

    def judge(self, request: BatchRequest, versions: Iterable[str | None]) -> Handover:
        """Decides on a group by the versions of its trained tokens (None: not known).

        Its age is counted at the present step or at the batch's, whichever is later.
        """
        if request.step is None:
            return Handover(None, None)
        state = self.find(request.policy.name)
        steps = [None if version is None else state.newest_step(version) for version in versions]
        known = [step for step in steps if step is not None]
        lag = max(state.step, request.step) - min(known) if known and len(known) == len(steps) else None
        if request.most_lag is None or not steps:
            return Handover(lag, None)
        if lag is None:
            return Handover(None, UNKNOWN_VERSION)
        return Handover(lag, STALE if lag > request.most_lag else None)
