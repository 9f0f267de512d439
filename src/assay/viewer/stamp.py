"""What changes with a run: the mark that kept views are compared by."""

from __future__ import annotations

from pathlib import Path

from assay.errors import StoreError, UserError
from assay.store import Layout, RunStore

__all__ = ["run_stamp"]


def run_stamp(root: Path, run: str) -> str:
    """A text that is another one after anything was appended to a run, learnt about it, or after it was sealed.

    Raises:
        UserError: There is no such run.
        StoreError: It cannot be read.
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
