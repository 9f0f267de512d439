"""The sealed form: Parquet tables that any reader opens, and the events with their exact bytes.

`trajectories`, `steps`, `calls`, `verdicts` and `evidence` are for reading and querying; `events` alone is the record:
the chain can be recomputed from it. Nothing sealed is ever rewritten; what is learnt later goes into `addenda`, whose
first segment names the sealed head as its predecessor.

Invariant: reading takes the memory of one row group, and damage is a `StoreError` that names the file.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from assay.errors import StoreError
from assay.records import (
    DIGEST_PREFIX,
    SCHEMA_VERSION,
    Event,
    VerdictKind,
    VerdictStatus,
    canonical_bytes,
    digest_record,
)

from .chain import Link, event_of
from .rows import AttemptRow
from .tables import TABLES, arrow_schema

__all__ = ["Judged", "SealManifest", "SealedRun", "file_digest"]

_LINK = list(Link.__struct_fields__)
_BATCH = 1024


class SealManifest(msgspec.Struct, frozen=True, omit_defaults=True):
    """`seal.json`: what was sealed and the digests that say whether it still is."""

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
        """What `digest` must be."""
        return digest_record(msgspec.structs.replace(self, digest=None))

    def written(self) -> bytes:
        """The bytes of `seal.json`."""
        return msgspec.json.format(canonical_bytes(self), indent=2)


class _Group(NamedTuple):
    number: int
    first: str | None
    last: str | None

    def may_hold(self, chain: str) -> bool:
        return self.first is None or self.last is None or self.first <= chain <= self.last


class Judged(NamedTuple):
    """What one verdict says, in short."""

    chain: str
    check: str
    kind: VerdictKind
    status: VerdictStatus
    marks: tuple[str, ...]


class SealedRun:
    """Reads the folder of a sealed run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: dict[str, Any] = {}

    @cached_property
    def seal(self) -> SealManifest:
        """The seal. Raises `StoreError` when it is damaged or of a newer version."""
        path = self.folder / "seal.json"
        try:
            found = msgspec.json.decode(self.seal_bytes(), type=SealManifest)
        except (msgspec.DecodeError, ValueError, RecursionError) as exc:
            message = f"{path} cannot be read: {exc}"
            raise StoreError(message) from exc
        if found.schema_version > SCHEMA_VERSION:
            message = (
                f"run {found.run} was sealed by a newer Assay (schema {found.schema_version}, this one knows "
                f"{SCHEMA_VERSION}): update Assay"
            )
            raise StoreError(message)
        return found

    def seal_bytes(self) -> bytes:
        """The bytes of `seal.json`. Raises `StoreError` where it cannot be read."""
        path = self.folder / "seal.json"
        try:
            return path.read_bytes()
        except OSError as exc:
            message = f"{path} cannot be read: {exc}"
            raise StoreError(message) from exc

    def manifest(self) -> dict[str, Any]:
        """What was asked for."""
        return self.seal.manifest

    def attempts(self) -> list[AttemptRow]:
        """One row a chain, in the order in which the chains began."""
        with _readable(self.folder / "trajectories.parquet"):
            rows = [msgspec.json.decode(r["row"], type=AttemptRow) for r in self._batches("trajectories", ["row"])]
        return sorted(rows, key=lambda r: (r.started or 0.0, r.chain))

    def chains(self) -> set[str]:
        """The names of all chains."""
        return {row["chain"] for row in self._batches("trajectories", ["chain"])}

    def ended_at(self) -> dict[str, int]:
        """Chain to the index of the event that says that it ended; those that never ended are not in it."""
        import pyarrow.compute as pc

        path = self.folder / "events.parquet"
        with _readable(path):
            found = self._file("events").read(columns=["chain", "index", "type"])
            ends = found.filter(pc.equal(found.column("type"), "attempt_ended")).to_pylist()
        return {row["chain"]: row["index"] for row in reversed(ends)}

    def judged(self) -> Iterator[Judged]:
        """What every verdict says, chain by chain in the order in which they were given."""
        for row in self._batches("verdicts", ["chain", "check", "kind", "status", "marks"]):
            yield Judged(row["chain"], row["check"], row["kind"], row["status"], tuple(row["marks"] or ()))

    def events(self, chain: str) -> Iterator[Event]:
        """The events of a chain, in order."""
        return map(event_of, self.links(chain))

    def links(self, chain: str | None = None) -> Iterator[Link]:
        """The stored events of one chain, or of all of them in the order of the file."""
        if chain is None:
            yield from self._links(None, None)
            return
        groups = [g.number for g in self._groups if g.may_hold(chain)]
        if groups:
            yield from self._links(groups, chain)

    def rows(self, name: str) -> Iterator[dict[str, Any]]:
        """All rows of a table."""
        return self._batches(name, list(TABLES[name]))

    def counts(self) -> dict[str, int]:
        """How many rows each table has, from the footers."""
        found = {}
        for name in TABLES:
            with _readable(self.folder / f"{name}.parquet"):
                found[name] = int(self._file(name).metadata.num_rows)
        return found

    def close(self) -> None:
        """Closes the files. Idempotent; reading again opens them again."""
        while self._files:
            self._files.popitem()[1].close()

    def _links(self, groups: list[int] | None, chain: str | None) -> Iterator[Link]:
        for row in self._batches("events", _LINK, groups, chain):
            if None in row.values():
                message = f"{self.folder / 'events.parquet'}: an event without {', '.join(_LINK)}"
                raise StoreError(message)
            yield Link(**row)

    def _batches(
        self, name: str, columns: list[str], groups: list[int] | None = None, chain: str | None = None
    ) -> Iterator[dict[str, Any]]:
        import pyarrow.compute as pc

        path = self.folder / f"{name}.parquet"
        with _readable(path):
            file = self._file(name)
            expected, actual = arrow_schema(name), file.schema_arrow
            wrong = [c for c in columns if c not in actual.names or actual.field(c).type != expected.field(c).type]
            if wrong:
                message = f"{path} cannot be read: its column {wrong[0]} is missing or of another type"
                raise StoreError(message)
            chosen = range(file.metadata.num_row_groups) if groups is None else groups
        for group in chosen:  # one at a time, because a batch would otherwise gather rows over many of them
            with _readable(path):
                batches = file.iter_batches(_BATCH, row_groups=[group], columns=columns, use_threads=False)
            while True:
                with _readable(path):
                    batch = next(batches, None)
                    if batch is None:
                        break
                    if chain is not None:
                        batch = batch.filter(pc.equal(batch.column("chain"), chain))
                    rows = batch.to_pylist()
                yield from rows

    @cached_property
    def _groups(self) -> list[_Group]:
        """Which chains each row group of `events` may hold."""
        with _readable(self.folder / "events.parquet"):
            metadata = self._file("events").metadata
            at = self._file("events").schema_arrow.names.index("chain")
            found = []
            for number in range(metadata.num_row_groups):
                known = metadata.row_group(number).column(at).statistics
                has = known is not None and known.has_min_max
                found.append(_Group(number, known.min if has else None, known.max if has else None))
        return found

    def _file(self, name: str) -> Any:
        import pyarrow.parquet as pq

        if name not in self._files:
            self._files[name] = pq.ParquetFile(self.folder / f"{name}.parquet")
        return self._files[name]


def file_digest(path: Path) -> str:
    """The content address of a file's bytes, in bounded memory. Raises `StoreError` where it cannot be read."""
    from blake3 import blake3

    try:
        return DIGEST_PREFIX + blake3().update_mmap(path).hexdigest()
    except OSError as exc:
        message = f"{path} cannot be read: {exc.strerror or exc}"
        raise StoreError(message) from exc


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[None]:
    """What damaged bytes make Parquet, UTF-8 and JSON readers raise becomes `StoreError`."""
    import pyarrow.lib

    try:
        yield
    except (OSError, pyarrow.lib.ArrowException, msgspec.DecodeError, ValueError, TypeError, LookupError) as exc:
        message = f"{path} cannot be read: {str(exc).splitlines()[0] if str(exc) else type(exc).__name__}"
        raise StoreError(message) from exc
