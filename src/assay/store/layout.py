"""Paths of a store.

<root>/blobs/ab/<hex>                 content-addressed bytes, shared by all runs
<root>/runs/<run>/manifest.json       what was run, readable without us
<root>/runs/<run>/run.sqlite          the live run
<root>/runs/<run>/lock                held by its writer
<root>/runs/<run>/sealed/*.parquet    the sealed run, with seal.json beside
<root>/runs/<run>/addenda/<n>.json    what was learnt after sealing, one chained segment a file
<root>/runs/<run>/tables/             tables of a live run, cached between queries (see `live_tables`)
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import msgspec

from assay.errors import StoreError, StoreNotFoundError, UserError

from .blobs import BlobStore
from .database import store_errors

MAX_RUN_NAME = 120
"""Characters of a run's name."""
RUN_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{MAX_RUN_NAME - 1}}}")


class Layout:
    """Paths of one run of a store."""

    def __init__(self, root: Path, run: str) -> None:
        if not RUN_NAME.fullmatch(run):
            raise UserError(
                f"{run[:MAX_RUN_NAME]!r} is not a valid run name: use letters, digits, dot, dash and underscore "
                f"({MAX_RUN_NAME} at most)"
            )
        self.root = root
        self.run = run
        self.folder = root / "runs" / run
        self.sqlite = self.folder / "run.sqlite"
        self.lock = self.folder / "lock"
        self.manifest = self.folder / "manifest.json"
        self.sealed = self.folder / "sealed"
        self.seal = self.sealed / "seal.json"
        self.addenda = self.folder / "addenda"
        self.tables = self.folder / "tables"

    @property
    def blobs(self) -> BlobStore:
        return BlobStore(self.root / "blobs")

    @property
    def live_files(self) -> tuple[Path, ...]:
        """The files of a live run; SQLite makes the last two."""
        return (self.sqlite, *(self.sqlite.with_name(self.sqlite.name + end) for end in ("-wal", "-shm")))

    @property
    def is_sealed(self) -> bool:
        return self.seal.is_file()

    def require(self) -> None:
        """Raises `StoreError` with the known runs when this one is not here."""
        if not _is_run(self.folder):
            if self.run in damaged_runs(self.root):
                raise StoreError(
                    f"{self.folder} holds parts of a run and neither run.sqlite nor sealed/seal.json: one of them was "
                    "removed; restore it from a copy"
                )
            raise StoreError(unknown_run(self.root, self.run))


def unknown_run(root: Path, run: str) -> str:
    """Returns the message about a name that no run of a store has: it lists the nearest ones, or the newest."""
    import difflib

    cells = grid_runs(root, run)
    if cells:
        return f"{run!r} is the grid of the runs {', '.join(cells)}: name one of them"
    names = list_runs(root)
    near = difflib.get_close_matches(run, names, n=3)
    listed = f"the nearest are {', '.join(near)}" if near else f"the newest are {', '.join(names[-3:]) or 'none'}"
    return f"no run is called {run!r} in {root}; {listed} (`assay ls --runs`)"


def list_runs(root: Path) -> list[str]:
    """Returns the names of all runs, oldest first; empty without a store.

    Raises:
        StoreNotFoundError: The path is a file.
        StoreError: The path is not a readable folder. It is never taken for an empty store.
    """
    folders = [p for p in _folders(root) if RUN_NAME.fullmatch(p.name) and _is_run(p)]
    return [p.name for p in sorted(folders, key=lambda p: (_created_ns(p), p.name))]


def grid_runs(root: Path, name: str) -> list[str]:
    """Returns the runs of a grid (`assay run` with several agents or models, `assay sweep`), oldest first; empty for
    any other name."""
    return [run for run in list_runs(root) if _grid_of(root / "runs" / run / "manifest.json") == name]


def _grid_of(manifest: Path) -> str | None:
    """Returns the name of the grid that a run is part of; None where its manifest names none or cannot be read."""
    try:
        found = msgspec.json.decode(manifest.read_bytes(), type=_GridManifest)
    except (OSError, msgspec.DecodeError, ValueError, RecursionError):
        return None
    return None if found.grid is None else found.grid.name


class _GridLabel(msgspec.Struct):
    name: str


class _GridManifest(msgspec.Struct):
    grid: _GridLabel | None = None


def damaged_runs(root: Path) -> list[str]:
    """Returns the names of folders that hold parts of a run without its record."""
    names = list_runs(root)
    parts = ("run.sqlite", "run.sqlite-wal", "sealed/*.parquet", "sealed/seal.json", "addenda/*.json")
    left = [p for p in _folders(root) if p.name not in names]
    partly = [p for p in left if any(next(p.glob(part), None) is not None for part in parts)]
    # One may have been made since the names were read.
    return sorted(p.name for p in partly if not (RUN_NAME.fullmatch(p.name) and _is_run(p)))


def _folders(root: Path) -> list[Path]:
    with store_errors(root):
        require_no_file(root)
        try:
            return list((root / "runs").iterdir())
        except FileNotFoundError:
            return []


def require_no_file(root: Path) -> None:
    """Raises `StoreNotFoundError` where a file is in the place of a store or of a folder above it."""
    lowest = next((path for path in (root, *root.parents) if path.exists()), root)
    if lowest.is_file():
        raise StoreNotFoundError(f"{lowest} is a file, not a store: name a folder with --store (in Python: store=...)")


def _is_run(folder: Path) -> bool:
    with store_errors(folder):
        return (folder / "run.sqlite").is_file() or (folder / "sealed" / "seal.json").is_file()


def _created_ns(folder: Path) -> int:
    """Returns when a run was created, as far as its files tell."""
    for path in (folder / "manifest.json", folder):
        with contextlib.suppress(OSError):
            return path.stat().st_mtime_ns
    return 0


def newest_run(root: Path) -> str:
    """Returns the newest run. Raises `StoreError` without one."""
    runs = list_runs(root)
    if not runs:
        raise StoreError(f"no runs in {root}: make one with `assay run`, or name the folder with --store")
    return runs[-1]
