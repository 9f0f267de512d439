"""Extracts an adversary's knowledge of a task from the reference solution's first recorded attempt.

Invariant: the same attempt always gives the same knowledge, so that a resumed battery plans the same probes. Files
beyond the limits are listed as left out.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from assay.agents.cheats.interface import Knowledge, SolutionFile
from assay.agents.rewrite import MOST_FILE_BYTES, StateFiles
from assay.environments.interface import Backend, Change, Workspace, WorkspaceSpec
from assay.records import Evidence, Trajectory
from assay.store import BlobStore
from assay.tasks import LoadedTask

from ._agent_texts import collect_agent_texts
from ._byproducts import find_byproducts

MOST_FILES = 400
MOST_KEPT_FILE = 1 << 20
MOST_KEPT = 24 << 20
MOST_STATE_FILES = 5_000
MOST_STATE_BYTES = 256 << 20
MOST_TESTS = 2_000
_OURS = (
    "/solution/",
    "/logs/verifier/",
    "/logs/recorder/",
    "/tests/",
    "/tmp/",
    "/run/",
    "/dev/",
    "/proc/",
    "/opt/assay",
)
_CACHES = re.compile(r"/(?:__pycache__|\.pytest_cache|\.mypy_cache|\.ruff_cache|\.hypothesis)(?:/|$)")
_ODD = "\ufffd"
_STARTS_OTHERS = (
    r"\b(?:make|tox|nox|npm|npx|uvx?|poetry|hatch|pdm|just|bazel|mvn|gradle)\b|(?<![./\w])\./\w|workspace/\S+\.sh"
)
"""Programs that start others as configured by workspace files; the verifier's further programs are unknown."""
_RUNS_PYTEST = re.compile(rf"py\.?test|{_STARTS_OTHERS}")
_READS_REPORTS = re.compile(rf"(?i:ctrf|junit|xml)|{_STARTS_OTHERS}")
MOST_VERIFIER_TEXT = 1 << 20
UNKNOWN_VERIFIER = "pytest report"
"""Text of a verifier that may start and read anything."""
_MODULE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class SolutionRecord(NamedTuple):
    """Knowledge of the solution, and its recorded state."""

    knowledge: Knowledge
    state: StateFiles
    problem: str | None = None
    """Reason why the state cannot be written again file by file; None where it can."""
    left_out: tuple[str, ...] = ()
    """Files excluded because of their number or size."""
    verifier: str = ""
    """Text of the verifier's files; empty where some are unknown."""


async def extract_knowledge(
    loaded: LoadedTask, trajectory: Trajectory, blobs: BlobStore, backend: Backend, spec: WorkspaceSpec
) -> SolutionRecord | None:
    """Extracts the knowledge from an attempt; None where its final state was not sealed.

    Raises:
        StoreError: The state's manifest cannot be read.
        EnvironmentFailure: The image cannot be looked into.
    """
    snapshot = next((e for e in reversed(trajectory.evidence) if e.kind == "snapshot"), None)
    changes = changes_in(snapshot, blobs) if snapshot is not None else None
    if changes is None:
        return None
    chosen, left_out = _select_files(changes)
    before = await _read_pristine([c.path for c in chosen if c.kind != "added"], backend, spec)
    files = tuple(_read_solution_file(change, before.get(change.path), blobs) for change in chosen)
    artifacts = tuple(
        str(a["source"]) for a in loaded.task.environment.parameters.get("artifacts") or () if "source" in a
    )
    knowledge = Knowledge(
        workdir=spec.workdir,
        changed=files,
        tests=tuple(_list_test_files(loaded)),
        runs_pytest=bool(_RUNS_PYTEST.search(text := _verifier_text(loaded))),
        reads_reports=bool(_READS_REPORTS.search(text)),
        artifacts=artifacts,
        # No `steps`: this attempt's are of the task's own seed, and done again they solve it rightly.
        python=tuple(dict.fromkeys(n for f in files if (n := _module(f.path, spec.workdir)) is not None)),
        byproducts=_byproducts(loaded, files, artifacts, text),
    )
    return SolutionRecord(
        knowledge,
        StateFiles(changes, blobs.get),
        _rewrite_problem(changes),
        left_out,
        "" if text == UNKNOWN_VERIFIER else text,
    )


def _byproducts(
    loaded: LoadedTask, files: tuple[SolutionFile, ...], artifacts: tuple[str, ...], verifier: str
) -> frozenset[str]:
    """Returns the files that no verifier reads; empty where the image or the started programs are unknown."""
    in_folder = loaded.folder is not None and (loaded.folder / "environment").is_dir()
    if not in_folder or len(loaded.steps) > 1 or verifier == UNKNOWN_VERIFIER or re.search(_STARTS_OTHERS, verifier):
        return frozenset()
    texts = collect_agent_texts(loaded, None)
    image = (data.decode(errors="replace") for data in texts.image.values())
    return find_byproducts(files, artifacts, verifier, (texts.instruction, *texts.context, *image))


