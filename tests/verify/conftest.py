"""What the checks' own tests share: a sandbox, and a task folder written in a few words."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest

from assay.environments.interface import Image, ResourceLimits, WorkspaceSpec
from assay.environments.workspace.namespaces import NamespacesBackend
from assay.environments.workspace.toolchain import ToolLayer, ensure_toolchain
from assay.records import Check, EnvironmentSpec, Evidence, Oracle, Task, Verdict
from assay.settings import Settings
from assay.store import BlobStore
from assay.verify import JudgeRequest, verify_outcome


class Outcome(NamedTuple):
    """The verdict of a single check, and its evidence."""

    verdict: Verdict
    evidence: tuple[Evidence, ...]

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        return [found.data for found in self.evidence if found.kind == kind]


class Bench:
    """Runs a command as the agent, then one check on what it left."""

    def __init__(self, backend: NamespacesBackend, place: Path, layer: ToolLayer) -> None:
        self.backend = backend
        self.folder = place / "task"
        self.files: dict[str, str] = {}
        self.given: dict[str, str] = {}
        self.environment: dict[str, Any] = {}
        self.repetitions = 1
        self.solution: str | None = None
        self.network: Literal["none", "host"] = "none"
        self.blobs = BlobStore(place / "blobs")
        self._place = place
        self._layer = layer

    def spec(self) -> WorkspaceSpec:
        layer = self._place / "layer"
        (layer / "workspace").mkdir(parents=True, exist_ok=True)
        write(layer, self.given)
        limits = ResourceLimits(memory_mib=512, processes=64, disk_mib=32, tmp_mib=16)
        image = Image(layers=(str(layer),), digest="blake3:bench")
        return WorkspaceSpec(image=image, limits=limits, mounts=(self._layer.mount(),), network=self.network)

    async def judge(self, command: str, kind: str, **parameters: Any) -> Outcome:
        """Judges what `command` leaves; the reference solution is `self.solution`, by default the same command."""
        write(self.folder, self.files)
        check = Check("the check", kind, parameters)
        oracle = Oracle(("/bin/sh", "-c", command if self.solution is None else self.solution))
        task = Task("t", "", EnvironmentSpec("workspace", self.environment), (check,), "blake3:task", oracle=oracle)
        spec = self.spec()
        workspace = await self.backend.open(spec)
        try:
            await workspace.exec(command, timeout_s=30)
            state = await workspace.snapshot()
        finally:
            await workspace.close()
        request = JudgeRequest(task, self.folder, self.backend, spec, state, self.blobs, self.repetitions)
        (result,) = await verify_outcome(request)
        return Outcome(result.verdict, result.evidence)


def write(folder: Path, files: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    make: Callable[[Path], ToolLayer] = ensure_toolchain
    layer = await asyncio.to_thread(make, Settings.from_environment().cache)
    backend = NamespacesBackend()
    try:
        yield Bench(backend, tmp_path, layer)
    finally:
        await backend.close()
