"""Rows of finished batches as JSON lines, in pages.

A page begins at a line; its cursor is a file offset, so that later pages cost no more.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from assay.errors import StoreError, UserError, boundary
from assay.learning.credit.batch import assign_credit
from assay.learning.reading import rows_of_run
from assay.learning.rows import ROLES, TrainingRow
from assay.learning.rows_config import RowsConfig
from assay.settings import Settings

from .ledger import LedgerBatch

MAX_PAGE_ROWS = 1000
MAX_PAGE_BYTES = 8 << 20
"""Maximum bytes of a page; a longer row is a page of its own."""


class WrittenRows(NamedTuple):
    """Counts of written rows."""

    rows: int
    left_out: dict[str, int]
    versions: dict[str, int]
    """Sampled tokens by reported weight version."""


def write_batch(settings: Settings, batch: LedgerBatch, target: Path, folder: str | None) -> WrittenRows:
    """Writes the rows of a finished batch atomically; attempts that hold a secret are left out.

    Raises:
        UserError: The run gives no rows, or the credit that was asked for cannot be given.
        StoreError: The run is damaged, or nothing can be written.
    """
    left_out: Counter[str] = Counter()
    config = RowsConfig(model=folder, uncertified="mask" if batch.request.unproved else "refuse")
    rows = list(rows_of_run(settings, batch.run, config, lambda _, what, why: left_out.update([f"{what}: {why}"])))
    if not rows and any(what.startswith("secret: ") for what in left_out):
        reasons = "; ".join(f"{what} ({count})" for what, count in left_out.items())
        raise UserError(f"no attempt of the batch gives a row: {reasons}")
    if not rows:
        raise UserError(
            "no attempt of the batch gives a row: its policy gave no token ids (serve it with vllm:, sglang: or local:)"
        )
    try:
        credited = assign_credit(rows, batch.request.credit)
    except ValueError as exc:
        raise UserError(f"credit {batch.request.credit.method!r}: {exc}") from exc
    left_out.update({f"credit: {why}": number for why, number in credited.credit.reasons.items()})
    fresh = target.with_suffix(".part")
    with boundary(StoreError, f"writing {target}"):
        with fresh.open("wb") as file:
            for row in credited.rows:
                file.write(msgspec.json.encode(row_as_json(row, batch)) + b"\n")
        fresh.replace(target)
    return WrittenRows(len(credited.rows), dict(left_out), _tokens_by_version(credited.rows))


def row_as_json(row: TrainingRow, batch: LedgerBatch) -> dict[str, Any]:
    """Returns a row as JSON data: arrays as lists, masks as 0 and 1, non-finite numbers as null."""
    found: dict[str, Any] = {"batch": batch.request.id, "roles_are": ROLES}
    if batch.request.policy.version is not None:
        found["asked_version"] = batch.request.policy.version
    for field in msgspec.structs.fields(row):
        found[field.name] = _as_json(getattr(row, field.name))
    found["verified_pass"] = row.verified_pass
    return found


def _as_json(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        if value.dtype == np.bool_:
            return value.astype(np.int8).tolist()
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            return [float(one) if np.isfinite(one) else None for one in value]
        return value.tolist()
    if isinstance(value, dict):
        return {name: _as_json(one) for name, one in value.items()}
    return msgspec.to_builtins(value)


def _tokens_by_version(rows: list[TrainingRow]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for row in rows:
        names = (*row.weight_versions, "unknown")
        for turn in row.turns:
            if turn.trained:
                found.update(names[number] for number in row.versions[turn.start : turn.end])
    return dict(found)


def read_page(path: Path, after: int, most: int) -> bytes:
    """Returns `{"next": cursor or null, "rows": [...]}` from a cursor on. Raises `UserError` for an invalid cursor."""
    lines: list[bytes] = []
    with boundary(StoreError, f"reading {path}"), path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, after - 1))
        if after > size or (after and file.read(1) != b"\n"):
            raise UserError(f"after={after} is not a cursor of these rows: take it from `next`")
        page_bytes = 0
        while len(lines) < min(most, MAX_PAGE_ROWS) and (page_bytes < MAX_PAGE_BYTES or not lines):
            line = file.readline()
            if not line:
                break
            page_bytes += len(line)
            lines.append(line.rstrip(b"\n"))
        at = file.tell()
    following = b"null" if at >= size else str(at).encode()
    return b'{"next":' + following + b',"rows":[' + b",".join(lines) + b"]}"
