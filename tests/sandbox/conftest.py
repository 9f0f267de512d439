"""The `namespaces` backend in both of its tiers: as root, and as an ordinary user."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from assay.environments.interface import Workspace, WorkspaceSpec
from assay.environments.workspace.namespaces import NamespacesBackend
from tests.one_loop import share_loop
from tests.sampling import WHOLE

NOBODY = 65534
TIERS = ["root", "user"] if os.geteuid() == 0 else ["user"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    share_loop(items, Path(__file__).parent)
    if WHOLE:
        return
    left_out = find_other_tiers(items)
    items[:] = [item for item in items if item.nodeid not in left_out]
    config.hook.pytest_deselected(items=list(left_out.values()))


def find_other_tiers(items: list[pytest.Item]) -> dict[str, pytest.Item]:
    """Returns what only `make campaign` runs, by id: the suite runs each test in one tier, every second one as root."""
    tiers: dict[str, dict[str, pytest.Item]] = {}
    for item in items:
        spec = getattr(item, "callspec", None)
        if spec is not None and "tier" in spec.params and Path(__file__).parent in item.path.parents:
            others = "-".join(part for part in spec.id.split("-") if part != spec.params["tier"])
            tiers.setdefault(f"{item.nodeid.partition('[')[0]}[{others}]", {})[spec.params["tier"]] = item
    chosen = zip(tiers.values(), itertools.cycle(TIERS), strict=False)
    return {
        item.nodeid: item
        for by_tier, tier in chosen
        if len(by_tier) > 1
        for name, item in by_tier.items()
        if name != tier
    }


@pytest.fixture(params=TIERS)
def tier(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def make_backend(tier: str) -> NamespacesBackend:
    return NamespacesBackend(run_as=NOBODY if tier == "user" and os.geteuid() == 0 else None)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def backends() -> AsyncIterator[dict[str, NamespacesBackend]]:
    """A backend for each tier, which the tests share."""
    made = {tier: make_backend(tier) for tier in TIERS}
    yield made
    for backend in made.values():
        await backend.close()


@pytest_asyncio.fixture(loop_scope="session")
async def backend(tier: str, backends: dict[str, NamespacesBackend]) -> AsyncIterator[NamespacesBackend]:
    """The shared backend, without any sandbox or state before and after."""
    backend = backends[tier]
    yield backend
    for workspace in list(backend._open):
        await workspace.close()
    backend._snapshots.clear()
    await backend.drop_unused_layers()


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


@pytest_asyncio.fixture(loop_scope="session")
async def box(backend: NamespacesBackend) -> AsyncIterator[Workspace]:
    workspace = await backend.open(WorkspaceSpec())
    yield workspace
    await workspace.close()
