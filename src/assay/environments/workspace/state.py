"""State of a file tree: its changes from a baseline, and their digest.

Two kinds of tree: `OverlayState`, the writable layer of an overlay over image layers (cost in proportion to the paths
ever changed; file contents are hashed again only after a change), and `scan_folder`/`compare_entries` for plain
folders against a baseline. Blocking: run in a thread. Invariant: the same files give the same changes, in the
same order, independent of their history; what is invisible inside the sandbox (whiteouts and their remains) is ignored.

Not covered: before a state is sealed, a write through a mapping that leaves size and times of its file on a tmpfs; the
digest after that step is the one before it. The sealed state has it.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from assay.environments.interface import Change
from assay.environments.workspace._change_set import ChangeSet
from assay.environments.workspace._entries import (
    HashCache,
    Opener,
    PathEntry,
    TreeReader,
    describe_entry,
    encode_name,
    is_opaque,
    is_whiteout,
    open_below,
)

__all__ = [
    "HashCache",
    "OverlayState",
    "StackedImage",
    "changes_between",
    "compare_entries",
    "identify_paths",
    "scan_folder",
    "state_digest",
]

_FOLDER = os.O_RDONLY | os.O_DIRECTORY


def state_digest(image_digest: str, changes: Iterable[Change]) -> str:
    """Returns the state's content address over the image and every differing path, sorted."""
    return ChangeSet(changes).digest(image_digest)


def change_of(path: str, now: PathEntry | None, before: PathEntry | None) -> Change | None:
    """Returns the change from `before` to `now` at a path; None if they are equal."""
    if now == before:
        return None
    if now is None:
        assert before is not None
        return Change(path=path, kind="removed", type=before.type)
    return Change(path, "added" if before is None else "changed", now.type, now.mode, now.size, now.digest)


class _LayerEntry(NamedTuple):
    """A name in stacked layers: the folder that contains it, its status, and the layers visible below it."""

    folder: int
    status: os.stat_result
    layers: tuple[int, ...]


