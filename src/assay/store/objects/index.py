"""The index of published runs: numbered manifests that are created once, and say which objects a run consists of.

    index/RUN/N.json                  the manifest N of a run: keys, sizes and digests of objects that were added
    runs/RUN/segments/HEX/NAME        a file of the sealed run, under its own digest
    blobs/ab/HEX                      a blob, as in a folder

Publishers take the next free number by creating it; the loser of a number reads the winner's manifest and takes the
next. Each manifest names the digest of the one before it, so that a removed, changed or exchanged one is noticed; a
removed last one only against a copy or a receipt, as with the chains of a run.

Invariant: every key follows from a digest, so that no two different contents compete for one key. A run is complete
when its manifests list `sealed/seal.json`, which is published last.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from assay.errors import StoreError
from assay.records import DIGEST_PREFIX, canonical_bytes, digest_bytes
from assay.store.layout import RUN_NAME
from assay.store.sealed import SealManifest

from .interface import ObjectStore
from .transfer import create_or_find, read_verified, transfer

INDEX_PREFIX, RUNS_PREFIX, BLOBS_PREFIX = "index/", "runs/", "blobs/"
SEAL_PATH = "sealed/seal.json"
MOST_OBJECTS = 20_000
"""Of a manifest, which has about 200 bytes for each."""
MOST_MANIFEST_BYTES = 64 << 20
MOST_OBJECT_BYTES = 5 << 30
"""The largest object that S3 takes in one request."""
MOST_LOST = 1_000
"""Numbers that one publisher may lose to others; each loss is another's success."""
_VERSION = 1
_DIGEST = re.compile(r"blake3:[0-9a-f]{64}")
_PATH = re.compile(r"manifest\.json|sealed/(?:[a-z_]+\.parquet|seal\.json)|addenda/(?:0|[1-9][0-9]*)\.json")
_NUMBER = re.compile(r"0|[1-9][0-9]*")


