"""Memory of verified attempts, as agents read it: records of a file, filters, and retrieval by BM25.

A memory file holds one record an attempt, written by `assay memory add`; each item of it names the step that it is of.
Passing attempts give items of kind `success`, failing ones `place`: what followed an act. Attempts in a browser also
give items of kind `page`: what the pages of a site offer, and where it leads. Errors of passing attempts give items of
kind `recovery`. An item is used only for the task that it
is of, unless the agent's options say otherwise: the texts of two tasks may be alike where nothing else is. Items of a
task that was changed since are never used.

Retrieval is by BM25 (`text_index`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from assay.errors import UserError
from assay.records import Evidence, Task, digest_record

from .text_index import TextIndex

_FILE_BYTES = 256 << 20
Scope = Literal["same-task", "any"]


class MemoryItem(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Result of an act."""

    kind: Literal["success", "place", "page", "recovery"]
    """`success` on the way of a verified pass; `place` elsewhere; `page` for an act between two pages of a site, as
    `page_memory` reads it; `recovery` for an error and the call that worked after it, as `recoveries` reads it."""
    when: str
    """The observation before the act."""
    act: str
    """Name and arguments of the call."""
    what: str
    """The observation after it."""
    step: int
    """Index of the step in the attempt."""
    state: str = ""
    """Digest of the state after the act, of an item of kind `page`."""


class MemoryRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The items of one verified attempt, and the digest of the record before it in the file."""

    run: str
    attempt: str
    head: str
    """Head of the attempt's chain, which proves what the items are taken from."""
    task: str
    task_digest: str
    passed: bool
    items: tuple[MemoryItem, ...]
    previous: str = ""

    @property
    def digest(self) -> str:
        """Returns the content address."""
        return digest_record(msgspec.to_builtins(self))

    def only_acts(self) -> MemoryRecord:
        """Returns the record without items of kinds `page` and `recovery`, which are looked up in another way."""
        acts = tuple(item for item in self.items if item.kind in ("success", "place"))
        return msgspec.structs.replace(self, items=acts)


class RecalledItem(NamedTuple):
    """An item that a query found."""

    item: MemoryItem
    record: MemoryRecord
    score: float
    """BM25; larger is better."""


def read_memory(path: Path) -> tuple[MemoryRecord, ...]:
    """Reads the records of a memory file; a last line without a newline is ignored.

    Raises:
        UserError: The file is missing, too large, or does not hold memory records in an unbroken chain.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_FILE_BYTES + 1)
    except OSError as exc:
        raise UserError(f"memory {path} cannot be read ({exc.strerror}): `assay memory add` writes one") from exc
    if len(data) > _FILE_BYTES:
        raise UserError(f"memory {path} is larger than {_FILE_BYTES >> 20} MiB, the limit: begin another one")
    records, previous = list[MemoryRecord](), ""
    for number, line in enumerate(data.split(b"\n")[:-1], 1):
        try:
            record = msgspec.json.decode(line, type=MemoryRecord)
        except (msgspec.DecodeError, RecursionError) as exc:
            raise UserError(f"memory {path}, line {number}: {exc}") from exc
        if record.previous != previous:
            raise UserError(f"memory {path}, line {number}: a line before it was changed, added or removed")
        previous = record.digest
        records.append(record)
    return tuple(records)


class SelectedRecords(NamedTuple):
    """Records that may be used for a task."""

    used: list[MemoryRecord]
    refused: int
    """Records of other tasks, in scope `same-task`."""
    stale: int
    """Records of a task that was changed since."""

    def evidence(self, items: Sequence[RecalledItem] | None = None) -> Evidence:
        """Returns the evidence of what an attempt uses: records by the heads of their chains, or the shown items."""
        used = self.used if items is None else {one.record.head: one.record for one in items}.values()
        data: dict[str, Any] = {
            "records": [record.head for record in used], "refused": self.refused, "stale": self.stale,
        }  # fmt: skip
        if items is not None:
            data["items"] = [{"head": one.record.head, "step": one.item.step, "score": one.score} for one in items]
        return Evidence("memory", "audit", "memory_used", data)


def select_records(records: Sequence[MemoryRecord], task: Task, scope: Scope) -> SelectedRecords:
    """Selects the records that may be used for a task: its own, or in scope `any` all of them.

    A record is stale, and never used, if the present task, or a later record, has the same id and another digest.
    """
    present = {record.task: record.task_digest for record in records} | {task.id: task.digest}
    fresh = [record for record in records if present[record.task] == record.task_digest]
    used = [record for record in fresh if scope == "any" or record.task_digest == task.digest]
    return SelectedRecords(used, len(fresh) - len(used), len(records) - len(fresh))


class MemoryIndex:
    """Full-text index of items, in memory."""

    def __init__(self, records: Sequence[MemoryRecord]) -> None:
        self._items = [(item, record) for record in records for item in record.items]
        self._index = TextIndex(f"{item.when}\n{item.act}\n{item.what}" for item, _ in self._items)

    def search(self, query: str, most: int) -> list[RecalledItem]:
        """Returns the items that fit a query best, successes first among equals, the latest first after that."""
        rows = self._index.search(query, most * 8)
        found = [(score, *self._items[number], number) for number, score in rows]
        found.sort(key=lambda one: (-round(one[0], 9), one[1].kind != "success", -one[3]))
        return [RecalledItem(item, record, score) for score, item, record, _ in found[:most]]
