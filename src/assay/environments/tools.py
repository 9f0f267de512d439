"""Tools over a workspace for a model: `shell`, `read`, `edit`.

Adds no isolation and records nothing itself: calls are recorded by the workspace that it wraps.

Invariant: an invalid call (unknown tool, wrong arguments, missing file, text not found) returns an
observation with `error` that says what to do; only a broken sandbox or a reached limit raises.
"""

from __future__ import annotations

import difflib
import posixpath
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import msgspec

from assay.environments.interface import ExecResult, SpillTarget, ToolSpec, Workspace
from assay.environments.schemas import flat_schema
from assay.records import Observation, Truncation

_MAX_FILE = 4 * 1024 * 1024
_MAX_SHOWN = 65_536


class _Shell(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Runs a command with `/bin/sh -c` in the working directory. Each call is a new shell: `cd` and variables do
    not carry over, files and background processes do."""

    command: str
    timeout_s: Annotated[float, msgspec.Meta(gt=0, le=3600)] = 120.0


class _Read(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Reads a text file. Each line is shown with its number and a tab, which are no part of the file."""

    path: str
    start: Annotated[int, msgspec.Meta(ge=1)] = 1
    lines: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 2000


class _Edit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Replaces the one place of a file where `old` stands, character by character, by `new`. With an empty `old` a
    new file is made that holds `new`."""

    path: str
    old: str
    new: str


class WorkspaceTools:
    """Implements `Tools` over a workspace; `spill` stores complete output of `shell` unless the workspace does."""

    def __init__(self, workspace: Workspace, *, spill: SpillTarget | None = None) -> None:
        self._workspace = workspace
        self._spill = spill
        self._tools: dict[str, tuple[type[msgspec.Struct], Callable[[Any], Awaitable[Observation]]]] = {
            "shell": (_Shell, self._shell),
            "read": (_Read, self._read),
            "edit": (_Edit, self._edit),
        }

    def specs(self) -> tuple[ToolSpec, ...]:
        return tuple(
            ToolSpec(name, " ".join((kind.__doc__ or "").split()), flat_schema(kind))
            for name, (kind, _) in self._tools.items()
        )

    async def call(self, name: str, arguments: dict[str, Any]) -> Observation:
        if name not in self._tools:
            return _error(f"unknown tool {name!r}; the tools are {', '.join(self._tools)}")
        kind, act = self._tools[name]
        try:
            parsed = msgspec.convert(arguments, type=kind)
        except msgspec.ValidationError as exc:
            return _error(f"wrong arguments for {name}: {exc}; it takes {', '.join(kind.__struct_fields__)}")
        try:
            return await act(parsed)
        except (OSError, ValueError) as exc:
            return _error(_describe_error(exc))

    async def digest(self) -> str | None:
        return await self._workspace.digest()

    async def _shell(self, arguments: _Shell) -> Observation:
        result = await self._workspace.exec(arguments.command, timeout_s=arguments.timeout_s, spill=self._spill)
        return _to_observation(result)

    async def _read(self, arguments: _Read) -> Observation:
        path = self._absolute(arguments.path)
        lines = _split_lines(await self._read_text(path))
        if arguments.start > max(len(lines), 1):
            return _error(f"{path} has {len(lines)} lines; line {arguments.start} is beyond its end")
        status: list[str] = []
        size = 0
        for number, line in enumerate(
            lines[arguments.start - 1 : arguments.start - 1 + arguments.lines], arguments.start
        ):
            text = f"{number:6}\t{line}"
            size += len(text) + 1
            if size > _MAX_SHOWN and status:
                break
            status.append(text[:_MAX_SHOWN])
        rest = len(lines) - (arguments.start - 1) - len(status)
        if rest:
            status.append(f"... {rest} more lines; read on with start={arguments.start + len(status)}")
        return Observation("\n".join(status))

    async def _edit(self, arguments: _Edit) -> Observation:
        path = self._absolute(arguments.path)
        if not arguments.old:
            return await self._create(path, arguments.new)
        text = await self._read_text(path)
        count = text.count(arguments.old)
        if count == 0:
            return _error(_explain_absence(path, text, arguments.old))
        if count > 1:
            places = ", ".join(str(n) for n in _line_numbers(text, arguments.old)[:10])
            return _error(
                f"the text stands {count} times in {path}, at lines {places}: nothing was changed; "
                "give more of the lines around it, so that it is found once"
            )
        if arguments.old == arguments.new:
            return _error(f"old and new are the same: {path} was left as it is")
        line = _line_numbers(text, arguments.old)[0]
        await self._workspace.write(
            path, text.replace(arguments.old, arguments.new).encode(), mode=await self._read_mode(path)
        )
        return Observation(f"replaced the text at line {line} of {path}")

    async def _create(self, path: str, new: str) -> Observation:
        try:
            content = await self._workspace.read(path, limit=_MAX_FILE)
        except FileNotFoundError:
            content = b""
        if content:
            return _error(f"{path} exists and is not empty: give the old text that is to be replaced")
        await self._workspace.write(path, new.encode())
        return Observation(f"made {path}")

    async def _read_text(self, path: str) -> str:
        data = await self._workspace.read(path, limit=_MAX_FILE)
        try:
            return data.decode()
        except UnicodeDecodeError as exc:
            raise ValueError(f"{path} is not UTF-8 text (byte {exc.start}); use shell for it") from exc

    async def _read_mode(self, path: str) -> int:
        """Returns the file's permission bits, so that an edited script stays executable."""
        closest = posixpath.relpath(path, self._workspace.spec.workdir)
        status = await self._workspace.exec(["stat", "-L", "-c", "%a", "--", closest], timeout_s=10)
        text = status.stdout.strip()
        return int(text, 8) & 0o777 if status.exit_code == 0 and text and set(text) <= set("01234567") else 0o644

    def _absolute(self, path: str) -> str:
        if not path or "\0" in path:
            raise ValueError(f"{path!r} is not a path")
        return posixpath.join(self._workspace.spec.workdir, path)


def _error(message: str) -> Observation:
    return Observation(message, error=True)


def _describe_error(exc: OSError | ValueError) -> str:
    if isinstance(exc, FileNotFoundError):
        return f"no such file: {exc}"
    if isinstance(exc, IsADirectoryError):
        return f"it is a folder, not a file: {exc}"
    return f"not permitted: {exc}" if isinstance(exc, PermissionError) else str(exc)


def _to_observation(result: ExecResult) -> Observation:
    complete = not result.output_limited
    return Observation(
        result.stdout,
        exit_code=result.exit_code,
        stderr=result.stderr,
        truncated=_make_truncation(result.stdout_digest, result.stdout_bytes, complete=complete),
        stderr_truncated=_make_truncation(result.stderr_digest, result.stderr_bytes, complete=complete),
        timed_out=result.timed_out,
        duration_s=result.duration_s,
    )


def _make_truncation(digest: str | None, length: int, *, complete: bool) -> Truncation | None:
    return None if digest is None else Truncation(length, digest, complete)


def _split_lines(text: str) -> list[str]:
    """Splits at newlines only, as `sed` and editors do: form feeds and similar characters end no line."""
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _line_numbers(text: str, needle: str) -> list[int]:
    numbers, at = [], text.find(needle)
    while at >= 0:
        numbers.append(text.count("\n", 0, at) + 1)
        at = text.find(needle, at + len(needle))
    return numbers


def _explain_absence(path: str, text: str, old: str) -> str:
    """Explains why a text was not found: usually its white space, or a line that differs slightly."""
    lines, first = _split_lines(text), old.strip("\n").partition("\n")[0]
    alike = [n for n, line in enumerate(lines, 1) if first.strip() and line.strip() == first.strip()]
    if alike:
        return (
            f"the text is not in {path}: its first line stands at line {alike[0]}, but the white space or a later "
            "line differs; read the file again and copy the text exactly"
        )
    closest = difflib.get_close_matches(first, lines[:20_000], n=1, cutoff=0.7)
    hint = f"; the nearest line is {lines.index(closest[0]) + 1}: {closest[0][:200]!r}" if closest else ""
    return f"the text is not in {path} ({len(lines)} lines){hint}; nothing was changed"
