"""A run that was really made, once for all tests here."""

from __future__ import annotations

import msgspec
import pytest

from assay.settings import Settings
from tests.learning.curation.made import assay


@pytest.fixture(scope="session")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A store with a run of 4 tasks, 4 attempts each, by an expert that errs half of the time."""
    store = tmp_path_factory.mktemp("store")
    words = ["run", "family:grid,n=4,seed=3,turns=4", "--agent", "expert", "--agent-option", "noise=0.5"]
    assay(*words, "--attempts", "4", "--run", "g", "--store", str(store))
    return msgspec.structs.replace(Settings.from_environment(), store=store)
