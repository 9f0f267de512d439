"""The sealed form: Parquet tables that any reader opens, and the events with their exact bytes.

`trajectories`, `steps`, `calls`, `verdicts` and `evidence` are for reading and querying; `events` alone is the record:
the chain can be recomputed from it. Nothing sealed is ever rewritten; later events go into `addenda`, whose
first segment names the sealed head as its predecessor.

Invariant: reading takes the memory of one row group, and damage is a `StoreError` that names the file.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from assay.errors import StoreError
from assay.records import (
    DIGEST_PREFIX,
    SCHEMA_VERSION,
    Event,
    Separation,
    Verdict,
    VerdictKind,
    VerdictStatus,
    canonical_bytes,
    digest_record,
)

from .arrow_arrays import equals_text, index_array, text_array, true_positions
from .chain import Link, decode_event
from .rows import AttemptRow
from .tables import ADDED, TABLES, arrow_schema

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_LINK = list(Link.__struct_fields__)
_BATCH = 1024


class SealManifest(msgspec.Struct, frozen=True, omit_defaults=True):
    """`seal.json`: the run's counts and the digests that prove its files unchanged."""

    run: str
    schema_version: int
    head: str
    """Digest over the heads of all chains, in order of their names."""
    chains: int
    events: int
    files: dict[str, str]
    """File name to digest."""
    manifest: dict[str, Any]
    digest: str | None = None
    """Of the canonical bytes of all the rest; older seals have none."""

    def own_digest(self) -> str:
        return digest_record(msgspec.structs.replace(self, digest=None))

    def written(self) -> bytes:
        """The bytes of `seal.json`."""
        return msgspec.json.format(canonical_bytes(self), indent=2)


class VerdictSummary(NamedTuple):
    """The main fields of one verdict."""

    chain: str
    check: str
    kind: VerdictKind
    status: VerdictStatus
    marks: tuple[str, ...]
    score: float | None = None
    separation: Separation = "unknown"


class _VerdictFields(msgspec.Struct):
    check: str
    kind: VerdictKind
    status: VerdictStatus
    marks: tuple[str, ...] = ()
    score: float | None = None
    separation: Separation = "unknown"


class _VerdictBody(msgspec.Struct):
    verdict: _VerdictFields


_VERDICT = msgspec.json.Decoder(_VerdictBody)
_JUDGED = ("chain", "check", "kind", "status", "marks", "score", "separation")


def summary_of(chain: str, verdict: Verdict) -> VerdictSummary:
    """Returns the main fields of a verdict on a chain."""
    fields = verdict.check, verdict.kind, verdict.status, verdict.marks, verdict.score, verdict.separation
    return VerdictSummary(chain, *fields)


def summarize_verdict(chain: str, body: bytes) -> VerdictSummary:
    """Decodes the main fields of a verdict's event. Raises `StoreError` where it is invalid."""
    try:
        given = _VERDICT.decode(body).verdict
    except (msgspec.DecodeError, ValueError, RecursionError) as exc:
        raise StoreError(f"a verdict on {chain!r} cannot be read: {exc}") from exc
    return VerdictSummary(chain, given.check, given.kind, given.status, given.marks, given.score, given.separation)


