"""Fetches a published run into a folder, which every reader of a store opens: a local cache by digest.

Each object is verified by its digest before it is written, and written elsewhere and renamed. The sealed files are
collected in a temporary folder that survives an interruption, and renamed into place when all blobs are there, so that
a run is visible only when it is whole. What is there by its digest is not fetched again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import msgspec

from assay.errors import StoreError
from assay.store.addenda import addendum_numbers
from assay.store.database import WriterLock, store_errors
from assay.store.layout import Layout
from assay.store.seal import flush_to_disk
from assay.store.sealed import file_digest

from .index import IndexEntry, RunIndex, blob_entry, check_seal, list_published, manifest_key, read_index
from .interface import ObjectStore
from .publish import CopyReport
from .transfer import Flight, Progress, read_verified, transfer, write_in_thread

RUNS_AT_ONCE = 8
_INLINE_BYTES = 64 << 10
"""Up to which a write takes less time than handing it to a thread and back."""
PARTIAL = "sealed.fetched.tmp"
"""The folder of a run that is being fetched; an old one is removed by `gc`."""


async def fetch_run(
    place: ObjectStore, run: str, root: Path, progress: Progress = lambda _done, _total: None
) -> CopyReport:
    """Fetches a run, or what was published of it since. Repeating it is safe.

    Raises:
        StoreError: The run does not exist; an object is missing or changed (the message names its key); or the folder
            holds a live or another run of that name, or addenda that the place does not list.
        ObjectStoreError: The place cannot be reached; what was fetched stays.
    """
    return await _fetch(place, await read_index(place, run), root, progress, Flight())


async def fetch_runs(
    place: ObjectStore, root: Path, runs: Iterable[str] = (), progress: Callable[[str], Progress] = lambda _: _ignore
) -> list[CopyReport]:
    """Fetches several runs at once, by default all, each as `fetch_run` does; returns their reports in order.

    Raises:
        StoreError, ObjectStoreError: As `fetch_run`, for the first run that fails; whole runs stay.
    """
    published = await list_published(place)
    chosen, reports, flight = list(runs) or list(published), dict[str, CopyReport](), Flight()

    async def fetch(run: str) -> None:
        index = await read_index(place, run, published.get(run, 0))
        reports[run] = await _fetch(place, index, root, progress(run), flight)

    await transfer(chosen, fetch, at_once=RUNS_AT_ONCE)
    return [reports[run] for run in chosen]


def _ignore(_done: int, _total: int) -> None:
    """Takes the progress of a run that is not shown."""


async def _fetch(place: ObjectStore, index: RunIndex, root: Path, progress: Progress, flight: Flight) -> CopyReport:
    layout = Layout(root, index.run)
    if not index.is_complete:
        raise StoreError(await _unknown_run(place, index))
    with store_errors(layout.folder):
        layout.folder.mkdir(parents=True, exist_ok=True)
    lock = WriterLock(layout.lock)
    try:
        return await _Fetch(place, index, layout, progress, flight).run()
    finally:
        lock.release()


async def _unknown_run(place: ObjectStore, index: RunIndex) -> str:
    if index.count:
        return f"{place}: run {index.run} is not complete: repeat the copy that was interrupted"
    names = list(await list_published(place))
    return f"no run is called {index.run!r} in {place}; it has {', '.join(names[-3:]) or 'none'}"


class _Fetch:
    def __init__(self, place: ObjectStore, index: RunIndex, layout: Layout, progress: Progress, flight: Flight) -> None:
        self._place, self._index, self._layout, self._progress = place, index, layout, progress
        self._flight = flight
        self._sealed = layout.sealed if layout.is_sealed else layout.folder / PARTIAL
        self._total, self._done = len(index.files) + len(index.blobs), 0
        self._sent = self._bytes_sent = 0

    async def run(self) -> CopyReport:
        await check_seal(self._place, self._index)
        missing = await asyncio.to_thread(self._missing_files)
        self._done = len(self._index.files) - len(missing)
        await self._fetch_blobs()
        await self._transfer([e for e in missing if not _is_addendum(e)], self._fetch_file)
        addenda = [(entry, await self._read(entry)) for entry in missing if _is_addendum(entry)]
        await self._fetch_blobs()  # the folder's garbage collection may have removed some that waited long
        if self._sealed != self._layout.sealed:
            await asyncio.to_thread(self._show)
        for entry, data in sorted(addenda, key=lambda one: int(self._path(one[0]).stem)):
            await asyncio.to_thread(_write, self._path(entry), data)
            self._count(entry)
        return CopyReport(self._index.run, self._sent, self._bytes_sent, self._total - self._sent)

    def _show(self) -> None:
        """Renames the sealed files into place, after flushing them: the other copy may be removed then."""
        with store_errors(self._layout.sealed):
            for path in (*self._sealed.iterdir(), self._sealed):
                flush_to_disk(path)
            self._sealed.replace(self._layout.sealed)
            flush_to_disk(self._layout.folder)
        self._sealed = self._layout.sealed

    def _missing_files(self) -> list[IndexEntry]:
        """Returns the files that are not here.

        Raises:
            StoreError: The folder holds a live run, another one, or addenda that the manifests do not list.
        """
        layout, index = self._layout, self._index
        if layout.sqlite.exists() and not layout.is_sealed:
            raise StoreError(f"run {index.run} is live in {layout.root}: copy it to another folder")
        with store_errors(self._sealed):
            self._sealed.mkdir(exist_ok=True)
        missing = []
        for entry in index.files.values():
            path = self._path(entry)
            if not path.is_file():
                missing.append(entry)
            elif file_digest(path) != entry.digest:
                if path.parent.name != PARTIAL:
                    raise StoreError(
                        f"{path} differs from {entry.key} in {self._place}: another run has that name, or one of them "
                        "was changed. Move the folder away, or copy to another one"
                    )
                missing.append(entry)
        unlisted = [n for n in addendum_numbers(layout) if f"addenda/{n}.json" not in index.files]
        if unlisted:
            raise StoreError(
                f"{self._place}: {manifest_key(index.run, index.count - 1)} is stale: {layout.folder} holds "
                f"addenda/{unlisted[0]}.json, which it does not list. Copy the run there first"
            )
        return missing

    async def _fetch_blobs(self) -> None:
        blobs = self._layout.blobs
        missing = [blob_entry(d, size) for d, size in self._index.blobs.items() if not blobs.has(d)]
        self._done = max(self._done, self._total - len(self._index.files) - len(missing))

        async def fetch(entry: IndexEntry) -> None:
            await write_in_thread(blobs.put, await self._read(entry))
            self._count(entry)

        await self._transfer(missing, fetch)

    async def _transfer(self, entries: list[IndexEntry], work: Callable[[IndexEntry], Awaitable[None]]) -> None:
        await transfer(entries, work, size=lambda entry: entry.size, flight=self._flight)

    async def _fetch_file(self, entry: IndexEntry) -> None:
        data = await self._read(entry)
        if entry.size <= _INLINE_BYTES:
            _write(self._path(entry), data)
        else:
            await write_in_thread(_write, self._path(entry), data)
        self._count(entry)

    async def _read(self, entry: IndexEntry) -> bytes:
        return await read_verified(self._place, entry.key, entry.size, entry.digest)

    def _count(self, entry: IndexEntry) -> None:
        self._sent, self._bytes_sent, self._done = self._sent + 1, self._bytes_sent + entry.size, self._done + 1
        self._progress(min(self._done, self._total), self._total)

    def _path(self, entry: IndexEntry) -> Path:
        folder, _, name = (entry.path or "").rpartition("/")
        return self._sealed / name if folder == "sealed" else self._layout.folder / folder / name


def _is_addendum(entry: IndexEntry) -> bool:
    return (entry.path or "").startswith("addenda/")


def _write(path: Path, data: bytes) -> None:
    """Writes a file whole; a run's manifest gets the time at which the run was created, which orders runs."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with store_errors(path):
        path.parent.mkdir(exist_ok=True)
        try:
            temporary.write_bytes(data)
            if path.name == "manifest.json":
                with contextlib.suppress(msgspec.DecodeError, OSError, OverflowError):
                    created = msgspec.json.decode(data, type=_Created).created
                    os.utime(temporary, (created, created))
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


class _Created(msgspec.Struct):
    created: float
