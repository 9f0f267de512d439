"""What the workspace tests share: the tool layer of the ordinary cache, made by `make setup` or here."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from assay.environments.interface import Backend
from assay.environments.workspace.bubblewrap import BubblewrapBackend
from assay.environments.workspace.engine import PodmanBackend
from assay.environments.workspace.namespaces import NamespacesBackend
from assay.environments.workspace.process import ProcessBackend
from assay.environments.workspace.toolchain import ToolLayer, ensure_toolchain
from assay.settings import Settings
from tests.one_loop import share_loop


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    share_loop(items, Path(__file__).parent)


@pytest.fixture(scope="session")
def cache() -> Path:
    return Settings.from_environment().cache


@pytest.fixture(scope="session")
def toolchain(cache: Path) -> ToolLayer:
    return ensure_toolchain(cache)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def backends(toolchain: ToolLayer) -> AsyncIterator[dict[str, Backend]]:
    """One backend of each kind, which the tests share; each test opens its own sandboxes."""
    made: dict[str, Backend] = {
        "namespaces": NamespacesBackend(),
        "bubblewrap": BubblewrapBackend(toolchain=toolchain),
        "process": ProcessBackend(),
        "podman": PodmanBackend(toolchain=toolchain),
    }
    yield made
    for backend in made.values():
        await backend.close()
