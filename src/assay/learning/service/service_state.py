"""The state of a store's rollout service, read from its files beside it: versions of policies, queue, and lag.

A page asks for it again and again, so a batch whose file is unchanged is not read again.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import msgspec

from assay.errors import StoreError, boundary
from assay.store.database import has_writer

from .config import BatchRequest
from .ledger import LedgerBatch, read_batch
from .policies import PolicyBook, PolicyState

MOST_BATCHES = 100
"""Newest batches that are listed."""
PIECE = 1 << 20


class PolicyLag(msgspec.Struct, frozen=True):
    """A policy, and the age of what its trainer took."""

    name: str
    step: int | None
    """Of the newest version; None before the first."""
    version: str | None
    waiting: int
    """Batches that have not begun."""
    running: int
    lags: dict[str, int]
    """Acknowledged groups by the age of their oldest trained token in updates; `unknown` if not known."""
    dropped: dict[str, int]
    """Acknowledged groups that were handed over without rows, by reason."""


class BatchLag(msgspec.Struct, frozen=True):
    """A batch in the queue of its trainer."""

    id: str
    run: str
    policy: str
    state: str
    step: int | None
    """The trainer's step that asked for it."""
    most_lag: int | None
    begins_at: int | None
    """The policy's step at which it may begin, while that is not reached."""
    unread: int
    """Groups that are made, and that the trainer has not acknowledged."""
    lags: dict[str, int]
    dropped: dict[str, int]
    error: str | None


class ServiceState(msgspec.Struct, frozen=True):
    """A service."""

    is_running: bool
    is_paused: bool
    policies: tuple[PolicyLag, ...]
    batches: tuple[BatchLag, ...]
    """The newest first."""
    left_out: int
    """Older batches that are not listed; the policies count them."""


class _Unread(NamedTuple):
    cursor: int
    size: int
    groups: int


class ServiceReader:
    """Reads the state of the service of one store."""

    def __init__(self, store: Path) -> None:
        self._folder = store / "service"
        self._batches: dict[Path, tuple[tuple[int, int], LedgerBatch]] = {}
        """Each batch with the time and size of its file."""
        self._unread: dict[str, _Unread] = {}

    def read(self) -> ServiceState | None:
        """Returns the state; None if the store has no service. Blocking.

        Raises:
            StoreError: A file is damaged.
        """
        if not (self._folder / "policies").is_dir():
            return None
        policies, batches = PolicyBook(self._folder / "policies"), self._read_batches()
        listed = batches[::-1][:MOST_BATCHES]
        names = dict.fromkeys((*policies.names(), *[one.request.policy.name for one in batches]))
        return ServiceState(
            has_writer(self._folder / "lock"),
            policies.is_paused,
            tuple(_policy_lag(policies.find(name), batches) for name in names),
            tuple(self._batch_lag(one, policies) for one in listed),
            len(batches) - len(listed),
        )

    def _read_batches(self) -> list[LedgerBatch]:
        known, self._batches = self._batches, {}
        with boundary(StoreError, f"reading {self._folder}"):
            for path in self._folder.glob("*.json"):
                try:
                    status = path.stat()
                    stamp = (status.st_mtime_ns, status.st_size)
                    found = known.get(path)
                    self._batches[path] = (
                        found if found is not None and found[0] == stamp else (stamp, read_batch(path))
                    )
                except FileNotFoundError:  # it was forgotten meanwhile
                    continue
        return sorted((batch for _, batch in self._batches.values()), key=lambda one: one.order)

    def _batch_lag(self, batch: LedgerBatch, policies: PolicyBook) -> BatchLag:
        request = batch.request
        awaits = batch.state == "waiting" and request.step is not None and not policies.admits(request)
        return BatchLag(
            request.id,
            batch.run,
            request.policy.name,
            batch.state,
            request.step,
            request.most_lag,
            _first_step(request) if awaits else None,
            self._count_unread(batch),
            batch.lags,
            batch.dropped,
            batch.error,
        )

    def _count_unread(self, batch: LedgerBatch) -> int:
        path, at = self._folder / f"{batch.request.id}.groups", batch.acknowledged
        try:
            with path.open("rb") as file:
                size = file.seek(0, 2)
                known = self._unread.get(batch.request.id)
                if known is not None and known[:2] == (at, size):
                    return known.groups
                file.seek(at)
                groups = 0
                while piece := file.read(PIECE):
                    groups += piece.count(b"\n")
        except OSError:
            return 0
        self._unread[batch.request.id] = _Unread(at, size, groups)
        return groups


def _first_step(request: BatchRequest) -> int:
    """Returns the policy's step at which a batch with a step may begin: any, if its lag is not bounded."""
    return 0 if request.most_lag is None else max(0, (request.step or 0) - request.most_lag)


def _policy_lag(state: PolicyState, batches: list[LedgerBatch]) -> PolicyLag:
    lags, dropped, states = Counter[str](), Counter[str](), Counter[str]()
    for batch in batches:
        if batch.request.policy.name == state.name:
            states[batch.state] += 1
            lags.update(batch.lags)
            dropped.update(batch.dropped)
    newest = state.newest
    return PolicyLag(
        state.name,
        None if newest is None else newest.step,
        None if newest is None else newest.version,
        states["waiting"],
        states["running"],
        dict(lags),
        dict(dropped),
    )
