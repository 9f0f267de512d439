"""What tests of real harnesses share: a sandbox, and a reason to skip aloud where a harness is not installed."""

from __future__ import annotations

import pytest

from assay.agents.harnesses import find_recipe
from assay.agents.harnesses.install import installed_or_none
from assay.settings import Settings


@pytest.fixture
def need_installed() -> object:
    def need(name: str) -> None:
        if installed_or_none(Settings.from_environment().cache, find_recipe(name)) is None:
            pytest.skip(f"{name} is not installed: run `assay agents install {name}`")

    return need
