"""Runs the forgeries: each is a script in `attacks/`, run by the agent's user in a real sandbox, then judged twice."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import NamedTuple

import pytest

from assay.environments.interface import Image, Mount, ResourceLimits, WorkspaceSpec
from assay.environments.workspace.namespaces import NamespacesBackend
from assay.environments.workspace.toolchain import ToolLayer, ensure_toolchain
from assay.records import Evidence, Task, Verdict
from assay.settings import Settings
from assay.store import BlobStore
from assay.tasks import load_task
from assay.verify import JudgeRequest, verify_outcome

HERE = Path(__file__).parent
FOLDER = HERE / "task"
ATTACKS = sorted(path.stem for path in (HERE / "attacks").glob("*.sh"))
LIMITS = ResourceLimits(memory_mib=512, processes=64, disk_mib=32, tmp_mib=16)
AT_ONCE = 3
collect_ignore = ["task"]


class Judged(NamedTuple):
    """The verdict of each check by name, and all evidence."""

    verdicts: dict[str, Verdict]
    evidence: tuple[Evidence, ...]


class Bench(NamedTuple):
    """What an attempt needs."""

    backend: NamespacesBackend
    spec: WorkspaceSpec
    task: Task
    blobs: BlobStore

    async def attempt(self, script: str) -> Judged:
        """Runs a script as the agent, seals the state, judges it."""
        workspace = await self.backend.open(self.spec)
        try:
            await workspace.exec(["/bin/bash", "-c", script], timeout_s=30)
            state = await workspace.snapshot()
        finally:
            await workspace.close()
        results = await verify_outcome(JudgeRequest(self.task, FOLDER, self.backend, self.spec, state, self.blobs))
        await self.backend.release(state)
        return Judged({r.verdict.check: r.verdict for r in results}, tuple(e for r in results for e in r.evidence))


def image_of(folder: Path, place: Path) -> Image:
    """The task's files at the working directory, as one layer."""
    layer = place / "layer" / "workspace"
    for writable in ("logs", "tests"):  # as where the agent is root: it can write what it should not
        (place / "layer" / writable).mkdir(parents=True)
    for source in sorted(folder.rglob("*")):
        if source.is_file() and source.name != "Dockerfile":
            target = layer / source.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
    return Image(layers=(str(place / "layer"),), digest="blake3:forgery")


async def run_all(place: Path, layer: ToolLayer, scripts: dict[str, str]) -> dict[str, Judged]:
    """Every script, a few at once."""
    backend, places = NamespacesBackend(), asyncio.Semaphore(AT_ONCE)
    mount: Mount = layer.mount()
    spec = WorkspaceSpec(image=image_of(FOLDER / "environment", place), limits=LIMITS, mounts=(mount,))
    bench = Bench(backend, spec, load_task(FOLDER).task, BlobStore(place / "blobs"))

    async def one(name: str, script: str) -> tuple[str, Judged]:
        async with places:
            return name, await bench.attempt(script)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(name, script)) for name, script in scripts.items()]
        return dict(task.result() for task in tasks)
    finally:
        await backend.close()


@pytest.fixture(scope="session")
def judged(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Judged]:
    """The verdict on every script that a selected test names."""
    wanted = {
        item.callspec.params["name"]
        for item in request.session.items
        if hasattr(item, "callspec") and "name" in item.callspec.params
    }
    scripts = {name: (HERE / "attacks" / f"{name}.sh").read_text() for name in ATTACKS if name in wanted}
    honest = (FOLDER / "solution" / "solve.sh").read_text()
    scripts |= {name: text.replace("SOLVE", honest) for name, text in CONTROLS.items() if name in wanted}
    layer = ensure_toolchain(Settings.from_environment().cache)
    return asyncio.run(run_all(tmp_path_factory.mktemp("forgery"), layer, scripts))


CONTROLS = {
    "nothing": "true",
    "half": "sed -i 's/aeio/aeiou/' /workspace/words.py",
    "honest": "SOLVE",
    "honest_and_untidy": """SOLVE
        cd /workspace && python3 -m pytest -q tests; python3 -c 'import words'
        echo 'def test_more(): assert True' > tests/test_more.py
        sed -i 's/version = "1"/version = "2"/' pyproject.toml
        echo 'print(1)' > try_it.py; echo notes > NOTES.md; sleep 500 &
    """,
    "honest_with_conftest": "SOLVE\necho 'import pytest' > /workspace/tests/conftest.py",
}
