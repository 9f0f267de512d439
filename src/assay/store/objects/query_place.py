"""SQL over the published runs of a place: only the tables that a statement names are fetched, into a cache by digest.

Manifests and tables are immutable, so what the cache holds is not asked for again; a query whose tables are all there
costs one listing. Each table is verified by its digest before it is written, elsewhere, and renamed, and its rows are
of the run that lists it. DuckDB reads files of the cache alone, and keeps its locks (`assay.store.query`): no
credential and no network is in its reach.

Covered: an object that was changed, cut or removed is named; a run that is not complete is left out. Not covered:
someone who can write to the cache.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from assay.errors import StoreError
from assay.records import DIGEST_PREFIX, digest_bytes
from assay.store.addendum_tables import addendum_tables
from assay.store.database import store_errors
from assay.store.layout import Layout
from assay.store.parquet import require_rows_of
from assay.store.query import QueryLimits, QueryResult, QueryTables, named_tables, query_tables
from assay.store.tables import IN_QUERIES

from .index import INDEX_PREFIX, SEAL_PATH, IndexEntry, RunIndex, list_published, read_index
from .interface import ObjectEntry, ObjectStore
from .transfer import Flight, read_verified, transfer, write_in_thread

AT_ONCE = 32
"""Runs whose tables are fetched at once."""
_INLINE_BYTES = 256 << 10
"""Up to which a write takes less time than handing it to a thread and back."""


async def query_place(
    place: ObjectStore, sql: str, cache: Path, *, runs: Sequence[str] = (), bounds: QueryLimits | None = None
) -> QueryResult:
    """Runs one SELECT over the tables of published runs, by default all that are complete, as `assay.store.query` does.

    Args:
        place: The place.
        sql: The statement.
        cache: Folder of fetched tables, which may be removed at any time.
        runs: Names of runs.
        bounds: Limits of the query.

    Raises:
        UserError: As `assay.store.query`.
        StoreError: A run does not exist or is not complete; or an object is missing or changed; the message names it.
        ObjectStoreError: The place cannot be reached.
    """
    bounds = bounds or QueryLimits()
    manifests = _CachedManifests(place, cache / "manifests" / _folder_name(str(place)))
    names, published = await _check_and_list(manifests, sql)
    with tempfile.TemporaryDirectory(prefix="assay-query-") as scratch:
        tables = await _TableFetcher(place, manifests, cache, Path(scratch)).fetch(names, runs, published)
        return await asyncio.to_thread(query_tables, tables, sql, bounds)


async def _check_and_list(place: ObjectStore, sql: str) -> tuple[Sequence[str], dict[str, int]]:
    """Returns the tables that a statement names, and the published runs. The statement is checked during the listing,
    because either takes tens of milliseconds."""
    listing = asyncio.create_task(list_published(place))
    try:
        names = await asyncio.to_thread(named_tables, sql)
    except BaseException:
        listing.cancel()
        await asyncio.gather(listing, return_exceptions=True)
        raise
    return names, await listing


class _RunFiles(NamedTuple):
    tables: dict[str, Path]
    added: dict[str, Path]
    """Rows that addenda add."""


class _TableFetcher:
    def __init__(self, place: ObjectStore, manifests: _CachedManifests, cache: Path, scratch: Path) -> None:
        self._place, self._manifests, self._cache, self._scratch = place, manifests, cache, scratch
        self._tables = cache / "tables"
        self._flight = Flight()

    async def fetch(self, names: Sequence[str], runs: Sequence[str], published: Mapping[str, int]) -> QueryTables:
        """Returns the tables of runs, after fetching those that the cache lacks."""
        for run in runs:
            if run not in published:
                known = ", ".join(list(published)[-3:]) or "none"
                raise StoreError(f"no run is called {run!r} in {self._place}; it has {known}")
        with store_errors(self._cache):
            self._tables.mkdir(parents=True, exist_ok=True)
            self._manifests.folder.mkdir(parents=True, exist_ok=True)
        found: dict[str, _RunFiles | None] = {}

        async def get(run: str) -> None:
            index = await read_index(self._manifests, run, published[run])
            if index.is_complete:
                found[run] = await self._fetch_run(index, names)
            elif runs:
                raise StoreError(f"{self._place}: run {run} is not complete: repeat the copy that was interrupted")

        chosen = list(dict.fromkeys(runs)) or list(published)
        await transfer(chosen, get, at_once=AT_ONCE)
        files = [one for one in map(found.get, chosen) if one is not None]
        if not files:
            raise StoreError(f"no complete run is in {self._place}: copy some there with `assay store copy`")
        return QueryTables(
            {name: [one.tables[name] for one in files] for name in names},
            {name: [one.added[name] for one in files if name in one.added] for name in names},
        )

    async def _fetch_run(self, index: RunIndex, names: Sequence[str]) -> _RunFiles:
        tables = {name: await self._get(index, f"sealed/{name}.parquet") for name in names}
        addenda = [path for path in index.files if path.startswith("addenda/")]
        if not addenda or not any(name in IN_QUERIES for name in names):
            return _RunFiles(tables, {})
        layout = Layout(self._scratch, index.run)
        for path in (SEAL_PATH, "sealed/trajectories.parquet", *addenda):
            source, target = await self._get(index, path), layout.folder / path
            with store_errors(target):
                target.parent.mkdir(parents=True, exist_ok=True)
                target.symlink_to(source)
        added = await asyncio.to_thread(addendum_tables, layout, names, layout.folder / "added")
        return _RunFiles(tables, added)

    async def _get(self, index: RunIndex, path: str) -> Path:
        entry = index.files.get(path)
        if entry is None:
            raise StoreError(f"{self._place}: run {index.run} has no {path}")
        is_table = path.startswith("sealed/") and path.endswith(".parquet")
        # Under the run's name, too: what one run may list is not for another one.
        target = self._tables / f"{_digits(entry)}-{_folder_name(index.run)}{Path(path).suffix}"
        if _size(target) != entry.size:
            await self._flight.enter(entry.size)
            try:
                data = await read_verified(self._place, entry.key, entry.size, entry.digest)
                if is_table:
                    require_rows_of(index.run, data, f"{self._place}: {entry.key}")
                if entry.size <= _INLINE_BYTES:
                    _write(target, data)
                else:
                    await write_in_thread(_write, target, data)
            finally:
                self._flight.leave(entry.size)
        return target


class _CachedManifests:
    """The manifests of a place, each read from it once; an `ObjectStore` for reading.

    The place may have been emptied since, and hold another run of that name: one whose size or time is another in the
    listing is read again.
    """

    def __init__(self, place: ObjectStore, folder: Path) -> None:
        self._place, self.folder = place, folder
        self._listed: dict[str, ObjectEntry] = {}

    def __str__(self) -> str:
        return str(self._place)

    async def read(self, key: str, *, limit: int | None = None, size: int | None = None) -> bytes:
        path = f"{self.folder}/{key.removeprefix(INDEX_PREFIX).replace('/', '@')}"  # a run's name has no @
        if key in self._listed:
            path += f"@{self._listed[key].size}@{self._listed[key].modified}"
        try:
            return _read(path)
        except FileNotFoundError:
            data = await self._place.read(key, limit=limit, size=size)
            _write(Path(path), data)
            return data

    async def list(self, prefix: str, *, after: str = "") -> AsyncIterator[Sequence[ObjectEntry]]:
        async for page in self._place.list(prefix, after=after):
            self._listed.update({one.key: one for one in page})
            yield page

    async def create(self, key: str, data: bytes) -> bool:
        return await self._place.create(key, data)

    async def delete(self, key: str) -> None:
        await self._place.delete(key)


def _folder_name(url: str) -> str:
    return digest_bytes(url.encode()).removeprefix(DIGEST_PREFIX)[:32]


def _digits(entry: IndexEntry) -> str:
    return entry.digest.removeprefix(DIGEST_PREFIX)


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123  # half the cost of a `Path`
        return file.read()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1


def _write(path: Path, data: bytes) -> None:
    """Writes a file whole. It is not flushed to the disk: it can be fetched again."""
    temporary = f"{path}.{os.getpid()}.tmp"
    with store_errors(path), open(temporary, "wb", buffering=0) as file:  # noqa: PTH123
        file.write(data)
        os.replace(temporary, path)  # noqa: PTH105
