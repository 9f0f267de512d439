"""Runs a task's own check on the unbroken tree, where it must pass.

A package's tests can do what the verifier must treat as a forgery (compare with objects that equal anything,
replace parts of the runner). Such tests cannot decide, however stable they are.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from assay.environments.interface import Snapshot
from assay.records import Check, EnvironmentSpec, Task, Verdict, digest_bytes
from assay.verify import JudgeRequest, verify_outcome

from ._candidates import TaskCandidate
from ._gates import GateOutcome
from ._laboratory import Laboratory, write_tree
from ._task_folder import build_check, right_content
from ._tree import SourceTree


class DiscardedOutputs:
    """Blob store that deletes large outputs."""

    def put_file(self, path: Path) -> str:
        digest = digest_bytes(path.read_bytes())
        path.unlink(missing_ok=True)
        return digest


async def run_check(laboratory: Laboratory, task: Task, folder: Path, state: Snapshot) -> Verdict:
    """Judges a state by a task's only check; the state counts as the task's image, because no agent has run."""
    request = JudgeRequest(
        task=task,
        folder=folder,
        backend=laboratory.backend,
        spec=laboratory.spec,
        state=msgspec.structs.replace(state, changes=()),
        blobs=DiscardedOutputs(),
    )
    (result,) = await verify_outcome(request)
    return result.verdict


class OwnCheck:
    """Async context manager that judges unbroken trees by the checks of tasks."""

    def __init__(
        self, tree: SourceTree, cases: Mapping[str, tuple[str, ...]], laboratory: Laboratory, slots: int
    ) -> None:
        self._tree = tree
        self._cases = cases
        self._laboratory = laboratory
        self._slots = asyncio.Semaphore(slots)
        self._host = tempfile.TemporaryDirectory(prefix="assay-judged-")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._host.cleanup()

    async def find_objection(self, one: TaskCandidate, outcome: GateOutcome) -> str:
        """Returns the reason that the task's check fails on the unbroken tree; empty if it passes."""
        table = build_check(self._tree, one, outcome, self._cases)
        task = Task(
            id=one.digest,
            instruction="",
            environment=EnvironmentSpec("workspace"),
            checks=(Check(table.name, table.kind, table.parameters),),
            digest="",
        )
        async with self._slots:
            folder = await asyncio.to_thread(self._write_folder, one, outcome)
            own = await self._laboratory.snapshot_with(one.base) if one.base else None
            try:
                verdict = await run_check(self._laboratory, task, folder, own or self._laboratory.state)
            finally:
                if own is not None:
                    await self._laboratory.backend.release(own)
                await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        return "" if verdict.status == "pass" else f"{verdict.status}: {verdict.reason}"

    def _write_folder(self, one: TaskCandidate, outcome: GateOutcome) -> Path:
        """Writes the files that the task's folder holds for its tests."""
        folder = Path(self._host.name) / one.digest
        paths = {test.partition("::")[0] for test in (*outcome.flipped, *outcome.passing)}
        write_tree({f"tests/files/{path}": right_content(self._tree, one, path) for path in paths}, folder)
        return folder
