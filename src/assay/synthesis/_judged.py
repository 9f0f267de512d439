"""The last gate: the very check that will judge the task must pass on the unbroken tree.

A package's own tests can do what an honest judge has to take for a forgery (compare with objects that equal anything,
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

from assay.environments.interface import Backend, Snapshot
from assay.records import Check, EnvironmentSpec, Task, digest_bytes
from assay.verify import JudgeRequest, verify_outcome

from ._candidates import Candidate
from ._gates import Outcome
from ._laboratory import WORKSPACE, Laboratory, write_tree
from ._task_folder import check_of
from ._tree import SourceTree, is_test_file

__all__ = ["DiscardedOutputs", "Judge"]


class DiscardedOutputs:
    """Takes over large outputs and deletes them."""

    def put_file(self, path: Path) -> str:
        digest = digest_bytes(path.read_bytes())
        path.unlink(missing_ok=True)
        return digest


class Judge:
    """An async context manager; judges unbroken trees by the checks of tasks."""

    def __init__(
        self,
        tree: SourceTree,
        cases: Mapping[str, tuple[str, ...]],
        laboratory: Laboratory,
        backend: Backend,
        places: int,
    ) -> None:
        self._tree = tree
        self._cases = cases
        self._backend = backend
        self._laboratory = laboratory
        self._places = asyncio.Semaphore(places)
        self._host = tempfile.TemporaryDirectory(prefix="assay-judged-")

    async def __aenter__(self) -> Self:
        tests = {f"tests/files/{path}": self._tree.files[path] for path in self._tree.tests}
        await asyncio.to_thread(write_tree, tests, Path(self._host.name) / "tree")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._host.cleanup()

    async def objection(self, one: Candidate, outcome: Outcome) -> str:
        """Why the task's check does not pass on the unbroken tree; empty where it does."""
        table = check_of(self._tree, one, outcome, self._cases)
        task = Task(
            id=one.digest,
            instruction="",
            environment=EnvironmentSpec("workspace"),
            checks=(Check(table.name, table.kind, table.parameters),),
            digest="",
        )
        async with self._places:
            folder, state, own = Path(self._host.name) / "tree", self._laboratory.state, None
            if one.base:
                folder = await asyncio.to_thread(self._folder_of, one)
                state = own = await self._state_of(one)
            try:
                request = JudgeRequest(
                    task=task,
                    folder=folder,
                    backend=self._backend,
                    spec=self._laboratory.spec,
                    # Nobody has changed anything: what the laboratory put there is the image of the task to come.
                    state=msgspec.structs.replace(state, changes=()),
                    blobs=DiscardedOutputs(),
                )
                (result,) = await verify_outcome(request)
            finally:
                if own is not None:
                    await self._backend.release(own)
                    await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        return "" if result.verdict.status == "pass" else f"{result.verdict.status}: {result.verdict.reason}"

    def _folder_of(self, one: Candidate) -> Path:
        folder = Path(self._host.name) / one.digest
        texts = {path: data for path, data in self._tree.files.items() if is_test_file(path)}
        texts |= {path: (text or "").encode() for path, text in one.base.items() if is_test_file(path)}
        write_tree({f"tests/files/{path}": data for path, data in texts.items()}, folder)
        return folder

    async def _state_of(self, one: Candidate) -> Snapshot:
        workspace = await self._backend.open(self._laboratory.spec, state=self._laboratory.state)
        try:
            for path, text in sorted(one.base.items()):
                if text is not None:
                    await workspace.write(f"{WORKSPACE}/{path}", text.encode())
                else:
                    await workspace.exec(["rm", "-f", "--", f"{WORKSPACE}/{path}"])
            return await workspace.snapshot()
        finally:
            await workspace.close()
