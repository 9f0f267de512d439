"""Output of exporters: atomic files, safe names, and whole prompts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from assay.errors import UserError, add_filename
from assay.records import ModelCall, Trajectory, Verdict
from assay.verdicts import outcome_verdicts

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def refuse_existing(target: Path) -> None:
    """Raises `UserError` where something is at `target`."""
    if target.exists() or target.is_symlink():
        raise UserError(f"{target} exists: name another --out, or move it away")


@contextmanager
def new_file(target: Path) -> Iterator[BinaryIO]:
    """Opens a file that appears under its name when it is complete. Raises `UserError` where `target` exists."""
    refuse_existing(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.partial")
    try:
        with add_filename(target):
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
    """Makes unique file names for one folder."""

    def __init__(self) -> None:
        self._used: set[str] = set()

    def name(self, words: str, end: str = "") -> str:
        """Returns a name without separators, control characters or a leading dot; numbered if already used."""
        stem = _UNSAFE.sub("-", words).strip(".-")[:100] or "attempt"
        found, number = stem, 1
        while found.lower() in self._used:
            number += 1
            found = f"{stem}-{number}"
        self._used.add(found.lower())
        return found + end


def prompt_tokens(trajectory: Trajectory) -> dict[str, tuple[int, ...]]:
    """Returns the whole prompt of each call with known tokens, including those shared with its parent, by call id."""
    calls = {call.id: call for call in trajectory.calls}
    found: dict[str, tuple[int, ...]] = {}
    for call in trajectory.calls:
        if call.prompt_token_ids is None:
            continue
        shared = _shared(call, calls, found)
        if shared is not None:
            found[call.id] = shared + call.prompt_token_ids
    return found


def _shared(
    call: ModelCall, calls: dict[str, ModelCall], prompts: dict[str, tuple[int, ...]]
) -> tuple[int, ...] | None:
    if call.shared_tokens == 0:
        return ()
    parent = calls.get(call.parent or "")
    if parent is None or parent.id not in prompts:
        return None
    whole = prompts[parent.id] + (parent.completion_token_ids or ())
    return whole[: call.shared_tokens] if len(whole) >= call.shared_tokens else None


def outcome_verdict(trajectory: Trajectory) -> Verdict | None:
    """Returns the verdict that decided the outcome: the first of that status."""
    outcomes = outcome_verdicts(trajectory.verdicts)
    return next((v for v in outcomes if v.status == trajectory.outcome), outcomes[0] if outcomes else None)