class StackedImage:
    """Merged view of the lower layers of an overlay: open folders, the highest first, which this object does not close.

    `cache` is shared with the states over it, so that unchanged copies are hashed once.
    """

    def __init__(self, tops: Sequence[int], cache: HashCache) -> None:
        self._tops = tuple(tops)
        self.cache = cache
        self.all = tuple(range(len(self._tops)))

    def folders(self, path: str, layers: tuple[int, ...]) -> list[tuple[int, int]]:
        """Opens `path` in each of the named layers; the caller closes them."""
        return [(layer, open_below(self._tops[layer], path, _FOLDER)) for layer in layers]

    def find(self, opened: list[tuple[int, int]], name: str) -> _LayerEntry | None:
        """Returns the visible entry of a name in opened folders of one path; None if it is absent or removed."""
        top: tuple[int, os.stat_result] | None = None
        below: list[int] = []
        for layer, folder in opened:
            try:
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            except FileNotFoundError:
                continue
            if is_whiteout(status):
                break
            top = top or (folder, status)
            if not stat.S_ISDIR(status.st_mode):
                break
            below.append(layer)
            if self._is_opaque_name(folder, name):
                break
        if top is None:
            return None
        return _LayerEntry(*top, tuple(below) if stat.S_ISDIR(top[1].st_mode) else ())

    @staticmethod
    def _is_opaque_name(folder: int, name: str) -> bool:
        inner = os.open(name, _FOLDER | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            return is_opaque(inner)
        finally:
            os.close(inner)

    def names(self, opened: list[tuple[int, int]]) -> set[str]:
        """Returns every visible name in opened folders of one path."""
        names = {name for _, folder in opened for name in os.listdir(folder)}  # noqa: PTH208, an open folder
        return {name for name in names if self.find(opened, name) is not None}

    def entry(self, opened: list[tuple[int, int]], name: str) -> tuple[PathEntry | None, tuple[int, ...]]:
        """Returns the image's entry of a name, and the layers visible below it."""
        result = self.find(opened, name)
        if result is None:
            return None, ()
        return describe_entry(result.folder, name, result.status, TreeReader(self.cache)), result.layers

    def walk(self, path: str) -> Iterator[tuple[str, PathEntry]]:
        """Yields `path` (without leading slash) and everything below it, if it is in the image."""
        layers, parent = self.all, ""
        for part in path.split("/")[:-1]:
            _, layers = self._entry_at(parent, part, layers)
            parent = f"{parent}/{part}" if parent else part
        pending = [(path, layers)]
        while pending:
            current, layers = pending.pop()
            folder, _, name = current.rpartition("/")
            entry, below = self._entry_at(folder, name, layers)
            if entry is None:
                continue
            yield current, entry
            if below:
                opened = self.folders(current, below)
                pending += [(f"{current}/{child}", below) for child in self.names(opened)]
                _close_folders(opened)

    def _entry_at(self, folder: str, name: str, layers: tuple[int, ...]) -> tuple[PathEntry | None, tuple[int, ...]]:
        opened = self.folders(folder, layers)
        try:
            return self.entry(opened, name)
        finally:
            _close_folders(opened)


def _list_names(folder: int, path: str, reader: TreeReader) -> list[str]:
    """Returns the sorted names in an open folder, each charged to the reader's budget before the next is read."""
    names = []
    with os.scandir(folder) as entries:
        for entry in entries:
            reader.budget.charge(f"{path}/{entry.name}")
            names.append(entry.name)
    return sorted(names)


def _close_folders(opened: list[tuple[int, int]]) -> None:
    for _, folder in opened:
        os.close(folder)


class _Visit(NamedTuple):
    """One folder of the writable layer, with the same path in the image's layers."""

    path: str
    upper: int
    opened: list[tuple[int, int]]
    reader: TreeReader


class OverlayState:
    """The writable layer of one sandbox against its image.

    `before` holds the changes in sealed layers between image and writable layer; `upper` is the open folder, not closed
    here. `hidden` mount points, which mounts or fresh folders cover, are not part of the state; folders that the
    platform `made` do not count as changes. Both are known by path and inode (`identify_paths`): an agent can move a
    folder with the mount points below it, and its own files in their place count. `fallback` opens paths that this
    process has no permission for.
    """

    def __init__(self, image: StackedImage, before: ChangeSet, upper: int) -> None:
        self._image = image
        self._before = before
        self._upper = upper
        self.hidden: Mapping[str, int] = {}
        self.made: Mapping[str, int] = {}
        self.fallback: Opener | None = None

    def changes(self, *, settled: bool, final: bool = False) -> ChangeSet:
        """Returns all differences from the image. Blocking; costs in proportion to the paths in the writable layer.

        Args:
            settled: No process uses the writable layer now; if so, hashes computed while one did are not reused.
            final: No process will use it any more; if so, all its files are hashed anew.

        Raises:
            StateLimitError: The state exceeds its limits.
        """
        decided: dict[str, Change | None] = {}
        cleared: set[str] = set()
        reader = TreeReader(HashCache() if final else self._image.cache, settled=settled)
        pending: list[tuple[str, tuple[int, ...]]] = [("", self._image.all)]
        while pending:
            path, layers = pending.pop()
            try:
                upper = open_below(self._upper, path, _FOLDER, self.fallback)
            except (FileNotFoundError, NotADirectoryError):
                continue  # it vanished meanwhile
            except OSError as exc:
                if exc.errno != errno.ENAMETOOLONG:
                    raise
                shown = "/" + encode_name(
                    path
                )  # deeper than a path can express: only the folder counts, not its content
                decided[shown] = Change(path=shown, kind="added", type="other")
                continue
            opened = self._image.folders(path, layers)
            try:
                pending += self._compare_folder(_Visit(path, upper, opened, reader), decided, cleared)
            finally:
                os.close(upper)
                _close_folders(opened)
        return self._before.edit(decided, cleared)

    def _compare_folder(
        self, visit: _Visit, decided: dict[str, Change | None], cleared: set[str]
    ) -> list[tuple[str, tuple[int, ...]]]:
        """Compares one folder of the writable layer; returns the folders below it."""
        path, upper, opened, reader = visit
        names = _list_names(upper, path, reader)
        below = []
        for name in names:
            inner = f"{path}/{name}" if path else name
            shown = "/" + encode_name(inner)
            try:
                status = os.stat(name, dir_fd=upper, follow_symlinks=False)
            except FileNotFoundError:
                continue
            if self.hidden.get(shown) == status.st_ino:
                continue
            base, layers = self._image.entry(opened, name)
            if is_whiteout(status):
                cleared.add(shown)
                decided[shown] = change_of(shown, None, base)
                continue
            entry = describe_entry(upper, name, status, reader, self._opener(inner))
            is_folder = stat.S_ISDIR(status.st_mode)
            if not (is_folder and self.made.get(shown) == status.st_ino):
                decided[shown] = change_of(shown, entry, base)
            if not is_folder:
                cleared.add(shown)
                continue
            below.append((inner, layers))
        if path and is_opaque(upper):
            cleared.add("/" + encode_name(path))
            self._add_removed(path, set(names), opened, decided)
        return below[::-1]

    def _add_removed(
        self, path: str, present: set[str], opened: list[tuple[int, int]], decided: dict[str, Change | None]
    ) -> None:
        """Adds the removed names of a folder that hides the image's: those in the image but not in the folder."""
        for name in self._image.names(opened) - present:
            shown = "/" + encode_name(f"{path}/{name}")
            base, _ = self._image.entry(opened, name)
            decided[shown] = change_of(shown, None, base)

    def _opener(self, path: str) -> Opener | None:
        fallback = self.fallback
        return None if fallback is None else lambda _: fallback(path)


def identify_paths(top: int, paths: Iterable[str]) -> dict[str, int]:
    """Returns the inodes of the paths, `/`-rooted there, that exist below an open folder. Follows no link."""
    found: dict[str, int] = {}
    for path in paths:
        parent, _, name = path.strip("/").rpartition("/")
        try:
            folder = open_below(top, parent, os.O_PATH | os.O_DIRECTORY)
        except OSError:
            continue
        try:
            found[path] = os.stat(name, dir_fd=folder, follow_symlinks=False).st_ino
        except FileNotFoundError:
            pass
        finally:
            os.close(folder)
    return found


def changes_between(image: StackedImage, since: Iterable[Change], now: Iterable[Change]) -> tuple[Change, ...]:
    """Returns the changes from one state to another, both described as changes from the same image."""
    whole_before, whole_now = ChangeSet(since), ChangeSet(now)
    old, new = whole_before.unshared(whole_now), whole_now.unshared(whole_before)
    result: dict[str, Change] = {}
    for path in old.keys() | new.keys():
        before, after = old.get(path), new.get(path)
        if before == after:
            continue
        if after is not None:
            result[path] = _rebase_change(after, before)
        elif before is not None:
            result.update(_revert_change(image, before, whole_now))
    return tuple(result[path] for path in sorted(result))


def _rebase_change(after: Change, before: Change | None) -> Change:
    """Returns `after` relative to a state in which the path was `before` (None: as in the image)."""
    if after.kind == "removed":
        return after
    was_removed = before is not None and before.kind == "removed"
    is_new = was_removed or (before is None and after.kind == "added")
    kind = "added" if is_new else "changed"
    if kind == after.kind:
        return after
    return Change(after.path, kind, after.type, after.mode, after.size, after.digest)  # type: ignore[arg-type]


def _revert_change(image: StackedImage, before: Change, now: ChangeSet) -> dict[str, Change]:
    """Returns the changes of a path that equals the image's again."""
    if before.kind == "added":
        return {before.path: Change(path=before.path, kind="removed", type=before.type)}
    result = {}
    for inner, entry in image.walk(before.path.lstrip("/")):
        path = "/" + encode_name(inner)
        if path == before.path and before.kind == "changed":
            return {path: Change(path, "changed", entry.type, entry.mode, entry.size, entry.digest)}
        if now.find(path) is None:
            result[path] = Change(path, "added", entry.type, entry.mode, entry.size, entry.digest)
    return result


def scan_folder(top: int, cache: HashCache, *, hidden: frozenset[str] = frozenset()) -> dict[str, PathEntry]:
    """Returns the entry of every path below an open plain folder, `/`-rooted there. Blocking; walks the folder, hashes
    cached. Raises `StateLimitError` if the folder exceeds the limits of a state."""
    result: dict[str, PathEntry] = {}
    reader = TreeReader(cache)
    pending = [""]
    while pending:
        path = pending.pop()
        try:
            folder = open_below(top, path, _FOLDER)
        except OSError:
            continue
        try:
            for name in _list_names(folder, path, reader):
                inner = f"{path}/{name}" if path else name
                shown = "/" + encode_name(inner)
                if shown in hidden:
                    continue
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                entry = describe_entry(folder, name, status, reader)
                if entry is not None:
                    result[shown] = entry
                if stat.S_ISDIR(status.st_mode):
                    pending.append(inner)
        finally:
            os.close(folder)
    return result


def compare_entries(before: Mapping[str, PathEntry], now: Mapping[str, PathEntry]) -> tuple[Change, ...]:
    """Returns the changes between two scans in an overlay's form: only the topmost removed path of a tree."""
    result = {}
    for path in before.keys() | now.keys():
        change = change_of(path, now.get(path), before.get(path))
        parent = path.rpartition("/")[0]
        covered = change is not None and change.kind == "removed" and parent in before and _is_not_folder(parent, now)
        if change is not None and not covered:
            result[path] = change
    return tuple(result[path] for path in sorted(result))


def _is_not_folder(path: str, entries: Mapping[str, PathEntry]) -> bool:
    entry = entries.get(path)
    return entry is None or entry.type != "directory"
