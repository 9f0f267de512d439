"""A varied workspace can do what the one inside of it can, and its commands differ in the one thing."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from assay.environments import capabilities
from assay.environments.interface import Backend, MeasuresMemory, PipedExec, Workspace, WorkspaceSpec
from assay.environments.workspace.choose import choose_backend
from assay.rollout.capabilities import CAPABILITIES, capable_class
from assay.rollout.passing import PassingWorkspace
from assay.rollout.variation import Variation, VariedBackend

VARIATION = Variation("other", env={"VARIED": "yes"}, prefix=("/usr/bin/env", "PREFIXED=yes"), counted=True)


@pytest.fixture
async def backend() -> AsyncIterator[Backend]:
    made, _ = await choose_backend("namespaces", allow_unsafe=False)
    yield made
    await made.close()


async def opened(backend: Backend) -> tuple[VariedBackend, Workspace]:
    varied = VariedBackend(backend, VARIATION)
    return varied, await varied.open(WorkspaceSpec())


@pytest.mark.quick
def test_every_capability_is_passed_on() -> None:
    named = {getattr(capabilities, name) for name in capabilities.__all__}
    assert set(CAPABILITIES) == named | {MeasuresMemory}
    methods = {one: {name for name in vars(one) if not name.startswith("_")} for one in CAPABILITIES}
    assert {one: set(names) for one, names in CAPABILITIES.items()} == methods


async def test_a_varied_workspace_has_the_capabilities_of_the_one_inside(backend: Backend) -> None:
    _, workspace = await opened(backend)
    assert all(isinstance(workspace, one) for one in (*CAPABILITIES, PipedExec))
    forked = await workspace.fork()
    assert all(isinstance(forked, one) for one in (*CAPABILITIES, PipedExec))
    assert isinstance(forked, capabilities.DescribesSeparation)
    assert (await forked.facts()).namespaces
    await forked.close()
    await workspace.close()


@pytest.mark.quick
def test_a_wrapper_has_no_capability_that_the_one_inside_lacks() -> None:
    class Counting:
        async def orphans(self) -> int:
            return 3

    found = capable_class(PassingWorkspace, Counting())  # type: ignore[arg-type]
    assert [one for one in CAPABILITIES if issubclass(found, one)] == [capabilities.CountsOrphans]


async def test_a_command_that_is_joined_by_pipes_is_varied_and_counted(backend: Backend, tmp_path: Path) -> None:
    varied, workspace = await opened(backend)
    assert isinstance(workspace, PipedExec)
    with (tmp_path / "out").open("wb") as out, Path(os.devnull).open("rb") as empty:
        words = ["/bin/sh", "-c", "echo $VARIED $PREFIXED $OWN"]
        result = await workspace.exec_piped(words, empty.fileno(), out.fileno(), env={"OWN": "too"})
    await workspace.close()
    assert (result.exit_code, (tmp_path / "out").read_text()) == (0, "yes yes too\n")
    assert varied.usage.cpu_s is not None
    assert varied.usage.cpu_s > 0
