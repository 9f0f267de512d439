"""Groups of a batch as JSON lines in an append-only file: all attempts at one task, with their rows.

A line is written and synchronised as a whole; one that a kill cut off is removed at the next start, and no group is
written twice. A cursor is a file offset at the beginning of a line, so later pages cost no more than earlier ones.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

from assay.errors import StoreError, UserError, boundary
from assay.learning.credit.batch import assign_credit
from assay.learning.reading import RunReader
from assay.learning.row_json import row_as_json
from assay.learning.rows import ROLES, TrainingRow
from assay.records import Trajectory, VerdictStatus
from assay.store import AttemptRow
from assay.store.chained_file import end_of_last_line
from assay.verdicts import current_verdicts_of, trust_of

from .ledger import LedgerBatch

MAX_PAGE_GROUPS = 1000
MAX_PAGE_BYTES = 8 << 20
"""Maximum bytes of a page; a longer group is a page of its own."""
MAX_LINE_BYTES = 1 << 30


class GroupAttempt(msgspec.Struct, frozen=True, omit_defaults=True):
    """An attempt of a group, also where it gives no rows."""

    attempt: str
    chain: str
    outcome: VerdictStatus | None = None
    score: float | None = None
    reward: float | None = None
    """1 for a pass, 0 for a fail and for a pass whose integrity failed, null for what was not judged or was broken by
    another than the agent, and for a pass that is doubted for another reason."""
    integrity: VerdictStatus | None = None
    doubt: str | None = None
    """Reason to doubt a pass, as in its rows."""
    stopped: str | None = None
    broke: str | None = None
    finished: float | None = None
    """When it ended, in seconds since 1970."""


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """A stored line."""

    id: str
    task: str
    attempts: tuple[GroupAttempt, ...]
    versions: dict[str, int]
    """Trained tokens by the version of their weights; 0 for a version that a server named without saying for which."""
    unknown: int = 0
    """Trained tokens of no known version."""
    left_out: dict[str, int] = {}
    """Attempts without rows and credit that was masked, by reason."""
    row_count: int
    rows: msgspec.Raw
    """A list of rows."""

    def token_versions(self) -> Iterator[str | None]:
        """Yields the versions of its trained tokens, and None if some are not known."""
        yield from self.versions
        if self.unknown:
            yield None


class StoredGroup(NamedTuple):
    """A group and the cursor of the one after it."""

    group: Group
    next: int


def make_attempt(row: AttemptRow, trajectory: Trajectory | None = None) -> GroupAttempt:
    """Returns the facts of an attempt by its deciding trial, with later verdicts if its trajectory is given."""
    outcome, integrity, doubt = row.outcome, row.integrity, None
    if trajectory is not None:
        current = current_verdicts_of(trajectory)
        outcome, integrity, doubt = current.outcome, current.integrity, trust_of(trajectory).doubt
    reward = {"pass": 1.0, "fail": 0.0}.get(outcome or "")
    if row.broke not in (None, "agent"):
        reward = None
    elif outcome == "pass" and (integrity not in (None, "pass") or doubt is not None):
        reward = 0.0 if integrity == "fail" else None
    return GroupAttempt(
        row.attempt, row.chain, outcome, row.score, reward, integrity, doubt, row.stopped, row.broke, row.finished
    )


class _TaskRows(NamedTuple):
    attempts: list[AttemptRow]
    facts: tuple[GroupAttempt, ...]
    rows: list[TrainingRow]


class GroupBuilder:
    """Builds the groups of a batch from its run; attempts that hold a secret are left out."""

    def __init__(self, batch: LedgerBatch, reader: RunReader) -> None:
        self._batch, self._reader = batch, reader
        self._left_out: Counter[str] = Counter()
        reader.on_left_out = lambda _, what, why: self._left_out.update([f"{what}: {why}"])

    def build(self, task: str) -> Group:
        """Returns the group of a task, with credit if the batch's is assigned by group.

        Raises:
            UserError: Tokens are not certified and the batch refuses such, or the credit cannot be given.
            StoreError: The record of an attempt is damaged.
        """
        read = self._read(task)
        return self._group(task, read, self._assign_credit(read.rows))

    def build_all(self, tasks: Sequence[str]) -> list[Group]:
        """Returns the groups of tasks, with credit over all of them together. Raises as `build`."""
        read = {task: self._read(task) for task in tasks}
        credited = iter(self._assign_credit([row for one in read.values() for row in one.rows]))
        return [self._group(task, one, [next(credited) for _ in one.rows]) for task, one in read.items()]

    def _read(self, task: str) -> _TaskRows:
        attempts = self._reader.attempt_rows(task)
        rows: list[TrainingRow] = []
        facts = {one.chain: make_attempt(one) for one in attempts}
        by_chain = {one.chain: one for one in attempts}
        for trajectory in self._reader.attempt_trajectories(attempts):
            facts[trajectory.chain] = make_attempt(by_chain[trajectory.chain], trajectory)
            rows += self._reader.rows(trajectory)
        return _TaskRows(attempts, tuple(facts.values()), rows)

    def _assign_credit(self, rows: list[TrainingRow]) -> list[TrainingRow]:
        config = self._batch.request.credit
        if config is None or not rows:
            return rows
        try:
            credited = assign_credit(rows, config)
        except ValueError as exc:
            raise UserError(f"credit {config.method!r}: {exc}") from exc
        self._left_out.update({f"credit: {why}": number for why, number in credited.credit.reasons.items()})
        return credited.rows

    def _group(self, task: str, read: _TaskRows, rows: Sequence[TrainingRow]) -> Group:
        attempts = read.attempts
        left_out, self._left_out = dict(self._left_out), Counter()
        versions = count_versions(rows)
        return Group(
            id=f"{self._batch.request.id}:{attempts[0].task_digest.removeprefix('blake3:')[:16]}" if attempts else task,
            task=task,
            attempts=read.facts,
            unknown=versions.pop(None, 0),
            versions={name: count for name, count in versions.items() if name is not None},
            left_out=left_out,
            row_count=len(rows),
            rows=msgspec.Raw(msgspec.json.encode([self._row(row) for row in rows])),
        )

    def _row(self, row: TrainingRow) -> dict[str, Any]:
        found: dict[str, Any] = {"batch": self._batch.request.id, "roles_are": ROLES}
        if self._batch.request.policy.version is not None:
            found["asked_version"] = self._batch.request.policy.version
        return found | row_as_json(row) | {"verified_pass": row.verified_pass}


def count_versions(rows: Sequence[TrainingRow]) -> Counter[str | None]:
    """Returns the trained tokens by version; None if not known. A version that was named for a row and for none of its
    tokens has 0: any of them may be of it."""
    found: Counter[str | None] = Counter()
    for row in rows:
        names = (*row.weight_versions, None)
        found.update(dict.fromkeys(row.unplaced_versions, 0))
        for turn in row.turns:
            if turn.trained:
                found.update(names[number] for number in row.versions[turn.start : turn.end])
    return found


class GroupFile:
    """The groups of a batch, open for appending. Removes a torn last line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.tasks: set[str] = set()
        """Tasks whose group is written."""
        with boundary(StoreError, f"opening {path}"):
            self._file = path.open("ab+")
            self._file.truncate(end_of_last_line(self._file))
            self._file.seek(0)
        try:
            for stored in _read_groups(self._file, path):
                self._add(stored.group.task)
        except StoreError:
            self.close()
            raise

    def _add(self, task: str) -> None:
        if task in self.tasks:
            raise StoreError(f"{self._path} has the group of {task} twice")
        self.tasks.add(task)

    def append(self, group: Group) -> None:
        """Appends a group durably; one that is there already is left as it is. Raises `StoreError`."""
        if group.task in self.tasks:
            return
        with boundary(StoreError, f"writing {self._path}"):
            self._file.write(msgspec.json.encode(group) + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        self.tasks.add(group.task)

    def close(self) -> None:
        """Closes the file. Idempotent."""
        self._file.close()


def _read_groups(file: BinaryIO, path: Path) -> Iterator[StoredGroup]:
    """Yields the whole groups from the file's position on."""
    while True:
        line = file.readline(MAX_LINE_BYTES)
        if not line.endswith(b"\n"):
            return
        try:
            yield StoredGroup(msgspec.json.decode(line, type=Group), file.tell())
        except (msgspec.DecodeError, UnicodeDecodeError) as exc:
            raise StoreError(f"{path} has a damaged line before byte {file.tell()}: {exc}") from exc


def read_groups(path: Path, after: int) -> Iterator[StoredGroup]:
    """Yields the groups after a cursor; none of a file that does not exist yet.

    Raises:
        UserError: It is not a cursor of this file.
        StoreError: The file is damaged.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError:
        if after:
            raise UserError(f"after={after} is not a cursor of these groups: take it from `next`") from None
        return
    except OSError as exc:
        raise StoreError(f"reading {path}: {exc}") from exc
    with file, boundary(StoreError, f"reading {path}"):
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, min(after, size) - 1))
        if after > size or (after and file.read(1) != b"\n"):
            raise UserError(f"after={after} is not a cursor of these groups: take it from `next`")
        yield from _read_groups(file, path)


class GroupPage(NamedTuple):
    """Some groups and the cursor after them."""

    groups: list[StoredGroup]
    next: int
    has_more: bool
    """True if a group was written after these."""


def read_page(path: Path, after: int, most: int) -> GroupPage:
    """Returns at most `most` groups after a cursor. Raises as `read_groups`."""
    found = list[StoredGroup]()
    has_more = False
    for stored in read_groups(path, after):
        has_more = len(found) >= min(most, MAX_PAGE_GROUPS) or bool(found and stored.next - after > MAX_PAGE_BYTES)
        if has_more:
            break
        found.append(stored)
    return GroupPage(found, found[-1].next if found else after, has_more)


def read_between(path: Path, after: int, until: int) -> list[StoredGroup]:
    """Returns the groups between two cursors; none if the second is not later. Raises as `read_groups`."""
    next(read_groups(path, until), None)  # refuses what is not a cursor
    if until <= after:
        return []
    found = []
    for stored in read_groups(path, after):
        found.append(stored._replace(group=msgspec.structs.replace(stored.group, rows=msgspec.Raw(b"[]"))))
        if stored.next >= until:
            break
    return found


class BatchTotals(NamedTuple):
    """Sums over the groups of a batch."""

    groups: int
    rows: int
    left_out: dict[str, int]
    versions: dict[str, int]
    """Trained tokens by version; `unknown` for those of no known one."""
    groups_size: int
    """Bytes of the groups."""


def count_groups(path: Path) -> BatchTotals:
    """Returns the sums over a batch's groups.

    Raises:
        UserError: No attempt gives a row.
        StoreError: The file is damaged.
    """
    left_out, versions = Counter[str](), Counter[str]()
    broke = Counter[str]()
    rows = groups = size = attempts = 0
    for stored in read_groups(path, 0):
        group, size = stored.group, stored.next
        groups, rows, attempts = groups + 1, rows + group.row_count, attempts + len(group.attempts)
        broke.update(one.broke for one in group.attempts if one.broke is not None)
        left_out.update(group.left_out)
        versions.update(group.versions)
        versions.update({"unknown": group.unknown} if group.unknown else {})
    if not rows and any(what.startswith("secret: ") for what in left_out):
        reasons = "; ".join(f"{what} ({count})" for what, count in left_out.items())
        raise UserError(f"no attempt of the batch gives a row: {reasons}")
    if not rows and broke.total() == attempts:
        reasons = ", ".join(f"{count} by the {name}" for name, count in broke.items())
        raise UserError(
            f"no attempt of the batch gives a row: all {attempts} were broken off ({reasons}), and say nothing of the "
            "policy; the errors are in its run"
        )
    if not rows:
        raise UserError(
            "no attempt of the batch gives a row: its policy gave no token ids (serve it with vllm:, sglang: or local:)"
        )
    return BatchTotals(groups, rows, dict(left_out), dict(versions), size)
