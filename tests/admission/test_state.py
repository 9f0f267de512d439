"""What the solution left, known and written again, in a real sandbox; the circumstances that attempts are put in."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from assay.admission.knowledge import SolutionRecord, extract_knowledge
from assay.admission.variations import CIRCUMSTANCES, CONTROLS, CircumstanceOracle, circumstances
from assay.agents.interface import Attempt
from assay.agents.rewrite import put_state
from assay.environments.interface import Backend, Change, WorkspaceSpec
from assay.environments.workspace.choose import choose_backend
from assay.errors import AgentError
from assay.records import Trajectory
from assay.rollout import RunConfig, Tally
from assay.rollout.attempt.variation import Variation, VariedBackend
from assay.rollout.plan import PlannedAttempt, plan
from assay.rollout.runs import RunResources, open_resources, run_attempts
from assay.settings import Settings
from assay.store import RunStore
from assay.tasks import LoadedTask, load_task
from tests.admission.folders import CAREFUL, write_task

SOLUTION = """echo 42 > answer.txt
mkdir -p out/deep && printf '#!/bin/sh\\necho hi\\n' > out/deep/run && chmod 755 out/deep/run
ln -s ../answer.txt out/link
rm given.txt
printf 'def f():\\n    return 2\\n' > pkg.py
mkdir -p __pycache__ && echo x > __pycache__/pkg.pyc
"""


class Solver:
    """The agent of these tests: runs the solution's commands."""

    name = "solver"
    needs_model = False

    async def run(self, attempt: Attempt) -> None:
        await attempt.shell(SOLUTION)
        attempt.finish("done")


@pytest.fixture
def loaded(tmp_path: Path) -> LoadedTask:
    folder = write_task(tmp_path / "careful", CAREFUL)
    (folder / "environment" / "given.txt").write_text("given\n")
    (folder / "environment" / "pkg.py").write_text("def f():\n    return 1\n")
    (folder / "environment" / "Dockerfile").write_text("FROM scratch\nWORKDIR /workspace\nCOPY given.txt pkg.py ./\n")
    return load_task(folder)


@pytest.fixture
async def means(tmp_path: Path, loaded: LoadedTask) -> AsyncIterator[RunResources]:
    settings = Settings(cache=Settings.from_environment().cache, store=tmp_path / "store")
    async with open_resources(RunConfig(tasks=("-",), concurrency=1), settings, [loaded], Solver()) as found:
        yield found


async def attempted(
    tmp_path: Path, means: RunResources, loaded: LoadedTask, **fields: object
) -> tuple[RunStore, Trajectory]:
    (one,) = plan([loaded], "solver", 1, seed=0, limits=loaded.task.limits)
    planned = PlannedAttempt(**{**one._asdict(), **fields})
    store = RunStore.create(tmp_path / "store", "r", {})
    await run_attempts(store, means, [planned], Tally())
    return store, store.trajectory(f"{planned.id}.0")


async def known_of(
    tmp_path: Path, means: RunResources, loaded: LoadedTask
) -> tuple[SolutionRecord, WorkspaceSpec, Backend]:
    assert means.preparer is not None
    store, trajectory = await attempted(tmp_path, means, loaded)
    spec, backend = await means.preparer.spec(loaded), means.preparer.backend
    known = await extract_knowledge(loaded, trajectory, store.blobs, backend, spec)
    store.close()
    assert known is not None
    return known, spec, backend


async def test_knowledge_is_what_was_there_and_what_was_left(
    tmp_path: Path, means: RunResources, loaded: LoadedTask
) -> None:
    known, *_ = await known_of(tmp_path, means, loaded)
    files = {file.path: (file.before, file.after) for file in known.knowledge.changed}
    assert files == {
        "/workspace/answer.txt": (None, b"42\n"),
        "/workspace/given.txt": (b"given\n", None),
        "/workspace/out/deep/run": (None, b"#!/bin/sh\necho hi\n"),
        "/workspace/pkg.py": (b"def f():\n    return 1\n", b"def f():\n    return 2\n"),
    }
    assert (known.knowledge.python, known.knowledge.tests) == (("pkg",), ("test.sh",))
    assert (known.problem, known.left_out, known.knowledge.steps) == (None, (), ())


