"""What tests of real harnesses share: a sandbox, and a reason to skip aloud where a harness is not installed."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from assay.agents.harnesses import find_recipe
from assay.agents.harnesses.install import installed_or_none
from assay.environments.interface import Backend, WorkspaceSpec
from assay.environments.workspace.namespaces import NamespacesBackend
from assay.errors import EnvironmentFailure
from assay.settings import Settings


@pytest.fixture
async def sandboxes() -> AsyncIterator[Backend]:
    backend = NamespacesBackend()
    try:
        await (await backend.open(WorkspaceSpec())).close()
    except EnvironmentFailure as exc:
        pytest.skip(f"no namespaces here: {exc}")
    yield backend
    await backend.close()


@pytest.fixture
def need_installed() -> object:
    def need(name: str) -> None:
        if installed_or_none(Settings.from_environment().cache, find_recipe(name)) is None:
            pytest.skip(f"{name} is not installed: run `assay agents install {name}`")

    return need
