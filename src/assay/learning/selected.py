"""Reads which attempts `assay curate` selected, so that trainings and exports take those and no others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from assay.errors import UserError

DECISIONS, MANIFEST = "decisions.jsonl", "manifest.json"
SelectedAttempts = dict[str, dict[str, str]]
"""By run: the chain of each selected attempt, with the head that it had then."""


class _Decision(msgspec.Struct):
    kept: bool
    run: str
    chain: str
    head: str


class _Report(msgspec.Struct):
    attempts: int
    kept: int


class _Manifest(msgspec.Struct):
    report: _Report


def read_selected(folders: Sequence[str]) -> SelectedAttempts:
    """Returns the attempts that folders of `assay curate` select.

    Raises:
        UserError: A folder is not one of `assay curate`, its decisions are incomplete, or nothing was selected.
    """
    found: SelectedAttempts = {}
    for folder in map(Path, folders):
        for one in _read_decisions(folder):
            if one.kept:
                found.setdefault(one.run, {})[one.chain] = one.head
    if folders and not found:
        raise UserError(f"{', '.join(folders)}: no attempt was selected there; {DECISIONS} gives the reasons")
    return found


def _read_decisions(folder: Path) -> list[_Decision]:
    decisions, manifest = folder / DECISIONS, folder / MANIFEST
    try:
        report = msgspec.json.decode(manifest.read_bytes(), type=_Manifest).report
        found = msgspec.json.Decoder(_Decision).decode_lines(decisions.read_bytes())
    except OSError as exc:
        raise UserError(f"{exc.filename} cannot be read ({exc.strerror}): name a folder of `assay curate`") from exc
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise UserError(f"{folder} does not hold what `assay curate` writes: {exc}") from exc
    kept = sum(one.kept for one in found)
    if (len(found), kept) != (report.attempts, report.kept):
        raise UserError(
            f"{decisions} has {len(found)} decisions and selects {kept} attempts; {manifest} says "
            f"{report.attempts} and {report.kept}: make the folder again with `assay curate`"
        )
    return found
