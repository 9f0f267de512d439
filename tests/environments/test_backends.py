"""Every backend passes the conformance suite, as the user that runs the tests."""

from __future__ import annotations

import asyncio

import pytest

from assay.environments.conformance import PROPERTIES, Property, check_backend
from assay.environments.interface import Backend, WorkspaceSpec
from assay.environments.workspace.bubblewrap import BubblewrapBackend
from assay.environments.workspace.engine import PodmanBackend
from assay.environments.workspace.namespaces import NamespacesBackend
from assay.environments.workspace.process import ProcessBackend
from assay.environments.workspace.toolchain import ToolLayer
from assay.errors import EnvironmentFailure


def made(name: str, toolchain: ToolLayer) -> Backend:
    if name == "process":
        return ProcessBackend()
    if name == "podman":
        return PodmanBackend(toolchain=toolchain)
    return NamespacesBackend() if name == "namespaces" else BubblewrapBackend(toolchain=toolchain)


@pytest.fixture(scope="module")
def missing(toolchain: ToolLayer) -> dict[str, str]:
    async def tried(name: str) -> str | None:
        backend = made(name, toolchain)
        try:
            await (await backend.open(WorkspaceSpec())).close()
        except EnvironmentFailure as exc:
            return str(exc)
        finally:
            await backend.close()
        return None

    reasons = {name: asyncio.run(tried(name)) for name in ("namespaces", "bubblewrap", "podman")}
    return {name: reason for name, reason in reasons.items() if reason is not None}


@pytest.mark.parametrize("trial", PROPERTIES, ids=lambda trial: trial.__name__)
@pytest.mark.parametrize(
    "name",
    ["namespaces", "bubblewrap", "process", pytest.param("podman", marks=[pytest.mark.docker, pytest.mark.slow])],
)
async def test_property(name: str, trial: Property, toolchain: ToolLayer, missing: dict[str, str]) -> None:
    if name in missing:
        pytest.skip(f"{name} does not work here: {missing[name]}")
    backend = made(name, toolchain)
    try:
        assert [f.problem for f in await check_backend(backend, properties=[trial])] == [None]
    finally:
        await backend.close()


async def test_a_backend_that_breaks_a_property_is_told() -> None:
    async def never_holds(backend: Backend, spec: WorkspaceSpec) -> None:
        workspace = await backend.open(spec)
        try:
            assert (await workspace.exec("echo 1")).stdout == "2\n", "one is two"
        finally:
            await workspace.close()

    backend = ProcessBackend()
    (finding,) = await check_backend(backend, properties=[never_holds])
    await backend.close()
    assert finding.name == "never_holds"
    assert "one is two" in (finding.problem or "")
