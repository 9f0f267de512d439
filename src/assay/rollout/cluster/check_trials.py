"""Checks what runs on nodes left in a place: every trial by its key and its chain's head, and every blob it names.

Invariant: what is reported as whole was read: the bytes of each record, the digest of each of its events up to the
head, and the content of each blob. Not covered: rounds and epochs, which a coordinator verifies; layers, which a node
verifies; a trial that was deleted; and a writer who recomputes a chain: keep a receipt elsewhere.
"""

from __future__ import annotations

from assay.errors import StoreError
from assay.store.objects import ObjectCheckReport, ObjectEntry, ObjectStore, ObjectStoreError
from assay.store.objects.collect import is_foreign
from assay.store.objects.index import BLOBS_PREFIX, RUNS_PREFIX, IndexEntry, blob_entry
from assay.store.objects.transfer import Progress, read_verified, transfer

from .commits import TrialRecord, read_record, unpack_events
from .objects import cut_key, final_key, input_key
from .place_records import read_published_name
from .place_references import by_run

PATIENCE_S = 30.0


async def check_trials(place: ObjectStore, progress: Progress = lambda _done, _total: None) -> ObjectCheckReport:
    """Reads all trials of all runs on nodes in a place, and their blobs. Raises `ObjectStoreError`."""
    entries = [one async for page in place.list(RUNS_PREFIX) for one in page if is_foreign(one.key)]
    runs, unknown = by_run(entries)
    checker = _Checker(place, progress, sum(len(found.trials) for found in runs.values()))
    checker.problems += [f"{place}: {key} is of no kind that this version knows" for key in unknown]
    for segment, found in runs.items():
        await checker.check_run(segment, found.trials)
    await checker.check_blobs()
    return ObjectCheckReport(0, checker.objects, checker.bytes_read, tuple(checker.problems), len(runs))


class _Checker:
    def __init__(self, place: ObjectStore, progress: Progress, trials: int) -> None:
        self._place, self._progress, self._trials = place, progress, trials
        self._blobs: dict[str, str] = {}
        """A trial's key for each blob."""
        self.problems: list[str] = []
        self.objects = self.bytes_read = 0

    async def check_run(self, segment: str, trials: list[ObjectEntry]) -> None:
        """Checks the trials of a run, which is named by its record."""
        try:
            run = await read_published_name(self._place, segment, PATIENCE_S)
        except ObjectStoreError:
            raise
        except StoreError as exc:
            self.problems.append(f"{self._place}: {exc}")
            return
        found: list[str] = []

        async def check(entry: ObjectEntry) -> None:
            try:
                record = await read_record(self._place, entry.key, run, None, size=entry.size, patience_s=PATIENCE_S)
                _require_whole(entry.key, record)
                self._blobs.update(dict.fromkeys(record.body.blobs, entry.key))
            except ObjectStoreError:
                raise
            except StoreError as exc:
                found.append(f"{self._place}: {exc}")
            self._count(entry.size)

        await transfer(trials, check, size=lambda entry: entry.size)
        self.problems += sorted(found)

    async def check_blobs(self) -> None:
        """Checks the blobs of the trials that were checked."""
        if not self._blobs:
            return
        pages = self._place.list(BLOBS_PREFIX)
        sizes = {one.key: one.size async for page in pages for one in page}
        blobs = [blob_entry(digest, sizes.get(blob_entry(digest, 0).key, -1)) for digest in self._blobs]
        found = [
            f"{self._place}: {blob.key} is missing, which {self._blobs[blob.digest]} names"
            for blob in blobs
            if blob.size < 0
        ]

        async def check(blob: IndexEntry) -> None:
            try:
                await read_verified(self._place, blob.key, blob.size, blob.digest)
            except ObjectStoreError:
                raise
            except StoreError as exc:
                found.append(str(exc))
            self._count(blob.size)

        await transfer([blob for blob in blobs if blob.size >= 0], check, size=lambda blob: blob.size)
        self.problems += sorted(found)

    def _count(self, size: int) -> None:
        self.objects += 1
        self.bytes_read += size
        self._progress(self.objects, self._trials + len(self._blobs))


def _require_whole(key: str, record: TrialRecord) -> None:
    """Raises `StoreError` unless the events of a record give its head, and the record belongs under its key."""
    try:
        unpack_events(record.body)
    except StoreError as exc:
        raise StoreError(f"{key}: {exc}") from exc
    if record.kind == "final":
        expected = final_key(record.run, record.attempt)
    elif record.kind == "input":
        expected = input_key(record.run, record.body.chain)
    else:
        expected = cut_key(record.run, record.attempt, record.token)
    if key != expected:
        raise StoreError(f"{key} holds the record of {expected}: it was moved")
