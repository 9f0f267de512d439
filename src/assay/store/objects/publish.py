"""Publishes a sealed run: its blobs and files become objects, and manifests list them.

The order makes an interruption at any moment safe: the blobs are sent and listed batch by batch, then the files, with
`sealed/seal.json` in the last manifest, which makes the run complete. A repetition sends only what is missing.

Invariant: an object that exists is relied on only if a manifest lists it or if it is young, so that a garbage
collection (`collect`) that runs meanwhile does not delete it; an old one that nothing lists is created anew.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from assay.errors import StoreError
from assay.records import DIGEST_PREFIX
from assay.store.addenda import addendum_numbers
from assay.store.erase import erasures
from assay.store.gc import referenced_addresses
from assay.store.layout import Layout
from assay.store.run import RunStore
from assay.store.sealed import file_digest

from .index import (
    BLOBS_PREFIX,
    MOST_OBJECT_BYTES,
    RUNS_PREFIX,
    SEAL_PATH,
    IndexEntry,
    append_manifest,
    blob_entry,
    file_entry,
    in_batches,
    list_published,
    read_index,
)
from .interface import ObjectEntry, ObjectStore
from .transfer import Progress, create_or_find, transfer

GRACE_S = 7 * 86400.0
"""Age below which garbage collection keeps an object that no manifest lists."""
RELIED_S = GRACE_S / 2
"""Age up to which a publisher relies on such an object; the other half is for the rest of its work."""
_SHARD = len(f"{BLOBS_PREFIX}ab/")


class CopyReport(msgspec.Struct, frozen=True):
    """A run that was copied to or from object storage."""

    run: str
    sent: int
    """Objects that were written."""
    bytes_sent: int
    already: int
    """Objects that were there."""


class _LocalRun(NamedTuple):
    files: list[tuple[IndexEntry, Path]]
    blobs: dict[str, int]
    """Digest to size."""
    erased: tuple[str, ...]


class Publisher:
    """Publishes the sealed runs of a folder to one place."""

    def __init__(self, root: Path, place: ObjectStore) -> None:
        self._root = root
        self._place = place
        self._listed: set[str] | None = None

    async def publish(self, run: str, progress: Progress = lambda _done, _total: None) -> CopyReport:
        """Publishes a run, or what was added to it since: blobs and addenda. Repeating it is safe.

        Raises:
            StoreError: The run is live or damaged, or another run of that name was published; the message says which.
            ObjectStoreError: The place cannot be reached; what was sent stays there.
        """
        local = await asyncio.to_thread(_read_local, Layout(self._root, run))
        index = await read_index(self._place, run)
        files = [(entry, path) for entry, path in local.files if index.lacks(entry)]
        blobs = [entry for digest, size in local.blobs.items() if index.lacks(entry := blob_entry(digest, size))]
        entries = [entry for entry, _ in files]
        _require_size([*blobs, *entries])
        sources = {entry.key: path for entry, path in files}
        total = len(local.files) + len(local.blobs)
        sender = _Sender(self, Layout(self._root, run), sources, progress, total - len(files) - len(blobs), total)
        for batch in in_batches(blobs):
            await sender.send(batch, await self._existing(batch, {entry.key[:_SHARD] for entry in batch}))
            await append_manifest(self._place, run, batch)
        if entries:
            await sender.send(entries, await self._existing(entries, {f"{RUNS_PREFIX}{run}/segments/"}))
        await append_manifest(self._place, run, entries, local.erased)
        return CopyReport(run, sender.sent, sender.bytes_sent, total - sender.sent)

    async def _existing(self, entries: Sequence[IndexEntry], prefixes: set[str]) -> dict[str, ObjectEntry]:
        """Returns those of the objects that exist, which have one of some prefixes, by key."""
        wanted = {entry.key for entry in entries}
        found: dict[str, ObjectEntry] = {}

        async def look(prefix: str) -> None:
            async for page in self._place.list(prefix):
                found.update((one.key, one) for one in page if one.key in wanted)

        await transfer(sorted(prefixes), look)
        return found

    async def put(self, entry: IndexEntry, data: bytes, existing: ObjectEntry | None) -> bool:
        """Creates an object unless it can be relied on; returns whether it was written."""
        if existing is not None and existing.size != entry.size:
            raise StoreError(
                f"{self._place}: {entry.key} has {existing.size:,} bytes in place of {entry.size:,}: it was cut or "
                "changed there; remove the object, and repeat the copy"
            )
        if existing is not None:
            if time.time() - existing.modified <= RELIED_S or entry.key in await self._listed_keys():
                return False
            await self._place.delete(entry.key)
        return await create_or_find(self._place, entry.key, data)

    async def _listed_keys(self) -> set[str]:
        """Returns the keys that the manifests of all runs list; read once."""
        if self._listed is None:
            self._listed = await listed_keys(self._place)
        return self._listed


class _Sender:
    """Sends objects of one run, and counts them."""

    def __init__(
        self, publisher: Publisher, layout: Layout, sources: dict[str, Path], progress: Progress, done: int, total: int
    ) -> None:
        self._publisher, self._layout, self._sources = publisher, layout, sources
        self._progress, self._done, self._total = progress, done, total
        self.sent = self.bytes_sent = 0

    async def send(self, entries: Sequence[IndexEntry], existing: dict[str, ObjectEntry]) -> None:
        async def work(entry: IndexEntry) -> None:
            data = await asyncio.to_thread(self._read, entry)
            if await self._publisher.put(entry, data, existing.get(entry.key)):
                self.sent, self.bytes_sent = self.sent + 1, self.bytes_sent + entry.size
            self._done += 1
            self._progress(self._done, self._total)

        await transfer(entries, work, size=lambda entry: entry.size)

    def _read(self, entry: IndexEntry) -> bytes:
        """Reads what an entry names; a file is immutable and was hashed a moment ago, a blob is verified here."""
        path = self._sources.get(entry.key)
        if path is None:
            return self._layout.blobs.get(entry.digest)
        data = path.read_bytes()
        if len(data) != entry.size:
            raise StoreError(f"{path} changed while it was copied: repeat the copy")
        return data


async def listed_keys(place: ObjectStore) -> set[str]:
    """Returns the keys that the manifests of all runs list. Raises `StoreError` where one cannot be read."""
    keys: set[str] = set()
    for run, count in (await list_published(place)).items():
        keys.update(entry.key for entry in (await read_index(place, run, count)).objects())
    return keys


def _require_size(entries: Sequence[IndexEntry]) -> None:
    large = next((entry for entry in entries if entry.size > MOST_OBJECT_BYTES), None)
    if large is not None:
        raise StoreError(
            f"{large.path or large.digest} has {large.size / 2**30:.1f} GiB, and object stores take at most "
            f"{MOST_OBJECT_BYTES >> 30} GiB in one request: nothing was copied"
        )


def _read_local(layout: Layout) -> _LocalRun:
    """Returns the files and blobs of a sealed run.

    Raises:
        StoreError: It is live, or a file differs from what was sealed.
    """
    layout.require()
    if not layout.is_sealed:
        raise StoreError(f"run {layout.run} is live: seal it first with `assay seal {layout.run}`")
    with RunStore.open(layout.root, layout.run) as store, store.snapshot():
        files = [_local_file(layout, path) for path in _file_paths(layout, store.sealed.seal.files)]
        for entry, path in files:
            sealed = store.sealed.seal.files.get(path.name)
            if entry.path is not None and entry.path.startswith("sealed/") and sealed not in (None, entry.digest):
                raise StoreError(f"{path} differs from what was sealed: restore it from a copy")
        erased = tuple({one.blob for one in erasures(store)})
    blobs: dict[str, int] = {}
    for digest in sorted(DIGEST_PREFIX + raw.hex() for raw in referenced_addresses(layout)):  # after the addenda
        path = layout.blobs.path(digest)
        if digest not in erased and path.is_file():
            blobs[digest] = path.stat().st_size
    return _LocalRun(files, blobs, erased)


def _file_paths(layout: Layout, sealed: dict[str, str]) -> list[str]:
    paths = [f"sealed/{name}" for name in sorted(sealed)]
    paths += [f"addenda/{number}.json" for number in addendum_numbers(layout)]
    return [*(["manifest.json"] if layout.manifest.is_file() else []), *paths, SEAL_PATH]


def _local_file(layout: Layout, path: str) -> tuple[IndexEntry, Path]:
    local = layout.folder / path
    digest = file_digest(local)
    return file_entry(layout.run, path, digest, local.stat().st_size), local
