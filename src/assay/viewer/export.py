"""Writes runs as a folder of pages that need no server.

The pages are those that are served; each view becomes a file `data/ab/<hash of its name>.js` with its JSON as text,
because a page opened from a disk may load only scripts. Files are named by a hash, because a recorded name may be
unsafe or too long for a path.

Invariant: the folder is bounded; kinds of views are written in the order of `views.VIEWS`, an attempt's outline before
its texts, and the pages show how many were left out.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from assay.errors import StoreError, UserError, add_filename
from assay.store import Layout

from .assets import read_assets, render_index
from .interface import View, json_bytes, match_name
from .runs import describe_line, run_line, run_state
from .views import VIEWS

MOST_BYTES = 512 << 20
_KINDS = {
    "card": "summary",
    "outline": "outline of an attempt",
    "steps": "part of the steps",
    "text": "part of a long text",
    "image": "picture",
    "compare": "comparison",
}
SECRET = "view with a secret"
Progress = Callable[[int, int], None]
SecretSearch = Callable[[bytes], bool]
"""Returns whether a view, as JSON, holds a secret."""


class PageExportReport(NamedTuple):
    """Result of an export."""

    folder: Path
    views: int
    size_bytes: int
    left_out: dict[str, int]
    """Kind of view to the number without room, unreadable, or with a secret."""


class _Writer:
    """Writes views up to a limit."""

    def __init__(self, folder: Path, limit_bytes: int, holds_secret: SecretSearch | None = None) -> None:
        self.folder = folder
        self.holds_secret = holds_secret
        self.limit = limit_bytes
        self.views = 0
        self.size = 0

    def put(self, name: str, body: bytes) -> bool:
        """Writes a view; returns False without room for it."""
        line = b"Assay.provide(" + msgspec.json.encode(name) + b"," + msgspec.json.encode(body.decode()) + b");\n"
        if self.size + len(line) > self.limit:
            return False
        path = self.folder / view_file(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:  # two names may have one hash
            file.write(line)
        self.views += 1
        self.size += len(line)
        return True


def export_runs(
    root: Path,
    runs: Sequence[str],
    folder: Path,
    limit_bytes: int = MOST_BYTES,
    progress: Progress | None = None,
    *,
    holds_secret: SecretSearch | None = None,
) -> PageExportReport:
    """Writes the pages of runs of a store into a new or empty folder, with at most `limit_bytes` of views; reports
    number and bytes.

    Views in which `holds_secret` finds one (such as a changed file, which no trajectory holds) are left out.

    Raises:
        UserError: The folder holds something, or a run's name cannot be one.
        StoreError: A run does not exist, or it cannot be read.
        OSError: The folder cannot be written; nothing is left there.
    """
    for run in runs:
        Layout(root, run).require()
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise UserError(f"{folder} is not empty: name a new folder, so that nothing is overwritten")
    try:
        with add_filename(folder):
            return _export_views(root, runs, _Writer(folder, limit_bytes, holds_secret), progress)
    except BaseException:
        _remove_partial(folder, is_new=is_new)
        raise


def _remove_partial(folder: Path, *, is_new: bool) -> None:
    """Removes what an export left in a folder that was new or empty, so that the same command can be repeated."""
    for path in (folder,) if is_new else tuple(folder.iterdir()):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def view_file(name: str) -> str:
    """Returns a view's file in an export: 64 bits of FNV-1a, as `fileOf` in `core.js`."""
    first, second = 0x811C9DC5, 0x01000193
    for byte in name.encode():
        first = ((first ^ byte) * 0x01000193) & 0xFFFFFFFF
        second = ((second ^ byte) * 0x85EBCA6B) & 0xFFFFFFFF
    return f"data/{first >> 24:02x}/{first:08x}{second:08x}.js"


def _export_views(root: Path, runs: Sequence[str], writer: _Writer, progress: Progress | None) -> PageExportReport:
    left_out: Counter[str] = Counter()
    for view, name in _named_views(root, runs):
        body = _make_view(view, root, name)
        if body is not None and writer.holds_secret is not None and writer.holds_secret(body):
            left_out[SECRET] += 1
        elif body is None or not writer.put(name, body):
            left_out[_kind_name(view)] += 1
        if progress is not None:
            progress(writer.views, writer.size)
    _write_pages(root, runs, writer.folder, left_out)
    return PageExportReport(writer.folder, writer.views, writer.size, dict(left_out))


def _named_views(root: Path, runs: Sequence[str]) -> Iterator[tuple[View, str]]:
    """Yields each view of the runs once, the kinds in their order."""
    for view in VIEWS:
        for name in dict.fromkeys(name for run in runs for name in view.names(root, run)):
            yield view, name


def _make_view(view: View, root: Path, name: str) -> bytes | None:
    fields = match_name(view, name)
    try:
        return None if fields is None else view.make(root, fields)
    except (UserError, StoreError):
        return None  # a part of a run that cannot be read does not keep the rest from being written


def _write_pages(root: Path, runs: Sequence[str], folder: Path, left_out: Mapping[str, int]) -> None:
    """Writes the pages, the list of the runs, and the note about missing views."""
    at = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    missing = "; ".join(f"{kind}: {number}" for kind, number in left_out.items())
    copied = "one run" if len(runs) == 1 else f"{len(runs)} runs"
    note = f"This is a copy of {copied}, made {at}." + (
        f" Left out, for lack of room, unreadable or with a secret: {missing}." if missing else ""
    )
    unbounded = _Writer(folder, 1 << 62)
    lines = [run_line(root, run) for run in runs]
    listed = [describe_line(line, run_state(root, line)) for line in lines]
    unbounded.put("runs", json_bytes({"store": None, "runs": listed, "more": 0, "note": note}))
    unbounded.put("export", json_bytes({"note": note, "left_out": left_out}))
    for name, body in read_assets().items():
        (folder / name).write_bytes(body)
    (folder / "index.html").write_bytes(render_index(exported=True))


def _kind_name(view: View) -> str:
    parts = [part for part in view.pattern.split("/") if not part.startswith("{")]
    return _KINDS.get(parts[-1], parts[-1])
