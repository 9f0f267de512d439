"""The start-up self-test: it holds where the sandbox does, and finds out one that does not isolate."""

from __future__ import annotations

from assay.environments.interface import Snapshot, WorkspaceSpec
from assay.environments.workspace.backend_probe import probe_backend
from assay.environments.workspace.namespaces import NamespacesBackend
from assay.environments.workspace.process import ProcessBackend
from assay.errors import EnvironmentFailure


class Closed(NamespacesBackend):
    async def open(self, spec: WorkspaceSpec, *, state: Snapshot | None = None) -> None:  # type: ignore[override]
        raise EnvironmentFailure("the kernel said no")


async def test_every_property_holds(backend: NamespacesBackend) -> None:
    found = await probe_backend(backend)
    assert found.problem is None
    assert [name for name, held in found.passed.items() if not held] == []
    assert len(found.passed) >= 15


async def test_a_sandbox_that_does_not_open_is_a_finding() -> None:
    found = await probe_backend(Closed())
    assert "the kernel said no" in (found.problem or "")


async def test_a_backend_without_isolation_is_found_out() -> None:
    backend = ProcessBackend()
    found = await probe_backend(backend)
    await backend.close()
    broken = {name for name, held in found.passed.items() if not held}
    assert {"the host's processes are hidden", "the host's network is hidden", "the host's files are hidden"} <= broken
