"""Atomic folders: written under a temporary name, synced, and renamed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic_folder(final: Path) -> Iterator[Path]:
    """Yields a folder to write into, which replaces `final` at the end.

    Whoever is killed on the way leaves what was there, or nothing, and a folder that the next one sweeps away.
    """
    partial = final.with_name(final.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    yield partial
    _sync([*(path for path in partial.iterdir() if path.is_file()), partial])
    if final.exists():
        shutil.rmtree(final)
    partial.rename(final)
    _sync([final.parent])


def _sync(paths: Iterable[Path]) -> None:
    for path in paths:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
