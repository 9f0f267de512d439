"""A task folder as files: which of them make up the task, safe reading, and the content address over them.

What belongs to a task: `task.toml`, `instruction.md`, `README.md`, `trajectory.json`, and everything under
`environment/`, `tests/`, `solution/` and `steps/`. Anything else is not part of it.

Covered: links are followed nowhere, and a link that points outside the folder, to an absolute path or in a circle is
an error; devices, pipes and sockets are errors; reads are bounded, and open without following a last link.
Not covered: a folder that is changed while it is read.

The invariant: the digest covers every file that a sandbox can be given. So inside the four folders nothing is left
out but what editors and file managers leave behind (`LEFTOVERS`); compiled Python counts, because it can be executed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

from blake3 import blake3

from assay.errors import UserError
from assay.records import DIGEST_PREFIX
from assay.validation_messages import nearest

from .findings import InvalidTask, TaskFinding

FILES = ("README.md", "instruction.md", "task.toml", "trajectory.json")
FOLDERS = ("environment", "solution", "steps", "tests")
LEFTOVERS = (".swp", ".swo", "~")
LEFTOVER_NAMES = (".DS_Store", "Thumbs.db", ".git", ".hg", ".svn")
TEXT_LIMIT = 1 << 20
"""Bytes of `task.toml` and of an instruction."""
ENTRY_LIMIT = 200_000
DEPTH_LIMIT = 64


class TaskEntry(NamedTuple):
    """A file or link of the task. `path` is relative, POSIX."""

    path: str
    kind: Literal["file", "link"]
    executable: bool
    size: int
    target: str = ""
    """A link's."""


class Tree(NamedTuple):
    """Sorted entries and folders of a task, with findings on them."""

    root: Path
    entries: tuple[TaskEntry, ...]
    paths: frozenset[str]
    """Of the entries."""
    folders: frozenset[str]
    findings: tuple[TaskFinding, ...]

    def has_file(self, path: str) -> bool:
        """Returns whether a regular file, or a link to one inside the task, has this path."""
        return path in self.paths and (self.root / path).is_file()


def require_folder(path: Path) -> None:
    """Raises `UserError` for a missing or unreadable folder."""
    try:
        found, exists = path.is_dir(), path.exists()
    except OSError as exc:
        raise UserError(f"{path} cannot be read: {exc.strerror}; check the path and its permissions") from exc
    if not found:
        what = "is a file, not a task folder" if exists else "does not exist"
        near = None if exists else _nearest_folder(path)
        hint = f"did you mean {str(near)!r}? A" if near else "a"
        raise UserError(
            f"{str(path)!r} {what}; {hint} task is a folder with a task.toml (`assay init task PATH` writes one)"
        )


def _nearest_folder(path: Path) -> Path | None:
    """Returns the folder beside a missing one whose name is most similar."""
    try:
        names = [one.name for one in islice(path.parent.iterdir(), ENTRY_LIMIT) if one.is_dir()]
    except OSError:
        return None
    near = nearest(path.name, names)
    return None if near is None else path.with_name(near)


def scan(folder: Path) -> Tree:
    """Lists the contents of a task. Raises `UserError` where the folder cannot be listed."""
    root = folder.resolve()
    entries: list[TaskEntry] = []
    folders: set[str] = set()
    findings: list[TaskFinding] = []
    try:
        for entry in _walk(root, "", 0):
            if len(entries) > ENTRY_LIMIT:
                findings.append(_finding("", f"holds more than {ENTRY_LIMIT} files", "pack them into an archive"))
                break
            _sort_in(root, entry, entries, folders, findings)
    except OSError as exc:
        raise UserError(
            f"{exc.filename or folder} cannot be read: {exc.strerror or exc}; check that it exists and its permissions"
        ) from exc
    return Tree(root, tuple(sorted(entries)), frozenset(e.path for e in entries), frozenset(folders), tuple(findings))


