"""Runs a task's own check on the unbroken tree, where it must pass.

A package's tests can do what the verifier must treat as a forgery (compare with objects that equal anything,
replace parts of the runner). Such tests cannot decide, however stable they are. The check is the task's, with its
separation plan, and the tree stands where the task's image will be.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import msgspec

from assay.environments.interface import Image, PackedState, PacksStates, Snapshot, WorkspaceSpec
from assay.records import Check, EnvironmentSpec, Task, Verdict, digest_bytes
from assay.verify import JudgeRequest, verify_outcome
from assay.verify.separation_plan import PLAN_PATH, encode_plan

from ._candidates import TaskCandidate
from ._gates import GateOutcome
from ._laboratory import Laboratory, write_tree
from ._separation import plan_on_reference
from ._task_folder import build_check, right_content
from ._tree import SourceTree


class DiscardedOutputs:
    """Blob store that deletes large outputs."""

    def put_file(self, path: Path) -> str:
        digest = digest_bytes(path.read_bytes())
        path.unlink(missing_ok=True)
        return digest


async def run_check(
    laboratory: Laboratory, task: Task, folder: Path, state: Snapshot, spec: WorkspaceSpec | None = None
) -> Verdict:
    """Judges a state by a task's only check; the state counts as the task's image, because no agent has run."""
    request = JudgeRequest(
        task=task,
        folder=folder,
        backend=laboratory.backend,
        spec=spec or laboratory.spec,
        state=msgspec.structs.replace(state, changes=()),
        blobs=DiscardedOutputs(),
    )
    (result,) = await verify_outcome(request)
    return result.verdict


class _TreeImage(NamedTuple):
    spec: WorkspaceSpec
    """With the tree as image."""
    state: Snapshot
    """The image, unchanged."""


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
        self._image: _TreeImage | None = None
        self._reading_image = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._image is not None:
            await self._laboratory.backend.release(self._image.state)
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
        image = None if one.base or outcome.plan is None else await self._open_image()
        async with self._slots:
            folder = await asyncio.to_thread(self._write_folder, one, outcome, apart=image is not None)
            own = await self._laboratory.snapshot_with(one.base) if one.base else None
            state = image.state if image is not None else own or self._laboratory.state
            try:
                verdict = await run_check(self._laboratory, task, folder, state, image and image.spec)
            finally:
                if own is not None:
                    await self._laboratory.backend.release(own)
                await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        return "" if verdict.status == "pass" else f"{verdict.status}: {verdict.reason}"

    async def _open_image(self) -> _TreeImage | None:
        """Returns the unbroken tree as an image, written once; None where the sandboxes' states cannot be read."""
        backend, spec = self._laboratory.backend, self._laboratory.spec
        if not isinstance(backend, PacksStates):
            return None
        async with self._reading_image:
            if self._image is None:
                packed = await backend.pack(self._laboratory.state)
                layer = Path(self._host.name) / "image"
                await asyncio.to_thread(_write_image, packed, layer)
                spec = msgspec.structs.replace(spec, image=Image((str(layer),), self._laboratory.state.digest))
                workspace = await backend.open(spec)
                try:
                    self._image = _TreeImage(spec, await workspace.snapshot())
                finally:
                    await workspace.close()
        return self._image

    def _write_folder(self, one: TaskCandidate, outcome: GateOutcome, *, apart: bool) -> Path:
        """Writes the files that the task's folder holds for its tests, with `apart` its separation plan, too."""
        folder = Path(self._host.name) / one.digest
        paths = {test.partition("::")[0] for test in (*outcome.flipped, *outcome.passing)}
        files = {f"tests/files/{path}": right_content(self._tree, one, path) for path in paths}
        if apart and outcome.plan is not None:
            files[PLAN_PATH] = encode_plan(plan_on_reference(outcome.plan, self._tree))
        write_tree(files, folder)
        return folder


def _write_image(packed: PackedState, layer: Path) -> None:
    layer.mkdir()
    for change, handle in packed.files():
        if change.type == "file":
            path = layer / change.path.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(handle.read())
