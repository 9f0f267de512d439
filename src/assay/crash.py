"""Locates the exception that ended an attempt: the line of the user's code, and the last frames outside Assay.

Paths are shortened to the part below the current folder, `site-packages` or the home folder, so that a record names no
account. Not covered: secrets in source lines, which the recorder redacts.
"""

from __future__ import annotations

import traceback
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from .errors import AssayError, escape_surrogates, exception_message, innermost_exception

MOST_FRAMES = 12
MOST_CHARS = 8_000
MOST_CAUSES = 3
_OURS = Path(__file__).parent
_LIBRARY = Path(traceback.__file__).parent


class Crash(NamedTuple):
    """The origin of an exception."""

    place: str | None = None
    """File, line and function of the last frame of the user's code; None without such a frame."""
    traceback: str | None = None
    """The last frames, outermost first, and the exception, as Python prints them."""


def describe_crash(exc: BaseException) -> Crash:
    """Returns the origin of an exception, or of the one that a boundary attributed; empty where Assay raised by
    itself."""
    cause = exc.__cause__ if isinstance(exc, AssayError) else exc
    if cause is None:
        return Crash()
    inner = innermost_exception(cause)
    frames = _foreign_frames(traceback.extract_tb(inner.__traceback__))
    if not frames or isinstance(inner, SyntaxError):  # a syntax error names its own place
        return Crash()
    at = next((one for one in reversed(frames) if _is_user_code(one)), None)
    place = None if at is None else f"{_shorten(at.filename)}, line {at.lineno}, in {at.name}"
    return Crash(place, _format(inner, frames)[-MOST_CHARS:])


def _format(exc: BaseException, frames: list[traceback.FrameSummary], deep: int = 0) -> str:
    """Returns frames and exception, after those of its explicit causes."""
    shortened = [
        traceback.FrameSummary(_shorten(one.filename), one.lineno, one.name, line=one.line or "") for one in frames
    ]
    lines = [*traceback.StackSummary.from_list(shortened).format(), *traceback.format_exception_only(exc)]
    text = escape_surrogates("".join(lines).rstrip())
    cause = exc.__cause__
    if cause is None or deep == MOST_CAUSES:
        return text
    before = _format(cause, traceback.extract_tb(cause.__traceback__)[-MOST_FRAMES:], deep + 1)
    return f"{before}\n\nThe above exception was the direct cause of the following exception:\n\n{text}"


def describe_error(exc: BaseException) -> str:
    """Returns type and message of an exception, and the line of the user's code that raised it."""
    inner = innermost_exception(exc)
    place = describe_crash(inner).place
    return f"{type(inner).__name__}: {exception_message(inner)}" + ("" if place is None else f" ({place})")


def _foreign_frames(frames: traceback.StackSummary) -> list[traceback.FrameSummary]:
    """Returns the frames from the first one outside Assay on; all of them for a built-in agent."""
    written = [one for one in frames if not one.filename.startswith("<frozen ")]  # the import system's own
    first = next((i for i, one in enumerate(written) if not Path(one.filename).is_relative_to(_OURS)), 0)
    return written[first:][-MOST_FRAMES:]


def _is_user_code(frame: traceback.FrameSummary) -> bool:
    path = Path(frame.filename)
    foreign = (_OURS, _LIBRARY)
    return "site-packages" not in path.parts and not any(path.is_relative_to(folder) for folder in foreign)


def _shorten(name: str) -> str:
    path = Path(name)
    if "site-packages" in path.parts:
        return str(Path(*path.parts[path.parts.index("site-packages") + 1 :]))
    for find_folder, prefix in ((Path.cwd, ""), (lambda: _OURS.parent, ""), (lambda: _LIBRARY, ""), (Path.home, "~/")):
        with suppress(OSError, RuntimeError):  # the current folder is gone, or the account has no home
            folder = find_folder()
            if path.is_relative_to(folder):
                return f"{prefix}{path.relative_to(folder)}"
    return name