class SealedRun:
    """Reads the folder of a sealed run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: dict[str, Any] = {}
        self._group: tuple[tuple[object, ...], Any] | None = None

    @cached_property
    def seal(self) -> SealManifest:
        """Returns the seal. Raises `StoreError` when it is damaged or of a newer version."""
        path = self.folder / "seal.json"
        try:
            found = msgspec.json.decode(self.seal_bytes(), type=SealManifest)
        except (msgspec.DecodeError, ValueError, RecursionError) as exc:
            raise StoreError(f"{path} cannot be read: {exc}") from exc
        if found.schema_version > SCHEMA_VERSION:
            raise StoreError(
                f"run {found.run} was sealed by a newer Assay (schema {found.schema_version}, this one knows "
                f"{SCHEMA_VERSION}): update Assay"
            )
        return found

    def seal_bytes(self) -> bytes:
        """The bytes of `seal.json`. Raises `StoreError` where it cannot be read."""
        path = self.folder / "seal.json"
        try:
            return path.read_bytes()
        except OSError as exc:
            raise StoreError(f"{path} cannot be read: {exc}") from exc

    def manifest(self) -> dict[str, Any]:
        return self.seal.manifest

    def attempts(self) -> list[AttemptRow]:
        decode, rows = msgspec.json.Decoder(AttemptRow).decode, []
        for group in range(self.group_count("trajectories")):
            table = self.columns("trajectories", group, ["row"])
            with _read_errors(self.folder / "trajectories.parquet"):
                rows += [decode(raw) for raw in table.column("row").to_pylist()]
        return sorted(rows, key=lambda r: (r.started or 0.0, r.chain))

    def chains(self) -> set[str]:
        return {row["chain"] for row in self._batches("trajectories", ["chain"])}

    def ended_at(self) -> dict[str, int]:
        path = self.folder / "events.parquet"
        with _read_errors(path):
            found = self._file("events").read(columns=["chain", "index", "type"])
            ends = found.filter(equals_text(found.column("type"), "attempt_ended")).to_pylist()
        return {row["chain"]: row["index"] for row in reversed(ends)}

    def judged(self, chains: Collection[str] | None = None) -> Iterator[VerdictSummary]:
        import pyarrow.compute as pc

        groups: Iterable[int] = range(self.group_count("verdicts"))
        if chains is not None:
            groups = sorted({group for chain in chains for group in self._groups_of("verdicts", chain)})
        for group in groups:
            table = self.columns("verdicts", group, self._present("verdicts", _JUDGED))
            with _read_errors(self.folder / "verdicts.parquet"):
                if chains is not None:
                    table = table.filter(pc.is_in(table.column("chain"), value_set=text_array(chains)))
                lists = [table.column(name).to_pylist() for name in table.column_names]
            for of, check, kind, status, marks, score, *grade in zip(*lists, strict=True):
                yield VerdictSummary(of, check, kind, status, tuple(marks or ()), score, *grade)

    def events(self, chain: str) -> Iterator[Event]:
        return map(decode_event, self.links(chain))

    def links(self, chain: str | None = None, containing: bytes = b"") -> Iterator[Link]:
        groups = None if chain is None else self._groups_of("events", chain)
        found = iter(()) if groups == [] else self._links(groups, chain)
        yield from (link for link in found if containing in link.body) if containing else found

    def part(self, chain: str, start: int, stop: int) -> Iterator[Link]:
        """Reads only the row groups that may hold the events."""
        groups = self._groups_of("events", chain)
        with _read_errors(self.folder / "events.parquet"):
            groups = [g for g in groups if self._overlaps(g, chain, start, stop)]
        found = self._links(groups, chain) if groups else iter(())
        return (link for link in found if start <= link.index < stop)

    def row(self, chain: str) -> AttemptRow | None:
        groups = self._groups_of("trajectories", chain)
        return next(iter(self._select_rows(groups, lambda table: equals_text(table["chain"], chain))), None)

    def of_task(self, task: str) -> list[AttemptRow]:
        groups = self._groups_spanning("trajectories", "task", task)
        return self._select_rows(groups, lambda table: equals_text(table["task"], task), ("task",))

    def near(self, attempt: str) -> list[AttemptRow]:
        import pyarrow.compute as pc

        groups = sorted(
            {*self._groups_of("trajectories", attempt), *self._groups_spanning("trajectories", "attempt", attempt)}
        )
        exact = lambda t: pc.or_(equals_text(t["chain"], attempt), equals_text(t["attempt"], attempt))  # noqa: E731
        every = range(self.group_count("trajectories"))
        return self._select_rows(groups, exact) or self._select_rows(
            every, lambda table: _name_starts_with(table["attempt"], attempt)
        )

    def group_count(self, name: str) -> int:
        """Returns the number of row groups of a table."""
        with _read_errors(self.folder / f"{name}.parquet"):
            return int(self._file(name).metadata.num_row_groups)

    def texts(self, name: str, group: int, columns: Sequence[str]) -> Iterator[memoryview]:
        """Yields the concatenated texts of some columns in a row group, a buffer for each chunk."""
        table = self.columns(name, group, columns)
        with _read_errors(self.folder / f"{name}.parquet"):
            found = [flatten_lists(chunk) for column in table.columns for chunk in column.chunks]
            yield from (text_bytes(values) for values in found if len(values))

    def columns(self, name: str, group: int, columns: Sequence[str], coded: Sequence[str] = ()) -> Any:
        """Returns some columns of a row group, as an Arrow table; those of `coded` as arrays with a dictionary."""
        self._require(name, columns)
        with _read_errors(self.folder / f"{name}.parquet"):
            file = self._coded_file(name, tuple(coded)) if coded else self._file(name)
            return file.read_row_group(group, columns=list(columns), use_threads=False)

    def plain_column(self, file: str, column: str) -> list[Any]:
        """Returns a column of a file beside the tables."""
        import pyarrow.parquet as pq

        path = self.folder / file
        with _read_errors(path):
            found: list[Any] = pq.read_table(path, columns=[column]).column(column).to_pylist()
        return found

    def rows(self, name: str) -> Iterator[dict[str, Any]]:
        return self._batches(name, list(TABLES[name]))

    def counts(self) -> dict[str, int]:
        """Returns the row count of each table, from the footers."""
        found = {}
        for name in TABLES:
            with _read_errors(self.folder / f"{name}.parquet"):
                found[name] = int(self._file(name).metadata.num_rows)
        return found

    def snapshot(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def close(self) -> None:
        """Closes the files. Idempotent; reading again opens them again."""
        self._group = None
        while self._files:
            self._files.popitem()[1].close()

    def _links(self, groups: list[int] | None, chain: str | None) -> Iterator[Link]:
        for row in self._batches("events", _LINK, groups, chain):
            if None in row.values():
                raise StoreError(f"{self.folder / 'events.parquet'}: an event without {', '.join(_LINK)}")
            yield Link(**row)

    def _batches(
        self, name: str, columns: list[str], groups: list[int] | None = None, chain: str | None = None
    ) -> Iterator[dict[str, Any]]:
        path = self.folder / f"{name}.parquet"
        present = self._present(name, columns)
        absent = {column: ADDED[name][column] for column in columns if column not in present}
        self._require(name, present)
        with _read_errors(path):
            file = self._file(name)
            chosen = range(file.metadata.num_row_groups) if groups is None else groups
        for group in chosen:  # one at a time, because a batch would otherwise gather rows over many of them
            with _read_errors(path):
                if chain is None:
                    batches = file.iter_batches(_BATCH, row_groups=[group], columns=present, use_threads=False)
                else:
                    table = self._last_group(name, group, present)
                    batches = iter(table.filter(equals_text(table["chain"], chain)).to_batches(_BATCH))
            while True:
                with _read_errors(path):
                    batch = next(batches, None)
                    if batch is None:
                        break
                    rows = batch.to_pylist()
                yield from ({**row, **absent} for row in rows) if absent else rows

    def _last_group(self, name: str, group: int, columns: list[str]) -> Any:
        """Returns columns of a row group, which is kept until another is asked for: chains are often read in order."""
        wanted = (name, group, *columns)
        if self._group is None or self._group[0] != wanted:
            self._group = None  # before the other is read, so that only one is in memory
            self._group = wanted, self._file(name).read_row_group(group, columns=columns, use_threads=False)
        return self._group[1]

    def _groups_of(self, name: str, chain: str) -> list[int]:
        """Returns the row groups that may hold a chain, by binary search: they are ordered by chain."""
        with _read_errors(self.folder / f"{name}.parquet"):
            metadata = self._file(name).metadata
            at = self._file(name).schema_arrow.names.index("chain")
            low, high = 0, metadata.num_row_groups
            while low < high:  # the first group that does not end before the chain
                middle = (low + high) // 2
                known = metadata.row_group(middle).column(at).statistics
                if known is None or not known.has_min_max:
                    return list(range(metadata.num_row_groups))
                low, high = (middle + 1, high) if known.max < chain else (low, middle)
            found = []
            for number in range(low, metadata.num_row_groups):
                known = metadata.row_group(number).column(at).statistics
                if known is not None and known.has_min_max and known.min > chain:
                    break
                found.append(number)
        return found

    def _overlaps(self, group: int, chain: str, start: int, stop: int) -> bool:
        """Returns whether a row group may hold events of a chain between two indexes, by its statistics."""
        metadata = self._file("events").metadata.row_group(group)
        names = self._file("events").schema_arrow.names
        chains, indexes = (metadata.column(names.index(name)).statistics for name in ("chain", "index"))
        if any(known is None or not known.has_min_max for known in (chains, indexes)):
            return True
        if not chains.min == chains.max == chain:
            return True
        return bool(indexes.min < stop and indexes.max >= start)

    def _groups_spanning(self, name: str, column: str, value: str) -> list[int]:
        """Returns the row groups whose statistics include a value."""
        with _read_errors(self.folder / f"{name}.parquet"):
            metadata = self._file(name).metadata
            at = self._file(name).schema_arrow.names.index(column)
            known = [metadata.row_group(number).column(at).statistics for number in range(metadata.num_row_groups)]
        return [n for n, k in enumerate(known) if k is None or not k.has_min_max or k.min <= value <= k.max]

    def _select_rows(
        self, groups: Sequence[int], which: Callable[[Any], Any], by: Sequence[str] = ("chain", "attempt")
    ) -> list[AttemptRow]:
        """Returns the rows of some row groups of `trajectories` that match a mask over some columns."""
        import numpy as np

        if not groups:
            return []
        found: list[AttemptRow] = []
        self._require("trajectories", [*by, "row"])
        with _read_errors(self.folder / "trajectories.parquet"):
            file = self._file("trajectories")
            table = file.read_row_groups(list(groups), columns=list(by), use_threads=False)
            at = true_positions(which(table)).astype(np.int64)  # subtracted below
            ends = np.cumsum([file.metadata.row_group(group).num_rows for group in groups])
            for number in np.unique(np.searchsorted(ends, at, side="right")):
                start = int(ends[number - 1]) if number else 0
                inside = at[(at >= start) & (at < ends[number])] - start
                rows = file.read_row_group(groups[number], columns=["row"], use_threads=False)["row"].take(
                    index_array(inside)
                )
                found += [msgspec.json.decode(row, type=AttemptRow) for row in rows.to_pylist()]
        return sorted(found, key=lambda row: (row.started or 0.0, row.chain))

    def _present(self, name: str, columns: Sequence[str]) -> list[str]:
        """Returns the columns without those that the seal is older than (`tables.ADDED`)."""
        with _read_errors(self.folder / f"{name}.parquet"):
            names = self._file(name).schema_arrow.names
        return [column for column in columns if column in names or column not in ADDED.get(name, {})]

    def _require(self, name: str, columns: Sequence[str]) -> None:
        path = self.folder / f"{name}.parquet"
        with _read_errors(path):
            expected, actual = arrow_schema(name), self._file(name).schema_arrow
            wrong = [c for c in columns if c not in actual.names or actual.field(c).type != expected.field(c).type]
        if wrong:
            raise StoreError(f"{path} cannot be read: its column {wrong[0]} is missing or of another type")

    def _file(self, name: str) -> Any:
        import pyarrow.parquet as pq

        if name not in self._files:
            self._files[name] = pq.ParquetFile(self.folder / f"{name}.parquet")
        return self._files[name]

    def _coded_file(self, name: str, coded: tuple[str, ...]) -> Any:
        import pyarrow.parquet as pq

        key = f"{name} with {coded}"
        if key not in self._files:
            known = self._file(name).metadata
            self._files[key] = pq.ParquetFile(
                self.folder / f"{name}.parquet", metadata=known, read_dictionary=list(coded)
            )
        return self._files[key]


def flatten_lists(values: Any) -> Any:
    """Flattens a column of lists of texts; returns a column of texts as it is."""
    import pyarrow as pa

    return values.flatten() if pa.types.is_list(values.type) else values


def text_bytes(texts: Any) -> memoryview:
    """Returns the concatenated bytes of an array of texts."""
    first, ends = _offsets(texts)
    data = texts.buffers()[2]
    return memoryview(b"") if data is None or not len(ends) else memoryview(data)[first : first + int(ends[-1])]


def text_ends(texts: Any) -> npt.NDArray[np.int32]:
    """Returns the end of each text in `text_bytes`."""
    return _offsets(texts)[1]


def _offsets(texts: Any) -> tuple[int, npt.NDArray[np.int32]]:
    import numpy as np

    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return int(offsets[0]), offsets[1:] - offsets[0]


def _name_starts_with(names: Any, beginning: str) -> Any:
    """Returns a mask of the names that begin so, or whose part after the last slash does."""
    import pyarrow.compute as pc

    plain = names.cast("string")
    behind = pc.replace_substring_regex(plain, r"^.*/", "")
    return pc.or_(pc.starts_with(plain, beginning), pc.starts_with(behind, beginning))


def file_digest(path: Path) -> str:
    """Returns the content address of a file, in bounded memory. Raises `StoreError` where it cannot be read."""
    from blake3 import blake3

    try:
        return DIGEST_PREFIX + blake3().update_mmap(path).hexdigest()
    except OSError as exc:
        raise StoreError(f"{path} cannot be read: {exc.strerror or exc}") from exc


@contextlib.contextmanager
def _read_errors(path: Path) -> Iterator[None]:
    """Converts the errors of Parquet, UTF-8 and JSON readers to `StoreError`."""
    import pyarrow.lib

    try:
        yield
    except (OSError, pyarrow.lib.ArrowException, msgspec.DecodeError, ValueError, TypeError, LookupError) as exc:
        raise StoreError(
            f"{path} cannot be read: {str(exc).splitlines()[0] if str(exc) else type(exc).__name__}"
        ) from exc
