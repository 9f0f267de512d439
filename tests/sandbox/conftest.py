"""The `namespaces` backend in both of its tiers: as root, and as an ordinary user."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from assay.environments.interface import Workspace, WorkspaceSpec
from assay.environments.workspace.namespaces import NamespacesBackend

NOBODY = 65534
TIERS = ["root", "user"] if os.geteuid() == 0 else ["user"]


@pytest.fixture(params=TIERS)
def tier(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest_asyncio.fixture
async def backend(tier: str) -> AsyncIterator[NamespacesBackend]:
    run_as = NOBODY if tier == "user" and os.geteuid() == 0 else None
    made = NamespacesBackend(run_as=run_as)
    yield made
    await made.close()


@pytest.fixture
def shared(tier: str) -> Iterator[Path]:
    """A folder that the tier's user owns and may reach."""
    made = Path(tempfile.mkdtemp(prefix="assay-test-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


def give(path: Path, tier: str) -> None:
    """Makes the tier's user the owner of a tree."""
    if tier == "user" and os.geteuid() == 0:
        for inner in (path, *path.rglob("*")):
            os.chown(inner, NOBODY, NOBODY, follow_symlinks=False)


@pytest_asyncio.fixture
async def box(backend: NamespacesBackend) -> AsyncIterator[Workspace]:
    workspace = await backend.open(WorkspaceSpec())
    yield workspace
    await workspace.close()
