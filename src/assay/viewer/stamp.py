"""The stamp of a run, by which cached views are compared."""

from __future__ import annotations

from pathlib import Path

from assay.errors import StoreError, UserError
from assay.store import Layout, RunStore


def run_stamp(root: Path, run: str) -> str:
    """Returns a text that changes whenever a run is appended to, amended or sealed.

    Raises:
        UserError: The run does not exist.
        StoreError: The run cannot be read.
    """
    layout = Layout(root, run)
    try:
        layout.require()
    except StoreError as exc:
        if layout.folder.exists():
            raise
        raise UserError(str(exc)) from exc
    if not layout.is_sealed:
        with RunStore.open(root, run) as store:
            return stamp_of(store)
    return _sealed_stamp(layout)


def stamp_of(store: RunStore) -> str:
    """Returns the stamp of an open run. Raises `StoreError` where it cannot be read."""
    if store.is_sealed:
        return _sealed_stamp(store.layout)
    return f"live {store.layout.sqlite.stat().st_ino} {store.live.last_seq()}"


def _sealed_stamp(layout: Layout) -> str:
    seal = layout.seal.stat()
    later = sorted(int(path.stem) for path in layout.addenda.glob("*.json") if path.stem.isdecimal())
    return f"sealed {seal.st_ino} {seal.st_mtime_ns} {seal.st_size} {len(later)} {later[-1:]}"
