"""Fixtures: the base tasks, and one row for each attempt of the seeded sample."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from tests.adversary.attempts import Assignment, Row, make_attempts
from tests.adversary.base_tasks import write_base_tasks
from tests.adversary.campaign import assign, composed
from tests.adversary.library import Script, read_published, read_scripts

SEED = 7
"""Of the sample: another one is another sample."""
SCRIPTS, COMPOSED, HONEST = 2, 2, 1
collect_ignore_glob = ["scripts/*"]


@pytest.fixture(scope="session")
def base_folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_base_tasks(tmp_path_factory.mktemp("adversary"))


def _sample(folders: dict[str, Path]) -> list[Assignment]:
    """A few attempts of each role; every variant of a script counts as one."""
    chance = random.Random(SEED)
    by_role: dict[str, list[Script]] = {}
    for script in (*read_scripts(), *read_published()):
        by_role.setdefault(script.role, []).append(script)
    chosen = chance.sample(assign(by_role["attack"], folders), SCRIPTS)
    chosen += chance.sample(assign(by_role["honest"], folders), HONEST)
    published = assign(by_role.get("published", []), folders)
    chosen += chance.sample(published, min(SCRIPTS // 2, len(published)))
    return chosen + list(assign(composed(SEED, COMPOSED), folders))


@pytest.fixture(scope="session")
def sample_rows(base_folders: dict[str, Path]) -> list[Row]:
    """Rows of the sample, by the ordinary rollout in real sandboxes."""
    return asyncio.run(make_attempts(_sample(base_folders)))
