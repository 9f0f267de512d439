"""What exporters share: files that are whole or not there, names that are harmless, and the tokens of a call."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from assay.errors import UserError
from assay.records import ModelCall, Trajectory, Verdict, VerdictStatus

__all__ = [
    "REVERIFY",
    "FileNames",
    "doubt",
    "integrity_of",
    "new_file",
    "new_folder",
    "outcome_verdict",
    "prompt_tokens",
    "refuse_existing",
]

REVERIFY = "reverify:"
"""What the name of a check begins with that judged a stored state again."""
_ODD = re.compile(r"[^A-Za-z0-9._-]+")
_WORST: tuple[VerdictStatus, ...] = ("fail", "error", "unknown", "pass")


def refuse_existing(target: Path) -> None:
    """Raises `UserError` where something is at `target`."""
    if target.exists() or target.is_symlink():
        message = f"{target} exists: name another --out, or move it away"
        raise UserError(message)


@contextmanager
def new_file(target: Path) -> Iterator[BinaryIO]:
    """Writes a file that appears under its name when it is whole. Raises `UserError` where `target` exists."""
    refuse_existing(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.partial")
    try:
        with partial.open("wb") as stream:
            yield stream
        partial.rename(target)
    finally:
        partial.unlink(missing_ok=True)


def new_folder(target: Path) -> Path:
    """Makes a folder. Raises `UserError` where `target` exists."""
    refuse_existing(target)
    target.mkdir(parents=True)
    return target


class FileNames:
    """Names for files of one folder, made of whatever words, each given once."""

    def __init__(self) -> None:
        self._given: set[str] = set()

    def name(self, words: str, end: str = "") -> str:
        """A name without separators, control characters or a leading dot; of two alike the second gets a number."""
        stem = _ODD.sub("-", words).strip(".-")[:100] or "attempt"
        found, number = stem, 1
        while found.lower() in self._given:
            number += 1
            found = f"{stem}-{number}"
        self._given.add(found.lower())
        return found + end


def prompt_tokens(trajectory: Trajectory) -> dict[str, tuple[int, ...]]:
    """The whole prompt of each call whose tokens are known, what it shares with its parent included, by call id."""
    calls = {call.id: call for call in trajectory.calls}
    found: dict[str, tuple[int, ...]] = {}
    for call in trajectory.calls:
        if call.prompt_token_ids is None:
            continue
        shared = _shared(call, calls, found)
        if shared is not None:
            found[call.id] = shared + call.prompt_token_ids
    return found


def _shared(call: ModelCall, calls: dict[str, ModelCall], found: dict[str, tuple[int, ...]]) -> tuple[int, ...] | None:
    if call.shared_tokens == 0:
        return ()
    parent = calls.get(call.parent or "")
    if parent is None or parent.id not in found:
        return None
    whole = found[parent.id] + (parent.completion_token_ids or ())
    return whole[: call.shared_tokens] if len(whole) >= call.shared_tokens else None


def integrity_of(trajectory: Trajectory) -> VerdictStatus | None:
    """The worst over its checks of the newest integrity verdict of each; None where nobody looked here; an imported
    record that says of itself that it stands is nobody's look."""
    judged = (v for v in trajectory.verdicts if v.kind == "integrity")
    newest = {v.check: v.status for v in judged if v.status != "pass" or "imported" not in v.marks}
    return next((status for status in _WORST if status in newest.values()), None)


def outcome_verdict(trajectory: Trajectory) -> Verdict | None:
    """The verdict that gave the outcome: the first of that status."""
    outcomes = [v for v in trajectory.verdicts if v.kind == "outcome"]
    return next((v for v in outcomes if v.status == trajectory.outcome), outcomes[0] if outcomes else None)


def doubt(trajectory: Trajectory) -> str | None:
    """Why a pass is not to be exported as a plain one, in words; None where nothing speaks against it."""
    integrity = integrity_of(trajectory)
    if integrity not in (None, "pass"):
        return f"its integrity is {integrity}"
    again = {mark for v in trajectory.verdicts if v.check.startswith(REVERIFY) for mark in v.marks}
    if "disagree" in again:
        return "judging its stored state again disagrees with its verdict"
    return "judging its stored state again gives now this verdict and now that" if "flaky" in again else None