async def test_a_state_that_is_written_again_is_the_same_state(
    tmp_path: Path, means: RunResources, loaded: LoadedTask
) -> None:
    known, spec, backend = await known_of(tmp_path, means, loaded)
    workspace = await backend.open(spec)
    try:
        await put_state(workspace, known.state, {})
        assert await workspace.diff() == known.state.changes
    finally:
        await workspace.close()


async def test_a_rewrite_differs_where_it_says_and_nowhere_else(
    tmp_path: Path, means: RunResources, loaded: LoadedTask
) -> None:
    known, spec, backend = await known_of(tmp_path, means, loaded)
    workspace = await backend.open(spec)
    try:
        await put_state(workspace, known.state, {"/workspace/pkg.py": None, "/workspace/answer.txt": b"41\n"})
        changed = {c.path: c for c in await workspace.diff()}
        assert await workspace.read("/workspace/answer.txt") == b"41\n"
    finally:
        await workspace.close()
    assert "/workspace/pkg.py" not in changed
    assert set(changed) == {c.path for c in known.state.changes} - {"/workspace/pkg.py"}


async def test_a_file_too_large_to_write_again_is_said() -> None:
    from assay.agents.rewrite import MOST_FILE_BYTES, StateFiles, _batches, _entries

    change = Change("/w/large", "added", "file", 0o644, MOST_FILE_BYTES + 1, "blake3:x")
    state = StateFiles((change,), lambda _: bytes(MOST_FILE_BYTES + 1))
    with pytest.raises(AgentError, match="/w/large is larger than 15 MiB"):
        list(_batches(_entries(state, {})))


@pytest.mark.long
async def test_every_circumstance_that_can_be_had_here_is_seen_to_hold(tmp_path: Path) -> None:
    backend, _ = await choose_backend(None)
    settings = Settings.from_environment()
    from assay.environments.workspace.toolchain import ensure_toolchain

    layer = ensure_toolchain(settings.cache)
    spec = WorkspaceSpec(mounts=(layer.mount(),), network="host")
    tried = 0
    try:
        for one in circumstances(spec, tmp_path):
            if one.missing is not None or one.control is None:
                continue
            for varied, holds in ((True, True), (False, False)):
                opener = VariedBackend(backend, one.variation if varied else Variation())
                workspace = await opener.open(msgspec.structs.replace(spec, network="none"))
                seen = await workspace.exec(one.control)
                await workspace.close()
                assert one.holds(seen.stdout.strip()) == holds, (one.name, varied, seen)
            tried += 1
    finally:
        await backend.close()
    assert tried >= 4


@pytest.mark.quick
def test_all_circumstances_are_listed_and_what_is_missing_says_why(tmp_path: Path) -> None:
    found = list(circumstances(WorkspaceSpec(), tmp_path))
    assert [one.name for one in found if one.name not in CONTROLS] == list(CIRCUMSTANCES)
    assert all(one.missing for one in found if one.variation == Variation() and not one.as_always)
    assert next(one for one in found if one.name == "no-network").as_always


async def test_where_a_circumstance_does_not_hold_nothing_is_done(
    tmp_path: Path, means: RunResources, loaded: LoadedTask
) -> None:
    (one,) = [c for c in circumstances(WorkspaceSpec(), tmp_path) if c.name == "hash-seed"]
    agent = CircumstanceOracle(one)
    store, trajectory = await attempted(tmp_path, means, loaded, agent=agent, variation=Variation("none"))
    store.close()
    assert trajectory.outcome == "fail"
    assert [e.data["holds"] for e in trajectory.evidence if e.kind == "circumstance"] == [False]
    assert trajectory.steps == ()


async def test_what_judging_takes_is_measured(tmp_path: Path, means: RunResources, loaded: LoadedTask) -> None:
    store, trajectory = await attempted(tmp_path, means, loaded, variation=Variation("measured", measured=True))
    store.close()
    (cost,) = [e.data for e in trajectory.evidence if e.kind == "verification_cost"]
    assert trajectory.outcome == "pass"
    assert cost["busy_s"] > 0
    assert 1 << 20 < cost["peak_bytes"] < 512 << 20


async def test_processor_seconds_of_solution_and_verifier_are_counted(
    tmp_path: Path, means: RunResources, loaded: LoadedTask
) -> None:
    store, trajectory = await attempted(tmp_path, means, loaded, variation=Variation(counted=True))
    store.close()
    (used,) = [e.data for e in trajectory.evidence if e.kind == "attempt_cost"]
    assert trajectory.outcome == "pass"
    assert 0.0 < used["cpu_s"] < 60.0