def _walk(root: Path, at: str, depth: int) -> Iterator[os.DirEntry[str]]:
    with os.scandir(root / at) as listing:
        names = sorted(listing, key=lambda e: e.name)
    for entry in names:
        if at == "" and entry.name not in (*FILES, *FOLDERS):
            continue
        if entry.name in LEFTOVER_NAMES or entry.name.endswith(LEFTOVERS):
            continue
        yield entry
        if entry.is_dir(follow_symlinks=False) and depth < DEPTH_LIMIT:
            yield from _walk(root, f"{at}/{entry.name}" if at else entry.name, depth + 1)


def _sort_in(
    root: Path, entry: os.DirEntry[str], entries: list[TaskEntry], folders: set[str], findings: list[TaskFinding]
) -> None:
    path = Path(entry.path).relative_to(root).as_posix()
    status = entry.stat(follow_symlinks=False)
    if not _is_text(path):
        findings.append(_finding(repr(path), "has a name that is not UTF-8", "rename it"))
    elif stat.S_ISLNK(status.st_mode):
        target = str(Path(entry.path).readlink())
        wrong = _wrong_link(root, root / path, target)
        if wrong:
            findings.append(_finding(path, f"is a link to {target!r}, {wrong}", "copy what it means into the task"))
        entries.append(TaskEntry(path, "link", False, 0, target))
    elif stat.S_ISDIR(status.st_mode):
        folders.add(path)
        if path.count("/") >= DEPTH_LIMIT:
            findings.append(_finding(path, f"lies more than {DEPTH_LIMIT} folders deep", "flatten the task"))
    elif stat.S_ISREG(status.st_mode):
        entries.append(TaskEntry(path, "file", bool(status.st_mode & 0o111), status.st_size))
    else:
        findings.append(_finding(path, "is a device, pipe or socket", "remove it; a task holds files and folders"))


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _wrong_link(root: Path, link: Path, target: str) -> str:
    if target.startswith("/") or not _is_text(target):
        return "an absolute path"
    try:
        resolved = link.resolve(strict=True)
    except (OSError, RuntimeError):
        return "which leads nowhere or in a circle"
    if not resolved.is_relative_to(root):
        return "which leads outside the task"
    if link.is_relative_to(resolved):
        return "a folder around it"
    return ""


def _finding(path: str, message: str, fix: str) -> TaskFinding:
    return TaskFinding("unsafe-file", "error", path, message, fix)


def read_text(tree: Tree, path: str) -> str | TaskFinding:
    """Returns a text file of the task, at most `TEXT_LIMIT` bytes of UTF-8; else a finding."""
    try:
        with (tree.root / path).open("rb") as file:
            data = file.read(TEXT_LIMIT + 1)
    except OSError as exc:
        return TaskFinding("unreadable", "error", path, f"cannot be read: {exc.strerror}", "check its permissions")
    if len(data) > TEXT_LIMIT:
        message = f"is larger than {TEXT_LIMIT // 1024} KiB"
        return TaskFinding("too-large", "error", path, message, "move long material into environment/")
    try:
        return data.decode()
    except UnicodeDecodeError as exc:
        message = f"is not UTF-8 at byte {exc.start}"
        return TaskFinding("not-text", "error", path, message, "save it as UTF-8")


def tree_digest(tree: Tree, where: str) -> str:
    """Returns the BLAKE3 digest over sorted relative paths, execute bits and contents of a task's listed tree.

    Raises:
        InvalidTask: It holds what no task may hold.
        UserError: A file cannot be read.
    """
    if tree.findings:
        raise InvalidTask(where, tree.findings)
    whole = blake3(b"assay task 1\n")
    for entry in tree.entries:
        content = entry.target.encode() if entry.kind == "link" else file_digest(tree.root / entry.path)
        head = f"{entry.kind}\0{int(entry.executable)}\0{entry.path}\0{len(content)}\0"
        whole.update(head.encode() + content)
    return DIGEST_PREFIX + whole.hexdigest()


def file_digest(path: Path) -> bytes:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            hasher = blake3()
            while chunk := file.read(1 << 20):
                hasher.update(chunk)
    except OSError as exc:
        raise UserError(f"{path} cannot be read: {exc.strerror}; check its permissions") from exc
    return hasher.digest()
