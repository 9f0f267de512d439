"""Skips tests of optional packages without importing them: every worker collects all tests, and one runs them."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

__all__ = ["require_packages"]


def require_packages(*names: str) -> None:
    """Skips the tests of a module if a package is not installed."""
    for name in names:
        if find_spec(name) is None:
            pytest.skip(f"{name} is not installed", allow_module_level=True)
