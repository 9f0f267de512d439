"""What the checks' own tests share: a sandbox, and a task folder written in a few words."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest
import pytest_asyncio

from assay.environments.interface import Image, ResourceLimits, Snapshot, WorkspaceSpec
from assay.environments.workspace.namespaces import NamespacesBackend
from assay.environments.workspace.toolchain import ToolLayer, ensure_toolchain
from assay.records import Check, EnvironmentSpec, Evidence, Oracle, Task, Verdict
from assay.settings import Settings
from assay.store import BlobStore
from assay.verify import JudgeRequest, verify_outcome
from assay.verify.splice.screening import Screen
from tests.one_loop import share_loop


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    share_loop(items, Path(__file__).parent)


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
        self.screen: Screen | None = None
        self.network: Literal["none", "host"] = "none"
        self.blobs = BlobStore(place / "blobs")
        self._place = place
        self._layer = layer
        self._states: list[Snapshot] = []

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
            self._states.append(state)
        finally:
            await workspace.close()
        request = JudgeRequest(
            task, self.folder, self.backend, spec, state, self.blobs, self.repetitions, screen=self.screen
        )
        (result,) = await verify_outcome(request)
        return Outcome(result.verdict, result.evidence)

    async def release_states(self) -> None:
        for state in self._states:
            await self.backend.release(state)


def write(folder: Path, files: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:  # what is the same keeps its time
            path.write_text(text)


@pytest.fixture(scope="session")
def tool_layer() -> ToolLayer:
    return ensure_toolchain(Settings.from_environment().cache)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared_backend() -> AsyncIterator[NamespacesBackend]:
    """The backend of all tests here: each opens its own sandboxes."""
    backend = NamespacesBackend()
    backend.max_cached = 16
    yield backend
    await backend.close()


@pytest_asyncio.fixture(loop_scope="session")
async def bench(tmp_path: Path, tool_layer: ToolLayer, shared_backend: NamespacesBackend) -> AsyncIterator[Bench]:
    bench = Bench(shared_backend, tmp_path, tool_layer)
    yield bench
    await bench.release_states()
