"""Copies a task and applies the safe settings that close a hole. The task itself is never modified.

A setting is safe if it demands nothing else of an honest agent: a separate verifier image that receives only what the
solution leaves, and Assay's interpretation of a reward in place of the literal one. The admission of the copy shows
whether the setting closes the hole and the reference solution still passes.
"""

from __future__ import annotations

import posixpath
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import tomli_w

from assay.errors import UserError, describe_os_error
from assay.limited_file import loads_toml
from assay.tasks import LoadedTask, load_task

from .findings import AdmissionFinding
from .soundness import TaskReport

SEPARATE = "separate verifier"
LITERAL = "rewards are not taken literally"
MOST_ARTIFACTS = 40


class FixResult(msgspec.Struct, frozen=True):
    """Result for one task."""

    task: str
    folder: str | None
    """Folder of the copy; None without a copy."""
    settings: tuple[str, ...]
    reason: str = ""
    """Reason why no copy was made."""


def apply_fixes(loaded: LoadedTask, report: TaskReport, into: Path) -> FixResult:
    """Copies a task that has holes, with the settings that may close them. Raises `UserError` if that is not
    possible."""
    holes = [f for f in report.findings if f.severity == "hole"]
    if not holes:
        return FixResult(report.task, None, (), "no hole was found")
    if loaded.folder is None:
        return FixResult(report.task, None, (), "a generated task has no folder to copy")
    data = loads_toml((loaded.folder / "task.toml").read_text(encoding="utf-8"))
    settings = [*_without_literal(data, holes), *_separated(data, holes, report.changed)]
    if not settings:
        return FixResult(report.task, None, (), "no setting that is safe to change closes them: change the tests")
    target = into / loaded.folder.name
    _write(loaded.folder, target, data)
    return FixResult(report.task, str(target), tuple(settings))


def _without_literal(data: dict[str, Any], holes: Sequence[AdmissionFinding]) -> list[str]:
    """Drops `verifier` from `harbor_literal`, where the default verification was fooled."""
    ours = data.get("metadata", {}).get("assay", {})
    literal = ours.get("harbor_literal", [])
    if "verifier" not in literal or not any(f.verification == "default" for f in holes):
        return []
    ours["harbor_literal"] = [name for name in literal if name != "verifier"]
    return [LITERAL]


def _separated(data: dict[str, Any], holes: Sequence[AdmissionFinding], changed: Sequence[str]) -> list[str]:
    """Gives the verifier its own image and declares the solution's outputs, unless either is already set."""
    verifier = data.setdefault("verifier", {})
    separate = verifier.get("environment_mode") == "separate" or "environment" in verifier
    named = any(SEPARATE in f.closed_by for f in holes)
    # With steps, what one step's verifier sees is another's to declare; that is for the author.
    if separate or not named or not changed or data.get("steps"):
        return []
    verifier["environment_mode"] = "separate"
    present = [entry if isinstance(entry, str) else entry.get("source") for entry in data.get("artifacts", [])]
    added = [path for path in _outermost(changed) if path not in present]
    data["artifacts"] = [*data.get("artifacts", []), *added]
    return [SEPARATE]


def _outermost(changed: Sequence[str]) -> list[str]:
    """Returns the changed paths, or their folders where there are too many."""
    paths = sorted(set(changed))
    while len(paths) > MOST_ARTIFACTS:
        shorter = sorted({posixpath.dirname(path) or "/" for path in paths})
        if shorter == paths or "/" in shorter:
            break
        paths = shorter
    return [p for p in paths if not any(p != other and p.startswith(other.rstrip("/") + "/") for other in paths)]


def _write(source: Path, target: Path, data: dict[str, Any]) -> None:
    if target.exists():
        raise UserError(f"{target} exists already: name another folder with --fix, or remove it")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, target, symlinks=True)
        (target / "task.toml").write_text(tomli_w.dumps(data), encoding="utf-8")
    except OSError as exc:
        raise UserError(
            f"the task cannot be written: {describe_os_error(exc, target, elsewhere='name another folder with --fix')}"
        ) from exc
    load_task(target)
