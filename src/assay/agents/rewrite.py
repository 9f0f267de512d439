"""Agent that leaves the reference solution's final state with some files changed: a mutant or a variant.

It runs no solution: it writes the stored files of a recorded final state and the given ones over them. Effects beside
files (a running service, a changed owner) are not repeated; callers first try the unchanged state.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import NamedTuple

from assay.environments.interface import Change, Workspace
from assay.errors import AgentError
from assay.records import Evidence

from .interface import Attempt

PYTHON = "/opt/assay/bin/python3"
BATCH_BYTES = 8 << 20
"""Approximate bytes per command's standard input; a larger file is its own batch, up to `MOST_FILE_BYTES`."""
MOST_FILE_BYTES = 15 << 20
_WRITER = """
import json, os, shutil, sys
stream = sys.stdin.buffer

def clear(path):
    if os.path.islink(path) or not os.path.isdir(path):
        try: os.unlink(path)
        except FileNotFoundError: pass
    else: shutil.rmtree(path)

for line in iter(stream.readline, b""):
    entry = json.loads(line)
    path, kind, mode = entry["path"], entry["kind"], entry["mode"]
    if kind == "remove":
        clear(path)
        continue
    if kind == "folder":
        if os.path.islink(path) or not os.path.isdir(path): clear(path); os.makedirs(path)
        if mode is not None: os.chmod(path, mode | 0o700)
        continue
    data = stream.read(entry["size"])
    os.makedirs(os.path.dirname(path) or "/", exist_ok=True)
    if kind == "link":
        clear(path)
        os.symlink(data, os.fsencode(path))
        continue
    if os.path.islink(path) or os.path.isdir(path): clear(path)
    with open(path, "wb") as file: file.write(data)
    if mode is not None: os.chmod(path, mode)
"""


class StateFiles(NamedTuple):
    """Recorded final state: differences from the image, and their contents."""

    changes: tuple[Change, ...]
    read: Callable[[str], bytes]
    """Returns the bytes of a file, or a link's target, by content address."""


class RewriteAgent:
    """Writes a state and other files over it, and then calls `after`; a file that is None stays as in the image."""

    needs_model = False

    def __init__(
        self,
        name: str,
        state: StateFiles,
        files: Mapping[str, bytes | None],
        facts: Mapping[str, object],
        after: Callable[[Attempt], Awaitable[None]] | None = None,
    ) -> None:
        self.name = name
        self._state = state
        self._files = dict(files)
        self._facts = dict(facts)
        self._after = after

    async def run(self, attempt: Attempt) -> None:
        """Writes the state. Raises `AgentError` if it cannot be written there."""
        if attempt.workspace is None:
            raise AgentError(f"the environment {attempt.task.environment.kind!r} has no files to write")
        attempt.note(Evidence("rewrite", "state", "rewrite", self._facts))
        await put_state(attempt.workspace, self._state, self._files)
        if self._after is not None:
            await self._after(attempt)
        attempt.finish("wrote the files that the reference solution left" + (", some differently" * bool(self._files)))


async def put_state(workspace: Workspace, state: StateFiles, files: Mapping[str, bytes | None]) -> None:
    """Writes a state with differences. Raises `AgentError` if something cannot be written."""
    for batch in _batches(_entries(state, files)):
        result = await workspace.exec([PYTHON, "-I", "-S", "-B", "-c", _WRITER], cwd="/", stdin=batch)
        if result.exit_code != 0:
            raise AgentError(f"the files of the reference solution cannot be written: {result.stderr[-500:]}")


def _entries(state: StateFiles, files: Mapping[str, bytes | None]) -> Iterator[tuple[dict[str, object], bytes]]:
    """Yields header and bytes in a writable order: removals, then folders, then their content."""
    modes = {change.path: change.mode for change in state.changes}
    mine = [change for change in state.changes if change.path not in files]
    order = {"removed": 0, "directory": 1, "file": 2, "symlink": 3}
    for change in sorted(mine, key=lambda c: (order.get("removed" if c.kind == "removed" else c.type, 4), c.path)):
        if change.kind == "removed":
            yield _header(change.path, "remove", None), b""
        elif change.type == "directory":
            yield _header(change.path, "folder", change.mode), b""
        elif change.type in ("file", "symlink") and change.digest is not None:
            kind = "file" if change.type == "file" else "link"
            yield _header(change.path, kind, change.mode), state.read(change.digest)
    for path, data in sorted(files.items()):
        if data is not None:
            yield _header(path, "file", modes.get(path)), data


def _header(path: str, kind: str, mode: int | None) -> dict[str, object]:
    return {"path": path, "kind": kind, "mode": mode}


def _batches(entries: Iterator[tuple[dict[str, object], bytes]]) -> Iterator[bytes]:
    parts: list[bytes] = []
    size = 0
    for header, data in entries:
        if len(data) > MOST_FILE_BYTES:
            raise AgentError(f"{header['path']} is larger than {MOST_FILE_BYTES >> 20} MiB: it cannot be written again")
        line = json.dumps({**header, "size": len(data)}).encode() + b"\n"
        if parts and size + len(line) + len(data) > BATCH_BYTES:
            yield b"".join(parts)
            parts, size = [], 0
        parts += [line, data]
        size += len(line) + len(data)
    if parts:
        yield b"".join(parts)
