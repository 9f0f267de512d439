"""Sealing: a live run becomes Parquet files that nothing rewrites, in bounded memory.

The order makes a kill at any moment safe: the tables are written into a temporary folder, read back and recomputed
chain by chain, flushed to the disk, named by `seal.json`, renamed into place; only then is `run.sqlite` removed. An
interrupted sealing is simply repeated.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

from assay.errors import StoreError
from assay.records import SCHEMA_VERSION

from .audit import chain_problems
from .chain import heads_digest
from .database import WriterLock, store_errors
from .layout import Layout
from .parquet import write_tables
from .run import RunStore
from .sealed import SealedRun, SealManifest, file_digest
from .tables import TABLES
from .text_index import FILE as INDEX
from .text_index import write_index


class SealReport(msgspec.Struct, frozen=True):
    """The result of sealing. Keep `head` elsewhere: it reveals a rewrite or truncation, which the chain alone
    cannot."""

    run: str
    head: str
    chains: int
    events: int
    unfinished: tuple[str, ...]
    """Chains that never ended; they are sealed as they are."""
    bytes_before: int
    bytes_after: int
    already: bool = False
    """The run was sealed before; nothing was done."""


def seal(root: Path, run: str) -> SealReport:
    """Seals a run; does nothing where it is sealed.

    Raises:
        StoreError: It is missing, being written, damaged, or the disk is full; the live run is unchanged.
    """
    layout = Layout(root, run)
    layout.require()
    if layout.is_sealed:
        return _existing_report(layout)
    with RunStore.open(root, run, write=True) as store, _temporary_folder(layout) as folder:
        before = _total_bytes(layout.live_files)
        manifest = _write_sealed(store, folder)
        with store_errors(layout.sealed):
            folder.replace(layout.sealed)
            flush_to_disk(layout.folder)
        unfinished = tuple(r.chain for r in store.attempts() if r.finished is None)
    _remove_live(layout)
    after = _total_bytes(tuple(layout.sealed.iterdir()))
    return SealReport(run, manifest.head, manifest.chains, manifest.events, unfinished, before, after)


def _write_sealed(store: RunStore, folder: Path) -> SealManifest:
    counts = write_tables(store, folder)
    copy = SealedRun(folder)
    with contextlib.closing(copy):
        problem = next(chain_problems(store.run, copy.links(), copy.attempts()), None)
        if problem is None and copy.attempts() != store.attempts():
            raise StoreError(f"run {store.run}: the sealed rows differ from the live ones; the live run is unchanged")
        if problem is None and copy.counts() != dict(counts):
            raise StoreError(f"run {store.run}: the sealed tables lack rows; the live run is unchanged")
    if problem is not None:
        raise StoreError(f"run {store.run} is not sealed, because it is damaged: {problem}")
    rows = store.attempts()
    with contextlib.closing(SealedRun(folder)) as steps:
        write_index(steps, folder / INDEX)
    paths = [*(folder / f"{name}.parquet" for name in TABLES), folder / INDEX]
    manifest = SealManifest(
        run=store.run,
        schema_version=SCHEMA_VERSION,
        head=heads_digest((r.chain, r.head, r.length) for r in rows),
        chains=len(rows),
        events=counts["events"],
        files={path.name: file_digest(path) for path in paths},
        manifest=store.manifest(),
    )
    manifest = msgspec.structs.replace(manifest, digest=manifest.own_digest())
    path = folder / "seal.json"
    with store_errors(path):
        path.write_bytes(manifest.written())
        for written in (*paths, path, folder):
            flush_to_disk(written)
    return manifest


def _existing_report(layout: Layout) -> SealReport:
    """Returns the report of an earlier sealing, and removes live files that it may have left."""
    with contextlib.closing(SealedRun(layout.sealed)) as sealed:
        seal = sealed.seal
        unfinished = tuple(r.chain for r in sealed.attempts() if r.finished is None)
        if layout.sqlite.exists():
            for name, digest in seal.files.items():
                if file_digest(layout.sealed / Path(name).name) != digest:
                    raise StoreError(f"{layout.sealed / name} differs from what was sealed; run.sqlite is kept")
            lock = WriterLock(layout.lock)
            try:
                _remove_live(layout)
            finally:
                lock.release()
    after = _total_bytes(tuple(layout.sealed.iterdir()))
    return SealReport(seal.run, seal.head, seal.chains, seal.events, unfinished, after, after, already=True)


@contextlib.contextmanager
def _temporary_folder(layout: Layout) -> Iterator[Path]:
    """Opens a temporary folder for the sealed form, removed unless it was renamed into place."""
    for left in layout.folder.glob("sealed.*.tmp"):  # of a sealing that was killed; we hold the lock
        shutil.rmtree(left, ignore_errors=True)
    if layout.sealed.exists():
        raise StoreError(f"{layout.sealed} exists and has no seal.json: move it away")
    folder = layout.folder / f"sealed.{os.getpid()}.tmp"
    with store_errors(folder):
        folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_live(layout: Layout) -> None:
    with store_errors(layout.sqlite):
        for path in layout.live_files:
            path.unlink(missing_ok=True)
    shutil.rmtree(layout.tables, ignore_errors=True)  # kept for speed alone


def flush_to_disk(path: Path) -> None:
    """Flushes a file to the disk: the replacement of the only copy must survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _total_bytes(paths: tuple[Path, ...]) -> int:
    return sum(p.stat().st_size for p in paths if p.is_file())
