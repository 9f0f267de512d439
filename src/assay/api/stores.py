"""Stores, opened from Python."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from pathlib import Path

from assay.errors import RunNotFoundError, StoreNotFoundError
from assay.store import QueryResult, list_runs, query
from assay.store.layout import grid_runs, unknown_run

from .results import RunResult
from .sources import settings_of
from .tables import html_table, text_table
from .viewing import ViewerHandle, serve_pages


class Store:
    """A folder of runs. It opens nothing until it is asked."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    @property
    def runs(self) -> tuple[str, ...]:
        """Names of all runs, oldest first."""
        return tuple(list_runs(self.path))

    def run(self, name: str | None = None) -> RunResult:
        """Returns a run by its name, or the runs of a grid by its name; by default the newest run.

        Raises:
            RunNotFoundError: The store has no such run; the message names the nearest.
        """
        runs = self.runs
        if not runs:
            raise RunNotFoundError(f"no runs in {self.path}: make one with assay.run(...)")
        if name is not None and name not in runs:
            cells = grid_runs(self.path, name)
            if cells:
                return RunResult(self.path, tuple(cells))
            raise RunNotFoundError(unknown_run(self.path, str(name)))
        return RunResult(self.path, (name or runs[-1],))

    def query(self, sql: str, *, limit: int | None = None) -> QueryResult:
        """Runs one SELECT over all runs (`assay query`); the result has `.rows`, `.df()` and `.arrow()`.

        Raises:
            UserError: The statement is not one SELECT, is invalid, or exceeds a limit.
        """
        return query(self.path, sql, limit=limit)

    def view(self, *, open_browser: bool = True) -> ViewerHandle:
        """Serves the pages of the store on loopback until the program ends, and opens a browser if there is a screen.
        Writes the address to stderr."""
        return serve_pages(self.path, "", open_browser=open_browser)

    def __getitem__(self, name: str) -> RunResult:
        """Returns the run of that name."""
        return self.run(name)

    def __iter__(self) -> Iterator[str]:
        """Yields the names of the runs."""
        return iter(self.runs)

    def __len__(self) -> int:
        """Returns the number of runs."""
        return len(self.runs)

    def __repr__(self) -> str:
        """Lists the runs."""
        rows = [{"run": name} for name in self.runs]
        return f"store {self.path}\n{text_table(rows) if rows else 'no runs'}"

    def _repr_html_(self) -> str:
        """Lists the runs, in a notebook."""
        rows = [{"run": name} for name in self.runs]
        return html_table(rows, f"store {self.path}") if rows else "<p>no runs</p>"


def open_store(path: str | PathLike[str] | None = None) -> Store:
    """Opens a store: a folder that `assay run` made; by default `.assay`, or `$ASSAY_STORE`.

    Raises:
        StoreNotFoundError: The folder does not exist, or is not a store.
    """
    folder = settings_of(path).store
    if not (folder / "runs").is_dir():
        what = "is not a store: it has no folder `runs`" if folder.exists() else "does not exist"
        raise StoreNotFoundError(f"{folder} {what}; name the folder that --store names, by default .assay")
    return Store(folder)
