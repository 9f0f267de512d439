from __future__ import annotations

from assay.environments.interface import Snapshot, WorkspaceSpec
from assay.environments.workspace.namespaces import NamespacesBackend
from assay.environments.workspace.process import ProcessBackend
from assay.environments.workspace.selftest import self_test, sound
from assay.errors import EnvironmentFailure


class Closed(NamespacesBackend):
    async def open(self, spec: WorkspaceSpec, *, state: Snapshot | None = None) -> None:  # type: ignore[override]
        raise EnvironmentFailure("the kernel said no")


async def test_every_property_holds(backend: NamespacesBackend) -> None:
    findings = await self_test(backend)
    assert [f for f in findings if f.status != "held"] == []
    assert sound(findings)
    assert len(findings) == 13


async def test_what_cannot_be_tried_is_unknown(backend: NamespacesBackend) -> None:
    findings = await self_test(backend, python="no-python-here")
    assert {f.status for f in findings} == {"held", "unknown"}


async def test_a_sandbox_that_does_not_open_is_a_finding() -> None:
    findings = await self_test(Closed())
    assert not sound(findings)
    assert "the kernel said no" in findings[0].detail


async def test_a_backend_without_isolation_is_found_out() -> None:
    backend = ProcessBackend()
    broken = {f.name for f in await self_test(backend) if f.status == "broken"}
    await backend.close()
    assert {"own processes only", "the host's loopback network"} <= broken
