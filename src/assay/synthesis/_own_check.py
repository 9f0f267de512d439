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
from ._task_folder import build_check
from ._tree import SourceTree, is_test_file


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
        tests = {f"tests/files/{path}": self._tree.files[path] for path in self._tree.tests}
        await asyncio.to_thread(write_tree, tests, Path(self._host.name) / "tree")
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
            folder, state, own = Path(self._host.name) / "tree", self._laboratory.state, None
            if one.base:
                folder = await asyncio.to_thread(self._folder_of, one)
                state = own = await self._laboratory.snapshot_with(one.base)
            try:
                verdict = await run_check(self._laboratory, task, folder, state)
            finally:
                if own is not None:
                    await self._laboratory.backend.release(own)
                    await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        return "" if verdict.status == "pass" else f"{verdict.status}: {verdict.reason}"

    def _folder_of(self, one: TaskCandidate) -> Path:
        folder = Path(self._host.name) / one.digest
        texts = {path: data for path, data in self._tree.files.items() if is_test_file(path)}
        texts |= {path: (text or "").encode() for path, text in one.base.items() if is_test_file(path)}
        write_tree({f"tests/files/{path}": data for path, data in texts.items()}, folder)
        return folder
