"""Stored batches of the service, one file each, so that a killed service can resume.

Invariant: state is on disk before a client learns of it; files are replaced atomically.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from assay.errors import StoreError, UserError, boundary
from assay.records import digest_record

from .config import BatchRequest

BatchState = Literal["waiting", "running", "done", "failed", "cancelled"]


class LedgerBatch(msgspec.Struct, frozen=True, omit_defaults=True):
    """A stored batch."""

    request: BatchRequest
    order: int
    """Execution order."""
    state: BatchState = "waiting"
    error: str | None = None
    """Error message for the client."""
    rows: int | None = None
    """Number of rows; None until done."""
    groups: int | None = None
    """Number of groups; None until done."""
    groups_size: int | None = None
    """Bytes of the file of groups; None until done."""
    acknowledged: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Cursor up to which the client has acknowledged its groups."""
    lags: dict[str, int] = {}
    """Acknowledged groups by the age of their oldest trained token in updates; `unknown` if not known."""
    dropped: dict[str, int] = {}
    """Acknowledged groups that were handed over without rows, by reason."""
    left_out: dict[str, int] = {}
    """Attempts without rows and credit that was masked, by reason."""
    versions: dict[str, int] = {}
    """Sampled tokens by reported weight version; `unknown` if not reported."""
    warnings: tuple[str, ...] = ()

    @property
    def run(self) -> str:
        """Name of its run."""
        return f"batch-{self.request.id}"

    @property
    def is_over(self) -> bool:
        """True for a batch that is done, failed or cancelled."""
        return self.state in ("done", "failed", "cancelled")


def replace_file(path: Path, data: bytes) -> None:
    """Writes a file atomically and durably. Raises `StoreError`."""
    fresh = path.with_suffix(".new")
    with boundary(StoreError, f"writing {path}"):
        with fresh.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def read_batch(path: Path) -> LedgerBatch:
    """Reads a batch. Raises `StoreError` if it is damaged or a copy under another name, `OSError`."""
    try:
        batch = msgspec.json.decode(path.read_bytes(), type=LedgerBatch)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise StoreError(f"{path} is not a batch of this version ({exc}): move it away, or delete it") from exc
    require_own_name(path, batch.request.id)
    return batch


def require_own_name(path: Path, name: str) -> None:
    """Raises `StoreError` unless a file is called what it holds: a copy could be older than the file itself."""
    if path.stem != name:
        raise StoreError(f"{path} holds {name!r}, and is no file of this service: move it away")


class Ledger:
    """All batches of a store's service."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with boundary(StoreError, f"making {folder}"):
            folder.mkdir(parents=True, exist_ok=True)
        self._batches: dict[str, LedgerBatch] = {one.request.id: one for one in self._read()}

    def _read(self) -> Iterator[LedgerBatch]:
        for path in sorted(self.folder.glob("*.json")):
            try:
                yield read_batch(path)
            except OSError as exc:
                raise StoreError(f"{path} cannot be read: {exc}") from exc

    def find(self, name: str) -> LedgerBatch | None:
        """Returns a batch by id."""
        return self._batches.get(name)

    def all(self) -> list[LedgerBatch]:
        """Returns all batches in execution order."""
        return sorted(self._batches.values(), key=lambda one: one.order)

    def add(self, request: BatchRequest) -> tuple[LedgerBatch, bool]:
        """Returns the batch of a request, and whether it is new."""
        known = self._batches.get(request.id)
        if known is not None:
            if digest_record(known.request) != digest_record(request):
                raise UserError(f"batch {request.id!r} was asked for with another content: give it another id")
            return known, False
        order = 1 + max((one.order for one in self._batches.values()), default=-1)
        return self.save(LedgerBatch(request, order)), True

    def save(self, batch: LedgerBatch) -> LedgerBatch:
        """Saves a batch."""
        replace_file(self._path(batch.request.id), msgspec.json.encode(batch))
        self._batches[batch.request.id] = batch
        return batch

    def delete(self, batch: LedgerBatch) -> None:
        """Deletes a batch and its groups; its run stays in the store."""
        self.groups_path(batch).unlink(missing_ok=True)
        self._path(batch.request.id).unlink(missing_ok=True)
        self._batches.pop(batch.request.id, None)

    def require_whole_groups(self, batch: LedgerBatch) -> None:
        """Raises `StoreError` if the groups of a batch that is done are not as many bytes as they were."""
        if batch.groups_size is None:
            return
        path = self.groups_path(batch)
        size = path.stat().st_size if path.exists() else 0
        if size != batch.groups_size:
            raise StoreError(
                f"{path} has {size} bytes, and had {batch.groups_size} when the batch was done: restore it, or delete "
                "the batch and ask for another"
            )

    def groups_path(self, batch: LedgerBatch) -> Path:
        """Returns the path of a batch's groups."""
        return self.folder / f"{batch.request.id}.groups"

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.json"
