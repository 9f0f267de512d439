"""Reads a possibly hostile git repository: in a sandbox, mounted read-only, object by object.

Covered: programs that a repository's configuration, hooks or attributes could start (only plumbing is called, without
pager, external diff or signature program; hooks, the file system monitor, lazy fetching and all transports are off;
files are read as stored objects, so no filter, substitution or end-of-line rule applies); names
that lead outside; trees and files beyond the limits of an archive; replaced objects. Links and submodules are left out.
Not covered: attacks on the sandbox itself; git never runs outside of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from assay.environments.interface import Backend, Mount, ResourceLimits, Workspace, WorkspaceSpec
from assay.errors import UserError

from ._archive import MAX_BYTES, MAX_FILES, require_safe_name

TIMEOUT_S = 120.0
BATCH_SIZE = 200
"""Commits whose changes are requested together."""
_OPTIONS = {
    "safe.directory": "*",
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.attributesFile": "/dev/null",
    "core.pager": "cat",
    "core.sshCommand": "false",
    "core.alternateRefsCommand": "false",
    "credential.helper": "",
    "diff.external": "",
    "gpg.program": "false",
    "log.showSignature": "false",
    "protocol.allow": "never",
    "uploadpack.packObjectsHook": "",
}
_GIT = (
    *("git", "--no-pager", "--no-replace-objects", "--no-optional-locks", "--literal-pathspecs"),
    *(part for name, value in _OPTIONS.items() for part in ("-c", f"{name}={value}")),
    *("-C", "/repository"),
)
_ENV = {
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "HOME": "/tmp",
}


class UnreadableError(Exception):
    """The commit cannot be used; the text gives the reason."""


class Commit(NamedTuple):
    name: str
    """The object's full hexadecimal name."""
    changed: tuple[tuple[str, str], ...]
    """Kind (`M`, `A`, `D`, `T`) and path of each file that differs from the first parent."""


class GitReader:
    """Async context manager that reads a repository's commits, trees and files as bytes."""

    def __init__(self, repository: Path, backend: Backend) -> None:
        self._repository = repository
        self._backend = backend
        self._workspace: Workspace | None = None
        self._blobs: dict[str, bytes] = {}
        self._cached_bytes = 0

    async def __aenter__(self) -> Self:
        mounts = (Mount(str(self._repository), "/repository"),)
        limits = ResourceLimits(memory_mib=2048, disk_mib=2048, tmp_mib=1024)
        self._workspace = await self._backend.open(
            WorkspaceSpec(mounts=mounts, workdir="/tmp", env=_ENV, limits=limits)
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._workspace is not None:
            await self._workspace.close()

    async def commits(self, most: int) -> list[Commit]:
        """Returns the newest non-merge commits before HEAD, newest first. Raises `UserError` if git fails."""
        try:
            listed = await self._run_git("rev-list", "--no-merges", f"--max-count={most}", "HEAD", "--")
        except UnreadableError as exc:
            raise UserError(
                f"git cannot read the history of {self._repository}: {exc}. Name a repository with commits (no linked "
                "worktree) that others may read too, as the sandbox's user is another one where root starts it; or "
                "leave the kind commit out (--kind operator --kind feature --kind combination)"
            ) from exc
        names = listed.decode("ascii", "replace").split()
        found: list[Commit] = []
        for at in range(0, len(names), BATCH_SIZE):
            request = "".join(f"{name}\n" for name in names[at : at + BATCH_SIZE]).encode()
            with suppress(UnreadableError):
                output = await self._run_git(
                    "diff-tree", "--stdin", "-r", "-z", "--no-renames", "--name-status", stdin=request
                )
                found += _parse_commits(output)
        return found

    async def tree(self, commit: str) -> dict[str, str]:
        """Returns a commit's regular files: path to object name. Raises `UnreadableError` for an unsafe one."""
        output = await self._run_git("ls-tree", "-r", "-z", "-l", "--full-tree", commit)
        found: dict[str, str] = {}
        total = 0
        for entry in output.split(b"\0"):
            about, _, path = entry.partition(b"\t")
            mode, kind, name, size = (about.decode("ascii", "replace").split() or ("", "", "", ""))[:4]
            if kind != "blob" or mode not in ("100644", "100755"):
                continue
            total += int(size)
            if total > MAX_BYTES or len(found) >= MAX_FILES:
                raise UnreadableError(f"its tree contains more than {MAX_FILES} files or {MAX_BYTES >> 20} MiB")
            with suppress(UnicodeDecodeError):
                found[_require_inside(path.decode())] = name
        return found

    async def read(self, names: Iterable[str]) -> dict[str, bytes]:
        """Returns objects with their bytes, from the cache if read before. Raises `UnreadableError`."""
        wanted = list(dict.fromkeys(names))
        missing = [name for name in wanted if name not in self._blobs]
        if missing and self._cached_bytes > MAX_BYTES:
            self._blobs, self._cached_bytes, missing = {}, 0, wanted
        if missing:
            request = "".join(f"{name}\n" for name in missing).encode()
            fresh = await asyncio.to_thread(_parse_objects, await self._run_git("cat-file", "--batch", stdin=request))
            self._cached_bytes += sum(len(data) for data in fresh.values())
            self._blobs |= fresh
        try:
            return {name: self._blobs[name] for name in wanted}
        except KeyError as exc:
            raise UnreadableError(f"the object {exc.args[0]} is not in the repository") from exc

    async def _run_git(self, *arguments: str, stdin: bytes = b"") -> bytes:
        assert self._workspace is not None, "the reader is open"
        command = [*_GIT, *arguments]
        # Into a file, because command output is truncated; the sandbox's disk limit bounds the file.
        result = await self._workspace.exec(
            ["sh", "-c", 'exec "$@" >/tmp/answer', "sh", *command], stdin=stdin, timeout_s=TIMEOUT_S
        )
        if result.exit_code != 0:
            raise UnreadableError((result.stderr.strip() or f"git ended with {result.exit_code}")[-500:])
        try:
            return await self._workspace.read("/tmp/answer", limit=MAX_BYTES * 2)
        except (OSError, ValueError) as exc:
            raise UnreadableError(f"git's answer cannot be read: {exc}") from exc


def _require_inside(path: str) -> str:
    try:
        return require_safe_name(path, "the tree")
    except UserError as exc:
        raise UnreadableError(str(exc)) from exc


def _parse_commits(output: bytes) -> list[Commit]:
    """Parses `diff-tree --stdin -z --name-status`: a commit's name, then alternating kind and path."""
    found: list[tuple[str, list[tuple[str, str]]]] = []
    words: Sequence[bytes] = output.split(b"\0")
    at = 0
    while at < len(words) and words[at]:
        word = words[at].decode("ascii", "replace")
        if len(word) >= 40:
            found.append((word, []))
            at += 1
            continue
        if found and at + 1 < len(words):
            found[-1][1].append((word[:1], words[at + 1].decode(errors="surrogateescape")))
        at += 2
    return [Commit(name, tuple(changed)) for name, changed in found]


def _parse_objects(output: bytes) -> dict[str, bytes]:
    """Parses `cat-file --batch`: `name type size`, the bytes, a newline; missing objects are left out."""
    found: dict[str, bytes] = {}
    at = 0
    while at < len(output):
        end = output.find(b"\n", at)
        words = output[at : end if end >= 0 else len(output)].split()
        at = len(output) if end < 0 else end + 1
        if len(words) == 3 and words[2].isdigit():
            data = output[at : at + int(words[2])]
            at += int(words[2]) + 1
            if len(data) == int(words[2]):
                found[words[0].decode("ascii", "replace")] = data
    return found