class IndexEntry(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """An object of a run."""

    key: str
    size: int
    digest: str
    path: str | None = None
    """Of a file, below the run's folder; None for a blob."""


class IndexManifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`index/RUN/N.json`."""

    version: int
    run: str
    number: int
    previous: str | None
    """Digest of the bytes of the manifest before it; None for the first."""
    objects: tuple[IndexEntry, ...]
    erased: tuple[str, ...] = ()
    """Digests of blobs that a tombstone of the run names; they count as not listed."""


class RunIndex(msgspec.Struct):
    """The objects of a run that its manifests list together."""

    run: str
    count: int = 0
    """Number of manifests."""
    last: str | None = None
    """Digest of the last one."""
    files: dict[str, IndexEntry] = msgspec.field(default_factory=dict)
    """By path."""
    blobs: dict[str, int] = msgspec.field(default_factory=dict)
    """Digest to size, without erased ones."""
    erased: set[str] = msgspec.field(default_factory=set)

    @property
    def is_complete(self) -> bool:
        return SEAL_PATH in self.files

    def objects(self) -> list[IndexEntry]:
        """Returns the files and the blobs."""
        return [*self.files.values(), *(blob_entry(digest, size) for digest, size in self.blobs.items())]

    def lacks(self, entry: IndexEntry) -> bool:
        """Returns whether an object is not listed.

        Raises:
            StoreError: Another file is listed under the same path.
        """
        if entry.path is None:
            return entry.digest not in self.blobs and entry.digest not in self.erased
        listed = self.files.get(entry.path)
        if listed is not None and listed.digest != entry.digest:
            raise StoreError(
                f"run {self.run}: another {entry.path} is published as {listed.key}: it is another run of the same "
                "name, or something else was added to it there. Rename one of the runs, or copy it to another place"
            )
        return listed is None


def blob_entry(digest: str, size: int) -> IndexEntry:
    name = digest.removeprefix(DIGEST_PREFIX)
    return IndexEntry(f"{BLOBS_PREFIX}{name[:2]}/{name}", size, digest)


def file_entry(run: str, path: str, digest: str, size: int) -> IndexEntry:
    name = path.rpartition("/")[2]
    return IndexEntry(f"{RUNS_PREFIX}{run}/segments/{digest.removeprefix(DIGEST_PREFIX)}/{name}", size, digest, path)


def manifest_key(run: str, number: int) -> str:
    return f"{INDEX_PREFIX}{run}/{number}.json"


async def list_published(place: ObjectStore) -> dict[str, int]:
    """Returns the names of the runs that have manifests, sorted, and how many each has.

    Raises:
        StoreError: A manifest is missing, or an object under `index/` is not a manifest.
    """
    return await _count_manifests(place, INDEX_PREFIX)


async def read_index(place: ObjectStore, run: str, count: int | None = None) -> RunIndex:
    """Reads the manifests of a run (`count` of them, or as many as are there); empty without one.

    Raises:
        StoreError: A manifest is missing, or was changed; the message names its key.
    """
    index = RunIndex(run)
    if count is None:
        count = (await _count_manifests(place, f"{INDEX_PREFIX}{run}/")).get(run, 0)
    await _read_on(place, index, count)
    return index


async def append_manifest(
    place: ObjectStore, run: str, objects: Iterable[IndexEntry], erased: Iterable[str] = ()
) -> RunIndex:
    """Lists objects of a run, which must be there, as one manifest with what is not listed yet; returns the index.

    Writes nothing where all is listed. May be called by several publishers at once, and again after a failure.

    Raises:
        StoreError: Another file is listed under the same path, or a manifest was changed.
        ObjectStoreError: The place cannot be reached.
    """
    objects, erased = tuple(objects), tuple(sorted(set(erased)))
    index = await read_index(place, run)
    for _ in range(MOST_LOST):
        missing = tuple(entry for entry in objects if index.lacks(entry))
        gone = tuple(digest for digest in erased if digest not in index.erased)
        if not missing and not gone:
            return index
        data = canonical_bytes(IndexManifest(_VERSION, run, index.count, index.last, missing, gone))
        await create_or_find(place, manifest_key(run, index.count), data)
        await _read_on(place, index, index.count + 1)  # ours or the winner's; the next round tells
    raise StoreError(f"{place}: run {run} was published {MOST_LOST} times by others meanwhile: try again later")


async def _count_manifests(place: ObjectStore, prefix: str) -> dict[str, int]:
    numbers: dict[str, set[int]] = {}
    async for page in place.list(prefix):
        for one in page:
            run, _, name = one.key.removeprefix(INDEX_PREFIX).partition("/")
            stem = name.removesuffix(".json")
            if not RUN_NAME.fullmatch(run) or stem == name or not _NUMBER.fullmatch(stem):
                raise StoreError(f"{place}: {one.key} is not a manifest of a run: remove it")
            numbers.setdefault(run, set()).add(int(stem))
    for run, taken in sorted(numbers.items()):
        absent = next((number for number in range(len(taken)) if number not in taken), None)
        if absent is not None:
            raise StoreError(f"{place}: {manifest_key(run, absent)} is missing, and later manifests exist: restore it")
    return {run: len(taken) for run, taken in sorted(numbers.items())}


async def _read_on(place: ObjectStore, index: RunIndex, count: int) -> None:
    """Reads the manifests from the first unread one up to a number, and adds them to the index."""
    read: dict[int, bytes] = {}

    async def fetch(number: int) -> None:
        key = manifest_key(index.run, number)
        try:
            read[number] = await place.read(key, limit=MOST_MANIFEST_BYTES)
        except FileNotFoundError:
            raise StoreError(f"{place}: {key} is missing: restore it") from None
        except ValueError as exc:
            raise StoreError(f"{place}: {key} is not a manifest: {exc}") from None

    if count - index.count == 1:  # of most runs, and a transfer costs as much as reading it
        await fetch(index.count)
    else:
        await transfer(range(index.count, count), fetch)
    for number in range(index.count, count):
        _add(index, read[number], f"{place}: {manifest_key(index.run, number)}")


def _add(index: RunIndex, data: bytes, where: str) -> None:
    """Adds a manifest to the index. Raises `StoreError` where it is invalid or does not follow."""
    try:
        manifest = msgspec.json.decode(data, type=IndexManifest)
    except (msgspec.DecodeError, ValueError, RecursionError) as exc:
        raise StoreError(f"{where} cannot be read: {exc}") from exc
    if manifest.version > _VERSION:
        raise StoreError(f"{where} was written by a newer Assay (version {manifest.version}): update Assay")
    if (manifest.run, manifest.number) != (index.run, index.count):
        raise StoreError(f"{where} is the manifest {manifest.number} of run {manifest.run}: it was exchanged")
    if manifest.previous != index.last:
        raise StoreError(f"{where} does not follow from the manifest before it: one of them was changed or is stale")
    for entry in manifest.objects:
        if not _is_valid(index.run, entry):
            raise StoreError(
                f"{where} lists {entry.key[:200]!r}, which is not the key of that object, or is larger than an object "
                "can be: it was changed"
            )
    try:
        new = [entry for entry in manifest.objects if index.lacks(entry)]
    except StoreError as exc:
        raise StoreError(f"{where} contradicts an earlier one: {exc}") from exc
    index.files |= {entry.path: entry for entry in new if entry.path is not None}
    index.blobs |= {entry.digest: entry.size for entry in new if entry.path is None}
    for digest in manifest.erased:
        index.erased.add(digest)
        index.blobs.pop(digest, None)
    index.count, index.last = index.count + 1, digest_bytes(data)


def _is_valid(run: str, entry: IndexEntry) -> bool:
    if not _DIGEST.fullmatch(entry.digest) or not 0 <= entry.size <= MOST_OBJECT_BYTES:
        return False
    if entry.path is None:
        return entry == blob_entry(entry.digest, entry.size)
    return bool(_PATH.fullmatch(entry.path)) and entry == file_entry(run, entry.path, entry.digest, entry.size)


async def check_seal(place: ObjectStore, index: RunIndex) -> None:
    """Requires that the seal of a complete run is of the run whose manifests list it, and of the tables that they list.
    Others would count under a name that is not theirs, and twice where both runs are there.

    Raises:
        StoreError: The seal is damaged, or a file was exchanged.
        ObjectStoreError: The place does not answer.
    """
    entry = index.files[SEAL_PATH]
    where = f"{place}: {entry.key}"
    data = await read_verified(place, entry.key, entry.size, entry.digest)
    try:
        seal = msgspec.json.decode(data, type=SealManifest)
    except (msgspec.DecodeError, ValueError, RecursionError) as exc:
        raise StoreError(f"{where} cannot be read: {exc}") from exc
    if seal.run != index.run:
        raise StoreError(f"{where} is the seal of run {seal.run[:200]!r}: it was exchanged")
    for name, digest in seal.files.items():
        listed = index.files.get(f"sealed/{name}")
        if listed is None or listed.digest != digest:
            what = "nothing" if listed is None else listed.key
            raise StoreError(f"{where} is not of the {name[:200]} that is listed ({what}): one of them was exchanged")


def in_batches(objects: Sequence[IndexEntry]) -> Iterable[Sequence[IndexEntry]]:
    """Divides objects by the size of a manifest."""
    return (objects[start : start + MOST_OBJECTS] for start in range(0, len(objects), MOST_OBJECTS))
