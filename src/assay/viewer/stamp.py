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
            if not store.is_sealed:  # else it was sealed at this moment
                return f"live {store.live.last_seq()}"
    seal = layout.seal.stat()
    later = sorted(int(path.stem) for path in layout.addenda.glob("*.json") if path.stem.isdecimal())
    return f"sealed {seal.st_mtime_ns} {seal.st_size} {len(later)} {later[-1:]}"