def changes_in(snapshot: Evidence, blobs: BlobStore) -> tuple[Change, ...] | None:
    """Returns a sealed state's changes without Assay's own files and caches, or None without a manifest. Raises
    `StoreError`."""
    manifest = snapshot.data.get("manifest")
    if not isinstance(manifest, str):
        return None
    changes = msgspec.json.decode(blobs.get(manifest), type=tuple[Change, ...])
    return tuple(c for c in changes if not (c.path + "/").startswith(_OURS) and not _CACHES.search(c.path))


def _select_files(changes: Iterable[Change]) -> tuple[list[Change], tuple[str, ...]]:
    """Selects regular files, smaller ones first where not all fit; returns them in order of path."""
    files = [c for c in changes if c.type == "file" and _ODD not in c.path]
    selected: list[Change] = []
    left_out: list[str] = []
    size = 0
    for change in sorted(files, key=lambda c: (c.size or 0, c.path)):
        size += min(change.size or 0, MOST_KEPT_FILE)
        if len(selected) >= MOST_FILES or size > MOST_KEPT:
            left_out.append(change.path)
            continue
        if (change.size or 0) > MOST_KEPT_FILE:
            left_out.append(change.path)
        selected.append(change)
    return sorted(selected, key=lambda c: c.path), tuple(sorted(left_out))


def _read_solution_file(change: Change, before: bytes | None, blobs: BlobStore) -> SolutionFile:
    small = change.kind != "removed" and change.digest is not None and (change.size or 0) <= MOST_KEPT_FILE
    after = blobs.get(change.digest) if small and change.digest is not None else None
    return SolutionFile(change.path, before, after, change.mode if change.mode is not None else 0o644)


async def _read_pristine(paths: list[str], backend: Backend, spec: WorkspaceSpec) -> dict[str, bytes]:
    """Reads the image's files; skips those that are too large or unreadable."""
    if not paths:
        return {}
    workspace = await backend.open(spec)
    try:
        read = {path: await _read(workspace, path) for path in paths}
    finally:
        await workspace.close()
    return {path: data for path, data in read.items() if data is not None}


async def _read(workspace: Workspace, path: str) -> bytes | None:
    try:
        return await workspace.read(path, limit=MOST_KEPT_FILE)
    except (OSError, ValueError):
        return None


def _rewrite_problem(changes: tuple[Change, ...]) -> str | None:
    odd = next((c.path for c in changes if _ODD in c.path or c.type == "other"), None)
    if odd is not None:
        return f"the solution leaves {odd!r}, which is not a file, folder or link with a plain name"
    size = sum(c.size or 0 for c in changes if c.kind != "removed")
    if len(changes) > MOST_STATE_FILES or size > MOST_STATE_BYTES:
        return f"the solution leaves {len(changes)} changed paths with {size >> 20} MiB: too much to write again"
    large = next((c.path for c in changes if (c.size or 0) > MOST_FILE_BYTES and c.kind != "removed"), None)
    return None if large is None else f"{large} is larger than {MOST_FILE_BYTES >> 20} MiB"


def _verifier_text(loaded: LoadedTask) -> str:
    """Returns the verifier's files as one text; `UNKNOWN_VERIFIER` where some are unknown."""
    if loaded.folder is None or any(check.kind != "script" for check in loaded.task.checks):
        return UNKNOWN_VERIFIER
    folders = {posixpath.dirname(str(c.parameters.get("script", "tests/"))) for c in loaded.task.checks}
    paths = [path for name in sorted(folders) for path in _plain_files(loaded.folder / name)]
    if not paths or sum(path.stat().st_size for path in paths) > MOST_VERIFIER_TEXT:
        return UNKNOWN_VERIFIER
    return "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in paths)


def _plain_files(folder: Path) -> list[Path]:
    return [folder / name for name in sorted(_list_files(folder))] if folder.is_dir() else []


def _list_test_files(loaded: LoadedTask) -> Iterator[str]:
    if loaded.folder is None:
        return
    for check in loaded.task.checks:
        script = check.parameters.get("script")
        folder = loaded.folder / (posixpath.dirname(script) if isinstance(script, str) else "tests")
        if folder.is_dir():
            yield from sorted(_list_files(folder))[:MOST_TESTS]
            return


def _list_files(folder: Path) -> Iterator[str]:
    for path in folder.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path.relative_to(folder).as_posix()


def _module(path: str, workdir: str) -> str | None:
    """Returns the importable name of a Python file under the working directory or its `src`; else None."""
    if not path.endswith(".py"):
        return None
    inside = path.removeprefix(workdir.rstrip("/") + "/").removeprefix("src/")
    if inside.startswith("/"):
        return None
    parts = inside.removesuffix(".py").split("/")
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts) if parts and all(_MODULE.fullmatch(part) for part in parts) else None
