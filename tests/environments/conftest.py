"""What the workspace tests share: the tool layer of the ordinary cache, made by `make setup` or here."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.environments.workspace.toolchain import ToolLayer, ensure_toolchain
from assay.settings import Settings


@pytest.fixture(scope="session")
def cache() -> Path:
    return Settings.from_environment().cache


@pytest.fixture(scope="session")
def toolchain(cache: Path) -> ToolLayer:
    return ensure_toolchain(cache)
