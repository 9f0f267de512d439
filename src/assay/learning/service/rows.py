"""The rows of a finished batch: verified, credited, one JSON object a line, in pages.

A page begins at a line; its cursor is the line's place in the file, so that a page costs no more the later it comes.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from assay.errors import StoreError, UserError, boundary
from assay.learning.credit.batch import credited
from assay.learning.reading import RowsConfig, rows_of_run
from assay.learning.rows import ROLES, TrainingRow

from .ledger import Batch

__all__ = ["Page", "WrittenRows", "page_of", "plain", "write_batch"]

MOST_ROWS = 1000
MOST_BYTES = 8 << 20
"""Of one page; a single longer row is a page of its own."""


class WrittenRows(NamedTuple):
    """What was written."""

    rows: int
    left_out: dict[str, int]
    versions: dict[str, int]
    """Sampled tokens by the version of the weights that the replies named."""


def write_batch(store: Path, batch: Batch, target: Path, folder: str | None) -> WrittenRows:
    """Writes the rows of a batch whose run is finished; the file is there when it is whole.

    Raises:
        UserError: The run gives no rows, or the credit that was asked for cannot be given.
        StoreError: The run is damaged, or nothing can be written.
    """
    left_out: Counter[str] = Counter()
    config = RowsConfig(model=folder, uncertified="mask" if batch.request.unproved else "refuse")
    rows = list(rows_of_run(store, batch.run, config, lambda _, what, why: left_out.update([f"{what}: {why}"])))
    if not rows:
        raise UserError(
            "no attempt of the batch gives a row: its policy gave no token ids (serve it with vllm:, sglang: or local:)"
        )
    try:
        given = credited(rows, batch.request.credit)
    except ValueError as exc:
        raise UserError(f"credit {batch.request.credit.method!r}: {exc}") from exc
    left_out.update({f"credit: {why}": number for why, number in given.credit.reasons.items()})
    fresh = target.with_suffix(".part")
    with boundary(StoreError, f"writing {target}"):
        with fresh.open("wb") as file:
            for row in given.rows:
                file.write(msgspec.json.encode(plain(row, batch)) + b"\n")
        fresh.replace(target)
    return WrittenRows(len(given.rows), dict(left_out), _versions(given.rows))


def plain(row: TrainingRow, batch: Batch) -> dict[str, Any]:
    """A row as JSON data: arrays as lists, masks as 0 and 1, numbers that are none as null."""
    found: dict[str, Any] = {"batch": batch.request.id, "roles_are": ROLES}
    if batch.request.policy.version is not None:
        found["asked_version"] = batch.request.policy.version
    for field in msgspec.structs.fields(row):
        found[field.name] = _plain(getattr(row, field.name))
    found["verified_pass"] = row.verified_pass
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        if value.dtype == np.bool_:
            return value.astype(np.int8).tolist()
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            return [float(one) if np.isfinite(one) else None for one in value]
        return value.tolist()
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    return msgspec.to_builtins(value)


def _versions(rows: list[TrainingRow]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for row in rows:
        for turn in row.turns:
            if turn.trained:
                found[turn.weight_version or "unknown"] += turn.end - turn.start
    return dict(found)


class Page(NamedTuple):
    """Some rows."""

    body: bytes
    """The whole answer: `{"next": cursor or null, "rows": [...]}`."""
    rows: int


def page_of(path: Path, after: int, most: int) -> Page:
    """The rows from a cursor on. Raises `UserError` where the cursor is none of this file."""
    lines: list[bytes] = []
    with boundary(StoreError, f"reading {path}"), path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, after - 1))
        if after > size or (after and file.read(1) != b"\n"):
            raise UserError(f"after={after} is no cursor of these rows: take it from `next`")
        held = 0
        while len(lines) < min(most, MOST_ROWS) and (held < MOST_BYTES or not lines):
            line = file.readline()
            if not line:
                break
            held += len(line)
            lines.append(line.rstrip(b"\n"))
        at = file.tell()
    following = b"null" if at >= size else str(at).encode()
    return Page(b'{"next":' + following + b',"rows":[' + b",".join(lines) + b"]}", len(lines))
