"""Shared paths of the test suite."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

# A busy machine is no failure of a property.
settings.register_profile("assay", deadline=None)
settings.load_profile("assay")

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real recorded runs beside the checkout; the test skips where they are absent."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("../shared/data is not here: tests on real recorded runs need it")
    return folder
